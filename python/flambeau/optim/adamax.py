"""Adamax: Adam with the maximum norm (Kingma and Ba 2014, section 7)."""

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

__all__ = ["Adamax"]


class Adamax(_PerParameter):
    """p -= lr / (1 - beta1^t) * m / u with u = max(beta2 * u, |g| + eps)."""

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        _check_lr("Adamax", lr)
        _check_options(
            "Adamax", epsilon=(eps, eps >= 0), weight_decay=(weight_decay, weight_decay >= 0)
        )
        _check_betas(betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _init_state(self, group, p, state):
        state["step"] = _new_step()
        state["exp_avg"] = flambeau.zeros_like(p)
        state["exp_inf"] = flambeau.zeros_like(p)

    def _update(self, group, p, grad, state):
        beta1, beta2 = group["betas"]
        state["step"] += 1
        grad = _decayed(group, p, grad)
        p, grad, mean, largest = _real(p, grad, state["exp_avg"], state["exp_inf"])
        mean.lerp_(grad, 1 - beta1)
        bound = grad.abs().add_(group["eps"])
        largest.copy_(flambeau.maximum(largest.mul_(beta2), bound))
        lr = _number(group["lr"]) / (1 - beta1 ** state["step"].item())
        p.addcdiv_(mean, largest, value=-lr)
