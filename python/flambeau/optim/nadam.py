"""NAdam: Adam with Nesterov momentum (Dozat 2016)."""

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
    _step_dtype,
)

__all__ = ["NAdam"]


class NAdam(_PerParameter):
    """Adam whose step mixes g and the next m, with mu_t = beta1 * (1 - 0.96^(t * decay) / 2)."""

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        _check_lr("NAdam", lr)
        _check_options(
            "NAdam",
            epsilon=(eps, eps >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
            momentum_decay=(momentum_decay, momentum_decay >= 0),
        )
        _check_betas(betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("decoupled_weight_decay", False)
        for s in self.state.values():
            if "mu_product" in s and not isinstance(s["mu_product"], flambeau.Tensor):
                s["mu_product"] = flambeau.tensor(s["mu_product"], dtype=_step_dtype())

    def _init_state(self, group, p, state):
        state["step"] = _new_step()
        state["mu_product"] = flambeau.ones((), dtype=_step_dtype())
        state["exp_avg"] = flambeau.zeros_like(p)
        state["exp_avg_sq"] = flambeau.zeros_like(p)

    def _update(self, group, p, grad, state):
        (beta1, beta2), lr = group["betas"], _number(group["lr"])
        state["step"] += 1
        step = state["step"].item()
        grad = _decayed(group, p, grad, lr)
        p, grad, mean, square = _real(p, grad, state["exp_avg"], state["exp_avg_sq"])
        decay = group["momentum_decay"]
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (step * decay)))
        mu_next = beta1 * (1.0 - 0.5 * (0.96 ** ((step + 1) * decay)))
        state["mu_product"] *= mu
        product = state["mu_product"].item()
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denom = square.div(1 - beta2**step).sqrt().add_(group["eps"])
        p.addcdiv_(grad, denom, value=-lr * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(mean, denom, value=(-lr * mu_next) / (1.0 - product * mu_next))
