"""Averaged stochastic gradient descent (Polyak and Juditsky 1992)."""

import flambeau
from flambeau.optim.optimizer import (
    _check_lr,
    _check_options,
    _decayed,
    _number,
    _PerParameter,
    _real,
    _step_dtype,
)

__all__ = ["ASGD"]


class ASGD(_PerParameter):
    """SGD with the average of the parameters in `state[p]["ax"]`, from step t0 on."""

    def __init__(
        self,
        params,
        lr=1e-2,
        lambd=1e-4,
        alpha=0.75,
        t0=1e6,
        weight_decay=0,
        foreach=None,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        _check_lr("ASGD", lr)
        _check_options("ASGD", weight_decay=(weight_decay, weight_decay >= 0))
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for s in self.state.values():
            for key in ("eta", "mu"):
                if key in s and not isinstance(s[key], flambeau.Tensor):
                    s[key] = flambeau.tensor(s[key], dtype=_step_dtype())

    def _init_state(self, group, p, state):
        state["step"] = flambeau.zeros((), dtype=_step_dtype())
        state["eta"] = flambeau.tensor(_number(group["lr"]), dtype=_step_dtype())
        state["mu"] = flambeau.ones((), dtype=_step_dtype())
        state["ax"] = flambeau.zeros_like(p)

    def _update(self, group, p, grad, state):
        lambd, lr = group["lambd"], _number(group["lr"])
        state["step"] += 1
        step = state["step"].item()
        grad = _decayed(group, p, grad)
        p, grad, average = _real(p, grad, state["ax"])
        eta, mu = state["eta"].item(), state["mu"].item()
        p.mul_(1 - lambd * eta)
        p.add_(grad, alpha=-eta)
        if mu == 1:
            average.copy_(p)
        else:
            average.add_(p.sub(average).mul_(mu))
        state["eta"].fill_(lr / ((1 + lambd * lr * step) ** group["alpha"]))
        state["mu"].fill_(1 / max(1, step - group["t0"]))
