"""Reductions and normalisations over the elements that a mask selects.

What a mask leaves out counts as the neutral element of the operation; a mask is broadcast to the input.
"""

import flambeau as torch

__all__ = (
    "amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median norm "
    "normalize prod softmax softmin std sum var"
).split()

_NARROW = (torch.uint8, torch.bool, torch.int8, torch.int16, torch.int32)


def _filled(input, mask, value):
    """The input with `value` where the mask is False."""
    return input if mask is None else torch.where(mask, input, value)


def _lowest(input):
    if input.dtype.is_floating_point or input.dtype.is_complex:
        return -torch.inf
    return 0 if input.dtype == torch.bool else torch.iinfo(input.dtype).min


def _highest(input):
    if input.dtype.is_floating_point:
        return torch.inf
    return 1 if input.dtype == torch.bool else torch.iinfo(input.dtype).max


def _dims(dim, ndim):
    """A sorted tuple of dims; None and () stand for all of them."""
    if dim is None or dim == ():
        return tuple(range(ndim)) or (0,)
    wrapped = [d % max(ndim, 1) for d in ((dim,) if isinstance(dim, int) else dim)]
    if len(set(wrapped)) < len(wrapped):
        raise RuntimeError(f"masked: dim must name each dim once, got {dim}")
    return tuple(sorted(wrapped))


def _sum_dtype(input, dtype):
    return dtype or (torch.int64 if input.dtype in _NARROW else input.dtype)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Sum of the selected elements."""
    dtype = _sum_dtype(input, dtype)
    return torch.sum(_filled(input, mask, 0), _dims(dim, input.ndim), bool(keepdim), dtype=dtype)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Product of the selected elements."""
    result, dtype = _filled(input, mask, 1), _sum_dtype(input, dtype)
    for d in reversed(_dims(dim, input.ndim)):
        result = torch.prod(result, d, bool(keepdim))
    return result.to(dtype)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Largest selected element."""
    found = torch.amax(_filled(input, mask, _lowest(input)), _dims(dim, input.ndim), bool(keepdim))
    return found.to(dtype or input.dtype)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Smallest selected element."""
    found = torch.amin(_filled(input, mask, _highest(input)), _dims(dim, input.ndim), bool(keepdim))
    return found.to(dtype or input.dtype)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Place of the largest selected element, in the input's dtype as in torch."""
    found = torch.argmax(_filled(input, mask, _lowest(input)), dim, bool(keepdim))
    return found.to(dtype or input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Place of the smallest selected element, in the input's dtype as in torch."""
    found = torch.argmin(_filled(input, mask, _highest(input)), dim, bool(keepdim))
    return found.to(dtype or input.dtype)


def _count(input, dim, keepdim, mask):
    ones = torch.ones(input.shape, dtype=torch.int64, device=input.device)
    return sum(ones, dim, keepdim=keepdim, mask=mask)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Mean of the selected elements, NaN where there are none."""
    total = sum(input, dim, keepdim=keepdim, dtype=dtype or input.dtype, mask=mask)
    return total / _count(input, dim, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """Median of the selected elements along one dim; the lower of two."""
    dtype = dtype or input.dtype
    if not input.dtype.is_floating_point:
        if mask is not None and not bool(mask.all()):
            raise ValueError("masked.median: integers have no value for what the mask leaves out")
        return torch.median(input, dim, bool(keepdim)).values.to(dtype)
    return torch.nanmedian(_filled(input, mask, torch.nan), dim, bool(keepdim)).values.to(dtype)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log of the sum of exponentials of the selected elements."""
    dims = _dims(dim, input.ndim)
    found = torch.logsumexp(_filled(input, mask, _lowest(input)), dims, bool(keepdim))
    return found.to(dtype or input.dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), either left out where its mask is False."""
    one, two = _filled(input, input_mask, -torch.inf), _filled(other, other_mask, -torch.inf)
    return torch.logaddexp(one, two).to(dtype or input.dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Vector norm of the selected elements."""
    absent = 0.0 if ord >= 0 else torch.inf
    filled = _filled(input, mask, absent)
    return torch.linalg.vector_norm(filled, ord, _dims(dim, input.ndim), bool(keepdim), dtype=dtype)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Variance of the selected elements: squares over their count less the correction."""
    if unbiased is not None and correction is not None:
        raise ValueError("masked.var: give unbiased or correction, not both")
    correction = int(unbiased if unbiased is not None else 1) if correction is None else correction
    exact = input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else None
    dtype = dtype or exact or torch.float32
    x = input if exact else input.to(dtype)
    centre = mean(x, dim, keepdim=True, mask=mask)
    if not input.ndim:
        centre = centre.reshape(())
    away = x - centre
    total = sum(away * away.conj(), dim, keepdim=keepdim, dtype=dtype, mask=mask)
    count = _count(input, dim, keepdim, mask) - correction
    return (total / torch.clamp(count, min=0)).to(dtype)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Square root of the variance of the selected elements."""
    options = {"correction": correction, "keepdim": keepdim, "dtype": dtype, "mask": mask}
    return torch.sqrt(var(input, dim, unbiased, **options))


def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax over the selected elements."""
    return torch.softmax(_filled(input, mask, -torch.inf), dim, dtype=dtype or input.dtype)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """Logarithm of the softmax over the selected elements."""
    return torch.log_softmax(_filled(input, mask, -torch.inf), dim, dtype=dtype or input.dtype)


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of minus the selected elements."""
    return torch.softmax(-_filled(input, mask, torch.inf), dim, dtype=dtype or input.dtype)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The selected elements over their norm, or over eps where that is smaller; zero elsewhere."""
    dtype = dtype or input.dtype
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / torch.clamp(length, min=eps)


def cumsum(input, dim, *, dtype=None, mask=None):
    """Running sum of the selected elements."""
    return torch.cumsum(_filled(input, mask, 0), dim, dtype=dtype or input.dtype).to(
        dtype or input.dtype
    )


def cumprod(input, dim, *, dtype=None, mask=None):
    """Running product of the selected elements."""
    return torch.cumprod(_filled(input, mask, 1), dim, dtype=dtype or input.dtype).to(
        dtype or input.dtype
    )
