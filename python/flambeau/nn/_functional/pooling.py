"""Pooling: the same few functions in one, two and three dimensions."""

from __future__ import annotations

import flambeau
from flambeau import _C, Tensor
from flambeau.nn._functional import BroadcastingList1, BroadcastingList2, BroadcastingList3
from flambeau.nn.modules.utils import _list_with_default, _ntuple, _pair, _triple

_nn = _C._nn


def max_pool1d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """Maxima of windows along the last dimension, with their positions if `return_indices`."""
    stride = [] if stride is None else stride
    if return_indices:
        return flambeau.max_pool1d_with_indices(
            input, kernel_size, stride, padding, dilation, ceil_mode
        )
    return flambeau.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """Maxima of windows over the last two dimensions, with positions if `return_indices`."""
    stride = [] if stride is None else stride
    if return_indices:
        return _nn.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return flambeau.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """Maxima of windows over the last three dimensions, with positions if `return_indices`."""
    stride = [] if stride is None else stride
    if return_indices:
        return _nn.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return flambeau.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: BroadcastingList1[int],
    stride: BroadcastingList1[int] | None = None,
    padding: BroadcastingList1[int] = 0,
    dilation: BroadcastingList1[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """(maxima, positions) of windows along the last dimension."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    stride: BroadcastingList2[int] | None = None,
    padding: BroadcastingList2[int] = 0,
    dilation: BroadcastingList2[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """(maxima, positions) of windows over the last two dimensions."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: BroadcastingList3[int],
    stride: BroadcastingList3[int] | None = None,
    padding: BroadcastingList3[int] = 0,
    dilation: BroadcastingList3[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """(maxima, positions) of windows over the last three dimensions."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def adaptive_avg_pool2d(input: Tensor, output_size: BroadcastingList2[int]) -> Tensor:
    """Means of windows chosen so that the result has `output_size`; None keeps a size."""
    return _nn.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool3d(input: Tensor, output_size: BroadcastingList3[int]) -> Tensor:
    """Means of windows chosen so that the result has `output_size`; None keeps a size."""
    return _nn.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima of windows chosen so that the result has `output_size`."""
    pair = flambeau.adaptive_max_pool1d(input, output_size)
    return pair if return_indices else pair[0]


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maxima of windows chosen so that the result has `output_size`; None keeps a size."""
    pair = _nn.adaptive_max_pool2d(input, _list_with_default(output_size, input.size()))
    return pair if return_indices else pair[0]


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maxima of windows chosen so that the result has `output_size`; None keeps a size."""
    pair = _nn.adaptive_max_pool3d(input, _list_with_default(output_size, input.size()))
    return pair if return_indices else pair[0]


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: BroadcastingList1[int], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """(maxima, positions) of `adaptive_max_pool1d`."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: BroadcastingList2[int], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """(maxima, positions) of `adaptive_max_pool2d`."""
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: BroadcastingList3[int], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """(maxima, positions) of `adaptive_max_pool3d`."""
    return adaptive_max_pool3d(input, output_size, True)


def _fractional(name, n, op, input, kernel_size, output_size, output_ratio, samples):
    """Windows whose edges are drawn (Graham 2014): `samples` holds n numbers per channel."""
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name}: output_size or output_ratio must be given")
    if output_size is None:
        ratios = _ntuple(n)(output_ratio)
        output_size = [int(size * r) for size, r in zip(input.shape[-n:], ratios)]
    if samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        shape = (batch, input.size(-n - 1), n)
        samples = flambeau.rand(shape, dtype=input.dtype, device=input.device)
    return op(input, kernel_size, output_size, samples)


def fractional_max_pool2d(
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """Maxima over windows at random places that give `output_size`, or a ratio of the input's."""
    pair = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return pair if return_indices else pair[0]


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    output_size: BroadcastingList2[int] | None = None,
    output_ratio: BroadcastingList2[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(maxima, positions) of `fractional_max_pool2d`."""
    return _fractional(
        "fractional_max_pool2d",
        2,
        _nn.fractional_max_pool2d,
        input,
        kernel_size,
        output_size,
        output_ratio,
        _random_samples,
    )


def fractional_max_pool3d(
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """Maxima over windows at random places that give `output_size`, or a ratio of the input's."""
    pair = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return pair if return_indices else pair[0]


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: BroadcastingList3[int],
    output_size: BroadcastingList3[int] | None = None,
    output_ratio: BroadcastingList3[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(maxima, positions) of `fractional_max_pool3d`."""
    return _fractional(
        "fractional_max_pool3d",
        3,
        _nn.fractional_max_pool3d,
        input,
        kernel_size,
        output_size,
        output_ratio,
        _random_samples,
    )


def _unpool_output_size(
    input: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    output_size: list[int] | None,
) -> list[int]:
    """The size before pooling: computed, or `output_size` if it could be that size."""
    n = len(kernel_size)
    default = [
        (size - 1) * s + k - 2 * p
        for size, k, s, p in zip(input.shape[-n:], kernel_size, stride, padding)
    ]
    if output_size is None:
        return default
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(
            f"max_unpool: output_size must have {n} or {n + 2} elements, got {len(output_size)}"
        )
    for d, s, got in zip(default, stride, output_size):
        if not d - s < got < d + s:
            raise ValueError(
                f"max_unpool: sizes must be within one stride of {default}, got {list(output_size)}"
            )
    return list(output_size)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: BroadcastingList1[int],
    stride: BroadcastingList1[int] | None = None,
    padding: BroadcastingList1[int] = 0,
    output_size: BroadcastingList1[int] | None = None,
) -> Tensor:
    """Puts the maxima back where `max_pool1d` found them, zeros elsewhere."""
    one = _ntuple(1)
    kernel, padding = one(kernel_size), one(padding)
    stride = kernel if stride is None else one(stride)
    size = _unpool_output_size(input, kernel, stride, padding, output_size)
    return _nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: BroadcastingList2[int],
    stride: BroadcastingList2[int] | None = None,
    padding: BroadcastingList2[int] = 0,
    output_size: BroadcastingList2[int] | None = None,
) -> Tensor:
    """Puts the maxima back where `max_pool2d` found them, zeros elsewhere."""
    kernel, padding = _pair(kernel_size), _pair(padding)
    stride = kernel if stride is None else _pair(stride)
    size = _unpool_output_size(input, kernel, stride, padding, output_size)
    return _nn.max_unpool2d(input, indices, size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: BroadcastingList3[int],
    stride: BroadcastingList3[int] | None = None,
    padding: BroadcastingList3[int] = 0,
    output_size: BroadcastingList3[int] | None = None,
) -> Tensor:
    """Puts the maxima back where `max_pool3d` found them, zeros elsewhere."""
    kernel, padding = _triple(kernel_size), _triple(padding)
    stride = kernel if stride is None else _triple(stride)
    size = _unpool_output_size(input, kernel, stride, padding, output_size)
    return _nn.max_unpool3d(input, indices, size, stride, padding)


def _lp(out, norm_type, window):
    # A mean of powers, times the window's size, is their sum; the root of a negative one is 0.
    return (flambeau.sign(out) * flambeau.relu(out.abs())).mul(window).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor,
    norm_type: int | float,
    kernel_size: int,
    stride: BroadcastingList1[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x^norm_type)^(1 / norm_type) of windows along the last dimension."""
    stride = kernel_size if stride is None else stride
    out = flambeau.avg_pool1d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _lp(out, norm_type, _ntuple(1)(kernel_size)[0])


def lp_pool2d(
    input: Tensor,
    norm_type: int | float,
    kernel_size: BroadcastingList2[int],
    stride: BroadcastingList2[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x^norm_type)^(1 / norm_type) of windows over the last two dimensions."""
    kernel = _pair(kernel_size)
    stride = kernel if stride is None else stride
    out = _nn.avg_pool2d(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return _lp(out, norm_type, kernel[0] * kernel[1])


def lp_pool3d(
    input: Tensor,
    norm_type: int | float,
    kernel_size: BroadcastingList3[int],
    stride: BroadcastingList3[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x^norm_type)^(1 / norm_type) of windows over the last three dimensions."""
    kernel = _triple(kernel_size)
    stride = kernel if stride is None else stride
    out = _nn.avg_pool3d(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return _lp(out, norm_type, kernel[0] * kernel[1] * kernel[2])
