"""Dropout, normalisation and embedding: checks and defaults around their operators."""

from __future__ import annotations

import warnings

import flambeau
from flambeau import _C, Tensor

_nn = _C._nn


def _check_p(p) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability `p` and scales the rest by 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        _check_p(p)
    if inplace:
        return flambeau.dropout_(input, p, training)
    return flambeau.dropout(input, p, training)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of a self-normalising net (Klambauer et al. 2017)."""
    _check_p(p)
    if inplace:
        return flambeau.alpha_dropout_(input, p, training)
    return flambeau.alpha_dropout(input, p, training)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Alpha dropout of whole channels."""
    _check_p(p)
    if inplace:
        return flambeau.feature_alpha_dropout_(input, p, training)
    return flambeau.feature_alpha_dropout(input, p, training)


def _feature_dropout(input, p, training, inplace, batched):
    """Whole channels at a time; without a batch dimension one is added meanwhile."""
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    op = flambeau.feature_dropout_ if inplace else flambeau.feature_dropout
    result = op(input, p, training)
    if not batched:
        result = result.squeeze_(0) if inplace else result.squeeze(0)
    return result


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of a (N, C, L) or (C, L) tensor."""
    _check_p(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: expected 2D or 3D input, got {input.dim()}D")
    return _feature_dropout(input, p, training, inplace, input.dim() == 3)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of a (N, C, H, W) tensor."""
    _check_p(p)
    if input.dim() not in (3, 4):
        warnings.warn(f"dropout2d: expected 3D or 4D input, got {input.dim()}D", stacklevel=2)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: a 3D input is read as (N, C, L), so channels are dropped along dim 1; "
            "use dropout1d to say so",
            stacklevel=2,
        )
    return _feature_dropout(input, p, training, inplace, True)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of a (N, C, D, H, W) or (C, D, H, W) tensor."""
    _check_p(p)
    if input.dim() not in (4, 5):
        warnings.warn(f"dropout3d: expected 4D or 5D input, got {input.dim()}D", stacklevel=2)
    return _feature_dropout(input, p, training, inplace, input.dim() == 5)


def _verify_batch_size(size: list[int]) -> None:
    n = size[0]
    for i in range(2, len(size)):
        n *= size[i]
    if n == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel shifted and scaled to mean 0 and variance 1 (Ioffe & Szegedy 2015).

    In training with the batch's own statistics, which the running ones then follow.
    """
    if training:
        _verify_batch_size(input.size())
    return flambeau.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def _verify_spatial_size(size: list[int]) -> None:
    n = 1
    for i in range(2, len(size)):
        n *= size[i]
    if n == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {size}"
        )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel of each sample normalised by itself (Ulyanov et al. 2016)."""
    if use_input_stats:
        _verify_spatial_size(input.size())
    return flambeau.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def layer_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """The last dimensions `normalized_shape` normalised together (Ba et al. 2016)."""
    return flambeau.layer_norm(input, normalized_shape, weight, bias, eps, True)


def rms_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over the last dimensions (Zhang & Sennrich 2019)."""
    return flambeau.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Groups of channels normalised together (Wu & He 2018)."""
    size = input.size()
    if len(size) < 2:
        raise RuntimeError(f"group_norm: expected at least 2 dimensions, got {len(size)}")
    _verify_batch_size([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return flambeau.group_norm(input, num_groups, weight, bias, eps, True)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of x^2 over `size` channels) ^ beta (Krizhevsky et al. 2012)."""
    if input.dim() < 3:
        raise ValueError(f"local_response_norm: expected 3D or higher, got {input.dim()}D")
    if input.numel() == 0:
        return input
    squares = input.mul(input)
    before, after = size // 2, (size - 1) // 2
    if input.dim() == 3:
        padded = _nn.pad(squares.unsqueeze(1), (0, 0, before, after))
        means = _nn.avg_pool2d(padded, (size, 1), stride=1).squeeze(1)
    else:
        n, c, h = input.shape[:3]
        padded = _nn.pad(squares.view(n, 1, c, h, -1), (0, 0, 0, 0, before, after))
        means = _nn.avg_pool3d(padded, (size, 1, 1), stride=1).squeeze(1).view(input.size())
    return input / means.mul(alpha).add(k).pow(beta)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x / max(norm(x, p), eps) along `dim`."""
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else flambeau.div(input, norm, out=out)


def _wrap_padding_idx(padding_idx, weight):
    """A padding index counted from the start, -1 for none."""
    if padding_idx is None:
        return -1
    rows = weight.size(0)
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"padding_idx must be in [{-rows}, {rows - 1}], got {padding_idx}")
    return padding_idx + rows if padding_idx < 0 else padding_idx


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` at the indices `input`: (*) -> (*, embedding_dim).

    `max_norm` first scales longer rows down to it, in place.
    """
    padding_idx = _wrap_padding_idx(padding_idx, weight)
    if max_norm is not None:
        input = input.contiguous()
        _renorm(weight, input, max_norm, norm_type)
    return flambeau.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _renorm(weight, input, max_norm, norm_type) -> None:
    with flambeau.no_grad():
        flambeau.embedding_renorm_(weight, input, max_norm, norm_type)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def _check_bag(mode, scale_grad_by_freq, sparse, per_sample_weights, input) -> None:
    if mode not in _BAG_MODES:
        raise ValueError(f"embedding_bag: mode must be one of sum, mean or max, got {mode}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("embedding_bag: max mode does not support scale_grad_by_freq")
    if mode == "max" and sparse:
        raise ValueError("embedding_bag: max mode does not support sparse weights")
    if per_sample_weights is None:
        return
    if mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights needs mode='sum', got mode='{mode}'"
        )
    if per_sample_weights.size() != input.size():
        raise ValueError(
            f"embedding_bag: per_sample_weights must have the shape of input {input.shape}, "
            f"got {per_sample_weights.shape}"
        )


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of `weight`.

    Bags are the rows of a 2-d `input`, or start at `offsets` in a 1-d one.
    """
    if weight.dtype == flambeau.int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed; "
            "usage `embedding_bag(weight, input, ...)` is deprecated",
            stacklevel=2,
        )
        weight, input = input, weight
    _check_bag(mode, scale_grad_by_freq, sparse, per_sample_weights, input)
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: a 2D input has its bags in rows, so no offsets")
        offsets = flambeau.arange(
            0, input.numel(), input.size(1), dtype=input.dtype, device=input.device
        )
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("embedding_bag: a 1D input needs offsets")
        if offsets.dim() != 1:
            raise ValueError(f"embedding_bag: offsets must be 1D, got {offsets.dim()}D")
    else:
        raise ValueError(f"embedding_bag: input must be 1D or 2D, got {input.dim()}D")
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    return flambeau.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        _BAG_MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """One matrix product per group; where an argument is 2-d, group i ends at offs[i].

    (G, M, K) @ (G, K, N); (M, K) @ (G, K, N) cuts M; (G, M, K) @ (K, N) cuts N; both 2-d cut K.
    """
    if bias is not None:
        raise NotImplementedError("grouped_mm: bias is not supported")
    a_flat, b_flat = mat_a.dim() == 2, mat_b.dim() == 2
    if not (a_flat or b_flat):
        out = flambeau.bmm(mat_a, mat_b)
        return out if out_dtype is None else out.to(out_dtype)
    if offs is None:
        raise RuntimeError("grouped_mm: offs must be given where an argument is 2D")
    ends = offs.tolist()
    sizes = [end - start for start, end in zip([0, *ends], ends)]
    a_dim, b_dim = (1, 0) if a_flat and b_flat else (0, 1)
    parts_a = mat_a.narrow(a_dim, 0, ends[-1]).split(sizes, a_dim) if a_flat else mat_a.unbind()
    parts_b = mat_b.narrow(b_dim, 0, ends[-1]).split(sizes, b_dim) if b_flat else mat_b.unbind()
    parts = [a @ b for a, b in zip(parts_a, parts_b)]
    if a_flat and b_flat:
        out = flambeau.stack(parts)
    else:
        out = flambeau.cat(parts, 0 if a_flat else 1)
    return out if out_dtype is None else out.to(out_dtype)
