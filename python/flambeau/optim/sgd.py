"""Stochastic gradient descent."""

import flambeau
from flambeau import _C
from flambeau.optim.optimizer import (
    Optimizer,
    _check_lr,
    _check_options,
    _decayed,
    _number,
    _run_closure,
)

__all__ = ["SGD"]


class SGD(Optimizer):
    """p -= lr * g, with g += weight_decay * p and, with momentum,
    b = momentum * b + (1 - dampening) * g, which stands for g (Nesterov: g + momentum * b).
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        *,
        maximize=False,
        foreach=None,
        differentiable=False,
        fused=None,
    ):
        _check_lr("SGD", lr)
        _check_options(
            "SGD",
            momentum=(momentum, momentum >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
        )
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        _check_fused("SGD", fused, foreach, differentiable)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name in ("nesterov", "maximize", "differentiable"):
                group.setdefault(name, False)
            group.setdefault("foreach", None)
            group.setdefault("fused", None)

    def step(self, closure=None):
        """Updates the parameters; returns what `closure`, which runs first, returned."""
        loss = None if closure is None else _run_closure(closure)
        for group in self.param_groups:
            if group["differentiable"]:
                _step_differentiably(self.state, group)
                continue
            done = _C._sgd_step(
                group["params"],
                self.state,
                group["lr"],
                group["momentum"],
                group["dampening"],
                group["weight_decay"],
                group["nesterov"],
                group["maximize"],
            )
            if done is False:  # sparse gradients
                with flambeau.no_grad():
                    _step_differentiably(self.state, group)
        return loss


def _check_fused(name, fused, foreach, differentiable):
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _step_differentiably(state, group):
    """The same with ops that the tape records."""
    momentum = group["momentum"]
    for p in group["params"]:
        if p.grad is None:
            continue
        grad = -p.grad if group["maximize"] else p.grad
        grad = _decayed(group, p, grad)
        if momentum != 0:
            buf = state[p].get("momentum_buffer")
            if buf is None:
                buf = state[p]["momentum_buffer"] = grad.detach().clone()
            else:
                buf.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buf, alpha=momentum) if group["nesterov"] else buf
        if isinstance(group["lr"], flambeau.Tensor) and group["lr"].requires_grad:
            p.addcmul_(grad, group["lr"], value=-1)
        else:
            p.add_(grad, alpha=-_number(group["lr"]))
