"""Adadelta (Zeiler 2012)."""

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

__all__ = ["Adadelta"]


class Adadelta(_PerParameter):
    """p -= lr * d with d = g * sqrt(u + eps) / sqrt(v + eps); v and u follow g^2 and d^2."""

    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ):
        _check_lr("Adadelta", lr)
        _check_options(
            "Adadelta",
            rho=(rho, 0 <= rho <= 1),
            epsilon=(eps, eps >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def _init_state(self, group, p, state):
        state["step"] = _new_step()
        state["square_avg"] = flambeau.zeros_like(p)
        state["acc_delta"] = flambeau.zeros_like(p)

    def _update(self, group, p, grad, state):
        rho, eps = group["rho"], group["eps"]
        state["step"] += 1
        grad = _decayed(group, p, grad)
        p, grad, square, moved = _real(p, grad, state["square_avg"], state["acc_delta"])
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        std = square.add(eps).sqrt_()
        delta = moved.add(eps).sqrt_()
        if group["differentiable"]:
            delta = delta.clone()
        delta.div_(std).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-_number(group["lr"]))
