"""Muon (Jordan et al. 2024): momentum made orthogonal by Newton-Schulz iterations."""

import math

import flambeau
from flambeau.optim.optimizer import _check_lr, _check_options, _number, _PerParameter

__all__ = ["Muon"]


class Muon(_PerParameter):
    """p -= lr' * orthogonalised momentum, for matrices only."""

    def __init__(
        self,
        params,
        lr=1e-3,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=True,
        ns_coefficients=(3.4445, -4.775, 2.0315),
        eps=1e-7,
        ns_steps=5,
        adjust_lr_fn=None,
    ):
        _check_lr("Muon", lr)
        _check_options(
            "Muon",
            momentum=(momentum, momentum >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
            adjust_lr_fn=(adjust_lr_fn, adjust_lr_fn in (None, "original", "match_rms_adamw")),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters, got one of size {tuple(p.size())}"
                    )

    def _init_state(self, group, p, state):
        if flambeau.is_complex(p):
            raise RuntimeError("Muon does not support complex parameters")
        state["momentum_buffer"] = flambeau.zeros_like(p.grad)

    def _update(self, group, p, grad, state):
        lr, momentum = _number(group["lr"]), group["momentum"]
        buf = state["momentum_buffer"]
        buf.lerp_(grad, 1 - momentum)
        update = grad.lerp(buf, momentum) if group["nesterov"] else buf
        update = _orthogonalised(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(update, alpha=-_adjusted(lr, group["adjust_lr_fn"], p.shape))


def _adjusted(lr, rule, shape):
    rows, columns = shape[:2]
    if rule == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns))


def _orthogonalised(grad, coefficients, steps, eps):
    """Newton-Schulz: drives the singular values towards one, in bfloat16."""
    if steps >= 100:
        raise ValueError(f"ns_steps must be less than 100, got {steps}")
    if len(coefficients) != 3:
        raise ValueError(f"ns_coefficients must be three numbers, got {len(coefficients)}")
    a, b, c = coefficients
    x = grad.bfloat16()
    tall = grad.size(0) > grad.size(1)
    x = x.T if tall else x
    # The iteration needs a spectral norm of at most one.
    x = x.div(x.norm().clamp(min=eps))
    for _ in range(steps):
        gram = x @ x.T
        x = flambeau.addmm(x, flambeau.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
