"""Rprop (Riedmiller and Braun 1993)."""

import flambeau
from flambeau.optim.optimizer import (
    _check_lr,
    _check_options,
    _new_step,
    _number,
    _PerParameter,
    _real,
)

__all__ = ["Rprop"]


class Rprop(_PerParameter):
    """Steps of a size of their own per element: it grows while the sign of g stays."""

    def __init__(
        self,
        params,
        lr=1e-2,
        etas=(0.5, 1.2),
        step_sizes=(1e-6, 50),
        *,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        _check_lr("Rprop", lr)
        _check_options("Rprop", etas=(etas, 0.0 < etas[0] < 1.0 < etas[1]))
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _init_state(self, group, p, state):
        lr = _number(group["lr"])
        state["step"] = _new_step()
        state["prev"] = flambeau.zeros_like(p)
        start = complex(lr, lr) if flambeau.is_complex(p) else lr
        state["step_size"] = flambeau.full_like(p.grad, start)

    def _update(self, group, p, grad, state):
        shrink, grow = group["etas"]
        state["step"] += 1
        p, grad, prev, size = _real(p, grad, state["prev"], state["step_size"])
        if group["differentiable"]:
            prev_now = prev.clone()
        else:
            prev_now = prev
        agree = grad.mul(prev_now).sign()
        factor = (
            flambeau.ones_like(size).masked_fill_(agree > 0, grow).masked_fill_(agree < 0, shrink)
        )
        size.mul_(factor).clamp_(*group["step_sizes"])
        # Where the sign turned, this step is left out and the next one counts as a first one.
        grad = flambeau.where(agree < 0, flambeau.zeros_like(grad), grad)
        p.addcmul_(grad.sign(), size, value=-1)
        prev.copy_(grad)
