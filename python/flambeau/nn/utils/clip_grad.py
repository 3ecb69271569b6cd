"""Limiting the size of gradients."""

import warnings

import flambeau
from flambeau import _C

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]


def _as_list(tensors):
    return [tensors] if isinstance(tensors, flambeau.Tensor) else list(tensors)


def _grads(parameters):
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


def _nonfinite(norm_type):
    return RuntimeError(
        f"clip_grad_norm_: the total norm of order {norm_type} is not finite; "
        "pass error_if_nonfinite=False to scale the gradients by it all the same"
    )


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors taken together as one vector."""
    tensors = _as_list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return flambeau.tensor(0.0)
    with flambeau.no_grad():
        norm = flambeau.linalg.vector_norm
        device = tensors[0].device
        norms = [norm(t, norm_type).to(device) for t in tensors]
        total = norm(flambeau.stack(norms), norm_type)
    if error_if_nonfinite and not bool(flambeau.isfinite(total)):
        raise _nonfinite(norm_type)
    return total


def _scale(grads, max_norm, total_norm) -> None:
    # Multiplying by a clamped 1 as well avoids waiting for the device's answer.
    with flambeau.no_grad():
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.mul_(scale.to(g.device))


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None) -> None:
    """Scales gradients by min(1, max_norm / (total_norm + 1e-6)), in place."""
    _scale(_grads(parameters), max_norm, total_norm)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients so that their norm together is at most `max_norm`; returns the norm."""
    parameters = _as_list(parameters)
    if norm_type == 2:
        total = _C._clip_grad_norm(parameters, float(max_norm), error_if_nonfinite)
        if total is not None:
            return total
    grads = _grads(parameters)
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    _scale(grads, max_norm, total)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Deprecated name of `clip_grad_norm_`."""
    warnings.warn(
        "nn.utils.clip_grad_norm is deprecated in favor of nn.utils.clip_grad_norm_",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None) -> None:
    """Keeps every element of every gradient within [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with flambeau.no_grad():
        for g in _grads(parameters):
            g.clamp_(min=-clip_value, max=clip_value)
