"""RMSprop (Hinton 2012), centred after Graves 2013."""

import flambeau
from flambeau.optim.optimizer import (
    _check_lr,
    _check_options,
    _decayed,
    _new_step,
    _number,
    _PerParameter,
    _real,
)

__all__ = ["RMSprop"]


class RMSprop(_PerParameter):
    """p -= lr * g / (sqrt(v) + eps), v following g^2; centred: v minus the squared mean of g."""

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        _check_lr("RMSprop", lr)
        _check_options(
            "RMSprop",
            epsilon=(eps, eps >= 0),
            momentum=(momentum, momentum >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
            alpha=(alpha, alpha >= 0),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("momentum", 0)
            group.setdefault("centered", False)

    def _init_state(self, group, p, state):
        state["step"] = _new_step()
        state["square_avg"] = flambeau.zeros_like(p)
        if group["momentum"] > 0:
            state["momentum_buffer"] = flambeau.zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = flambeau.zeros_like(p)

    def _update(self, group, p, grad, state):
        alpha, lr = group["alpha"], _number(group["lr"])
        state["step"] += 1
        grad = _decayed(group, p, grad)
        p, grad, square = _real(p, grad, state["square_avg"])
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            (mean,) = _real(state["grad_avg"])
            mean.lerp_(grad, 1 - alpha)
            std = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            std = square.sqrt()
        std = std.add(group["eps"]) if group["differentiable"] else std.add_(group["eps"])
        if group["momentum"] > 0:
            (buf,) = _real(state["momentum_buffer"])
            buf.mul_(group["momentum"]).addcdiv_(grad, std)
            p.add_(buf, alpha=-lr)
        else:
            p.addcdiv_(grad, std, value=-lr)
