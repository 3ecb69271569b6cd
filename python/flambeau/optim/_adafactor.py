"""Adafactor (Shazeer and Stern 2018): second moments as products of row and column means."""

import flambeau
from flambeau.optim.optimizer import (
    _check_lr,
    _check_options,
    _new_step,
    _number,
    _PerParameter,
)

__all__ = ["Adafactor"]


class Adafactor(_PerParameter):
    """p -= a * u / max(1, rms(u) / d) with u = g / sqrt(row mean * column mean of g^2)."""

    def __init__(
        self,
        params,
        lr=1e-2,
        beta2_decay=-0.8,
        eps=(None, 1e-3),
        d=1.0,
        weight_decay=0.0,
        *,
        foreach=None,
        maximize=False,
    ):
        _check_lr("Adafactor", lr)
        _check_options(
            "Adafactor",
            beta2_decay=(beta2_decay, beta2_decay <= 0),
            epsilon1=(eps[0], eps[0] is None or eps[0] >= 0),
            epsilon2=(eps[1], eps[1] >= 0),
            clipping_threshold=(d, d >= 1),
            weight_decay=(weight_decay, weight_decay >= 0),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )

    def _init_state(self, group, p, state):
        if flambeau.is_complex(p):
            raise RuntimeError("Adafactor does not support complex parameters")
        state["step"] = _new_step()
        if p.grad.dim() > 1:
            rows, columns = list(p.grad.shape), list(p.grad.shape)
            rows[-1], columns[-2] = 1, 1
            state["row_var"] = p.grad.new_zeros(rows)
            state["col_var"] = p.grad.new_zeros(columns)
        else:
            state["variance"] = flambeau.zeros_like(p.grad)

    def _update(self, group, p, grad, state):
        eps1, eps2 = group["eps"]
        eps1 = flambeau.finfo(p.dtype).eps if eps1 is None else eps1
        lr = _number(group["lr"])
        state["step"] += 1
        step = state["step"].item()
        weight = step ** group["beta2_decay"]
        size = max(eps2, p.norm(2).item() / (p.numel() ** 0.5)) * min(lr, 1 / (step**0.5))
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if grad.dim() > 1:
            estimate = _factored(grad, state, weight, eps1)
        else:
            estimate = state["variance"].lerp_(grad.square(), weight).clone()
        update = estimate.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        rms = update.norm(2).item() / ((update.numel() ** 0.5) * group["d"])
        p.add_(update, alpha=-size / max(1.0, rms))


def _factored(grad, state, weight, eps1):
    rows, columns = state["row_var"], state["col_var"]
    row_mean = flambeau.norm(grad, dim=-1, keepdim=True).square_().div_(grad.size(-1))
    rows.lerp_(row_mean, weight)
    col_mean = flambeau.norm(grad, dim=-2, keepdim=True).square_().div_(grad.size(-2))
    columns.lerp_(col_mean, weight)
    return (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=eps1))
