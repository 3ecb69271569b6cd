"""Activations that take more than their operator does: an in-place flag, an implicit dim."""

from __future__ import annotations

import warnings

import flambeau
from flambeau import _C, Tensor

_nn = _C._nn


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return flambeau.relu_(input) if inplace else flambeau.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return _nn.relu6_(input) if inplace else _nn.relu6(input)


def threshold(input, threshold, value, inplace=False):
    """x where x > threshold, `value` elsewhere."""
    if inplace:
        return flambeau.threshold_(input, threshold, value)
    return flambeau.threshold(input, threshold, value)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x kept within [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val must be <= max_val, got {min_val} and {max_val}")
    if inplace:
        return _nn.hardtanh_(input, min_val, max_val)
    return _nn.hardtanh(input, min_val, max_val)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, alpha * (exp(x) - 1) elsewhere."""
    return _nn.elu_(input, alpha) if inplace else _nn.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * elu(x, alpha), with the constants of Klambauer et al. 2017."""
    return flambeau.selu_(input) if inplace else flambeau.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return flambeau.celu_(input, alpha) if inplace else flambeau.celu(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, negative_slope * x elsewhere."""
    if inplace:
        return _nn.leaky_relu_(input, negative_slope)
    return _nn.leaky_relu(input, negative_slope)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Leaky relu with a slope drawn from U(lower, upper), its mean outside training."""
    if inplace:
        return flambeau.rrelu_(input, lower, upper, training)
    return flambeau.rrelu(input, lower, upper, training)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b) of the two halves a, b along `dim`."""
    if input.dim() == 0:
        raise RuntimeError("glu: input must have at least one dimension, got a scalar")
    return _nn.glu(input, dim)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6."""
    return _nn.hardsigmoid_(input) if inplace else _nn.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * relu6(x + 3) / 6."""
    return _nn.hardswish_(input) if inplace else _nn.hardswish(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return _nn.silu_(input) if inplace else _nn.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return _nn.mish_(input) if inplace else _nn.mish(input)


def sigmoid(input):
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def tanh(input):
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x))."""
    return input.tanh()


def softsign(input):
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def tanhshrink(input):
    """x - tanh(x)."""
    return input - input.tanh()


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dim that old code relied on when it gave none."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    """Exponentials along `dim`, scaled to sum to one."""
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    """softmax(-x)."""
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    """log(softmax(x)), computed without the detour."""
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Differentiable samples of a categorical distribution (Jang et al. 2017).

    With `hard` the result is one-hot and gradients are those of the soft sample.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -flambeau.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = flambeau.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
