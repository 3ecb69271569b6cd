"""Adagrad (Duchi, Hazan and Singer 2011)."""

import flambeau
from flambeau.optim.optimizer import (
    _check_lr,
    _check_options,
    _new_step,
    _number,
    _PerParameter,
    _real,
)
from flambeau.optim.sgd import _check_fused

__all__ = ["Adagrad"]


class Adagrad(_PerParameter):
    """p -= lr_t * g / (sqrt(sum of g^2) + eps) with lr_t = lr / (1 + (t - 1) * lr_decay)."""

    _takes_sparse = True

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
        _check_lr("Adagrad", lr)
        _check_options(
            "Adagrad",
            lr_decay=(lr_decay, lr_decay >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
            initial_accumulator_value=(initial_accumulator_value, initial_accumulator_value >= 0),
            epsilon=(eps, eps >= 0),
        )
        _check_fused("Adagrad", fused, foreach, differentiable)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        with flambeau.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    self._init_state(group, p, self.state[p])

    def _init_state(self, group, p, state):
        start = group["initial_accumulator_value"]
        start = complex(start, start) if flambeau.is_complex(p) else start
        state["step"] = _new_step()
        state["sum"] = flambeau.full_like(p, start)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("fused", None)

    def share_memory(self) -> None:
        """Moves the state into shared memory."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _update(self, group, p, grad, state):
        state["step"] += 1
        decay = group["weight_decay"]
        if decay != 0:
            if grad.is_sparse:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            grad = grad.add(p, alpha=decay)
        lr = _number(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        if grad.is_sparse:
            return _update_sparse(p, grad.coalesce(), state["sum"], lr, group["eps"])
        p, grad, total = _real(p, grad, state["sum"])
        total.addcmul_(grad, grad, value=1)
        p.addcdiv_(grad, total.sqrt().add_(group["eps"]), value=-lr)


def _update_sparse(p, grad, total, lr, eps):
    def sparse(values):
        return flambeau.sparse_coo_tensor(grad._indices(), values, grad.shape)

    values = grad._values()
    total.add_(sparse(values.pow(2)))
    std = total.sparse_mask(grad)._values().sqrt_().add_(eps)
    p.add_(sparse(values / std), alpha=-lr)
