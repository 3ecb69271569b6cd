"""Adam (Kingma and Ba 2014), with AMSGrad (Reddi, Kale and Kumar 2018) as an option."""

import flambeau
from flambeau import _C, Tensor
from flambeau.optim.optimizer import (
    Optimizer,
    _as_step_tensors,
    _check_lr,
    _check_options,
    _decayed,
    _new_step,
    _number,
    _real,
    _run_closure,
)
from flambeau.optim.sgd import _check_fused

__all__ = ["Adam"]


class Adam(Optimizer):
    """m and v follow g and g^2; p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    ):
        name = type(self).__name__
        _check_lr(name, lr)
        _check_options(
            name, epsilon=(eps, eps >= 0), weight_decay=(weight_decay, weight_decay >= 0)
        )
        _check_betas(betas)
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        _check_fused(name, fused, foreach, differentiable)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name in ("amsgrad", "maximize", "capturable", "differentiable"):
                group.setdefault(name, False)
            group.setdefault("decoupled_weight_decay", self.defaults.get("decoupled_weight_decay"))
            group.setdefault("foreach", None)
            group.setdefault("fused", None)
        _as_step_tensors(self.state)

    def step(self, closure=None):
        """Updates the parameters; returns what `closure`, which runs first, returned."""
        loss = None if closure is None else _run_closure(closure)
        for group in self.param_groups:
            if group["differentiable"]:
                self._step_differentiably(group)
                continue
            if group["capturable"]:
                _refuse_capturable(group)
            beta1, beta2 = group["betas"]
            _C._adam_step(
                group["params"],
                self.state,
                self._fill_amsgrad if group["amsgrad"] else self._fill,
                group["lr"],
                beta1,
                beta2,
                group["eps"],
                group["weight_decay"],
                group["amsgrad"],
                group["maximize"],
                group["decoupled_weight_decay"],
            )
        return loss

    def _fill(self, p):
        """The state of a parameter before its first step."""
        with flambeau.no_grad():
            state = self.state[p]
            state["step"] = _new_step()
            state["exp_avg"] = flambeau.zeros_like(p)
            state["exp_avg_sq"] = flambeau.zeros_like(p)

    def _fill_amsgrad(self, p):
        self._fill(p)
        self.state[p]["max_exp_avg_sq"] = flambeau.zeros_like(p.detach())

    def _step_differentiably(self, group):
        """The same with ops that the tape records."""
        (beta1, beta2), lr, eps = group["betas"], group["lr"], group["eps"]
        for p in group["params"]:
            if p.grad is None:
                continue
            if len(self.state[p]) == 0:
                (self._fill_amsgrad if group["amsgrad"] else self._fill)(p)
            state = self.state[p]
            grad = -p.grad if group["maximize"] else p.grad
            state["step"] += 1
            grad = _decayed(group, p, grad, lr)
            param, grad, mean, square = _real(p, grad, state["exp_avg"], state["exp_avg_sq"])
            mean.lerp_(grad, 1 - beta1)
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            steps = state["step"].item()
            root = (1 - beta2**steps) ** 0.5
            if group["amsgrad"]:
                (largest,) = _real(state["max_exp_avg_sq"])
                largest.copy_(flambeau.maximum(largest, square))
                square = largest
            denom = (square.sqrt() / root).add_(eps)
            param.addcdiv_(mean, denom, value=-_number(lr) / (1 - beta1**steps))


def _check_betas(betas):
    for i in range(2):
        if not 0.0 <= betas[i] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")


def _refuse_capturable(group):
    for p in group["params"]:
        if p.grad is not None and p.device.type == "cpu":
            raise AssertionError(
                "capturable=True: parameters must be on an accelerator, got one on cpu"
            )
