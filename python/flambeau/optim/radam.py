"""RAdam: Adam with a rectified variance (Liu et al. 2019)."""

import flambeau
from flambeau.optim.adam import _check_betas
from flambeau.optim.optimizer import (
    _check_lr,
    _check_options,
    _decayed,
    _new_step,
    _number,
    _PerParameter,
    _real,
)

__all__ = ["RAdam"]


class RAdam(_PerParameter):
    """Adam that takes plain momentum steps until the variance of its step size is finite."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        _check_lr("RAdam", lr)
        _check_options(
            "RAdam", epsilon=(eps, eps >= 0), weight_decay=(weight_decay, weight_decay >= 0)
        )
        _check_betas(betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("decoupled_weight_decay", False)

    def _init_state(self, group, p, state):
        state["step"] = _new_step()
        state["exp_avg"] = flambeau.zeros_like(p)
        state["exp_avg_sq"] = flambeau.zeros_like(p)

    def _update(self, group, p, grad, state):
        (beta1, beta2), lr = group["betas"], _number(group["lr"])
        state["step"] += 1
        step = state["step"].item()
        grad = _decayed(group, p, grad, lr)
        p, grad, mean, square = _real(p, grad, state["exp_avg"], state["exp_avg_sq"])
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        corrected = mean / (1 - beta1**step)
        left = 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * (beta2**step) / left
        if length <= 5.0:
            p.add_(corrected * lr, alpha=-1.0)
            return
        rectified = (
            (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        ) ** 0.5
        scale = (left**0.5) / square.sqrt().add_(group["eps"])
        p.add_(corrected * lr * scale * rectified, alpha=-1.0)
