"""Resizing, sampling on a grid, and the two ways between images and columns."""

from __future__ import annotations

import math
import warnings

import flambeau
from flambeau import _C, Tensor
from flambeau.nn._functional import BroadcastingList2
from flambeau.nn.modules.utils import _pair

_nn = _C._nn

# mode -> operator by number of spatial dimensions, and whether it takes align_corners
_RESIZE = {
    "nearest": (("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), False),
    "nearest-exact": (
        ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
        False,
    ),
    "linear": (("upsample_linear1d", None, None), True),
    "bilinear": ((None, "upsample_bilinear2d", None), True),
    "bicubic": ((None, "upsample_bicubic2d", None), True),
    "trilinear": ((None, None, "upsample_trilinear3d"), True),
}
_ANTIALIASED = {
    "bilinear": "_upsample_bilinear2d_aa",
    "bicubic": "_upsample_bicubic2d_aa",
    "lanczos": "_upsample_lanczos2d_aa",
}


def _resize_target(input, size, scale_factor, dims):
    """(output_size, scale_factors), one of them None."""
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: size and scale_factor must not both be given")
    given = size if size is not None else scale_factor
    if given is None:
        raise ValueError("interpolate: either size or scale_factor must be given")
    if isinstance(given, (list, tuple)):
        if len(given) != dims:
            what = "size" if size is not None else "scale_factor"
            raise ValueError(
                f"interpolate: {what} must have {dims} elements for an input of shape "
                f"{tuple(input.shape)}, got {given}"
            )
        given = list(given)
    else:
        given = [given] * dims
    return (given, None) if size is not None else (None, given)


def interpolate(
    input: Tensor,
    size: int | None = None,
    scale_factor: list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes the dimensions after (N, C) to `size` or by `scale_factor`.

    Modes: nearest, nearest-exact, linear (3D input), bilinear, bicubic (4D), trilinear (5D), area.
    """
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError(
            f"interpolate: align_corners only applies to linear, bilinear, bicubic and trilinear, "
            f"got mode {mode}"
        )
    dims = input.dim() - 2
    output_size, scales = _resize_target(input, size, scale_factor, dims)
    if recompute_scale_factor and size is not None:
        raise ValueError("interpolate: recompute_scale_factor has no meaning with an explicit size")
    if antialias and not (mode in _ANTIALIASED and input.ndim == 4):
        raise ValueError(
            "interpolate: antialias is for bilinear and bicubic 4D inputs, got "
            f"{mode} and {input.ndim}D"
        )
    if scales is not None and (mode == "area" or recompute_scale_factor):
        output_size = [math.floor(float(n) * s) for n, s in zip(input.shape[2:], scales)]
        scales = None
    if mode == "area":
        return _area(input, output_size, dims)
    name, takes_align = _resize_operator(input, mode, dims, antialias)
    op = getattr(_nn, name)
    if takes_align:
        return op(input, output_size, bool(align_corners), scales)
    return op(input, output_size, scales)


def _area(input, output_size, dims):
    if dims not in (1, 2, 3):
        raise NotImplementedError(f"interpolate: area needs 3D to 5D input, got {dims + 2}D")
    if dims == 1:
        return flambeau.adaptive_avg_pool1d(input, output_size)
    return (_nn.adaptive_avg_pool2d if dims == 2 else _nn.adaptive_avg_pool3d)(input, output_size)


def _resize_operator(input, mode, dims, antialias):
    if antialias:
        return _ANTIALIASED[mode], True
    names, takes_align = _RESIZE.get(mode, ((), False))
    name = names[dims - 1] if 1 <= dims <= len(names) else None
    if name is None:
        needs = [f"{i + 3}D" for i, n in enumerate(names) if n] or "a known mode"
        raise NotImplementedError(
            f"interpolate: mode {mode} needs {needs} input, got {input.dim()}D; modes are "
            f"{', '.join(_RESIZE)} and area"
        )
    return name, takes_align


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Old name of `interpolate`."""
    _warn_upsample("upsample", "interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """Old name of `interpolate` with mode="nearest"."""
    _warn_upsample("upsample_nearest", "interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """Old name of `interpolate` with mode="bilinear" and align_corners=True."""
    _warn_upsample("upsample_bilinear", "interpolate with align_corners=True")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _warn_upsample(old, new) -> None:
    warnings.warn(f"nn.functional.{old} is deprecated, use {new}", stacklevel=3)


_GRID_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_GRID_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Values of `input` (N, C, H, W) at the points `grid` (N, h, w, 2), coordinates in [-1, 1].

    Five-dimensional inputs have grids (N, d, h, w, 3).
    """
    if mode not in _GRID_MODES:
        raise ValueError(f"grid_sample: mode must be one of {[*_GRID_MODES]}, got {mode!r}")
    if padding_mode not in _GRID_PADDINGS:
        raise ValueError(
            f"grid_sample: padding_mode must be one of {[*_GRID_PADDINGS]}, got {padding_mode!r}"
        )
    if align_corners is None:
        _warn_align("grid_sample")
    return flambeau.grid_sampler(
        input, grid, _GRID_MODES[mode], _GRID_PADDINGS[padding_mode], bool(align_corners)
    )


def _warn_align(name) -> None:
    warnings.warn(f"{name}: align_corners defaults to False; pass it to silence this", stacklevel=3)


def affine_grid(theta: Tensor, size: list[int], align_corners: bool | None = None) -> Tensor:
    """The grid of `grid_sample` for affine maps `theta` (N, 2, 3) or (N, 3, 4)."""
    if align_corners is None:
        _warn_align("affine_grid")
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid: theta must be floating, got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid: only 4D and 5D sizes are supported, got {tuple(size)}"
        )
    n = len(size) - 2
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (n, n + 1):
        raise ValueError(
            f"affine_grid: theta must have shape (N, {n}, {n + 1}) for size {tuple(size)}, "
            f"got {tuple(theta.shape)}"
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: sizes must be positive, got {tuple(size)}")
    return flambeau.affine_grid_generator(theta, size, bool(align_corners))


def unfold(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    dilation: BroadcastingList2[int] = 1,
    padding: BroadcastingList2[int] = 0,
    stride: BroadcastingList2[int] = 1,
) -> Tensor:
    """All windows as columns: (N, C, H, W) -> (N, C * window, number of windows)."""
    return _nn.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def fold(
    input: Tensor,
    output_size: BroadcastingList2[int],
    kernel_size: BroadcastingList2[int],
    dilation: BroadcastingList2[int] = 1,
    padding: BroadcastingList2[int] = 0,
    stride: BroadcastingList2[int] = 1,
) -> Tensor:
    """Sums columns back into images: the adjoint of `unfold`."""
    return _nn.col2im(
        input,
        _pair(output_size),
        _pair(kernel_size),
        _pair(dilation),
        _pair(padding),
        _pair(stride),
    )
