"""Losses. The ones that models use most do nothing but name the operator's arguments."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import flambeau
from flambeau import _C, Tensor
from flambeau.nn._reduction import NUMBER, legacy_get_string

_nn = _C._nn


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target] over classes: (N, C, *) and (N, *) indices or (N, C, *) odds."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return _nn.cross_entropy_loss(
        input, target, weight, NUMBER[reduction], ignore_index, label_smoothing
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target] over classes, weighted: (N, C, *) log-probabilities and (N, *) indices."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return _nn.nll_loss_nd(input, target, weight, NUMBER[reduction], ignore_index)


def _warn_sizes(input, target) -> None:
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size "
        f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=3,
    )


def _weigh(loss, weight, size, reduction, by_weight):
    """Elementwise losses times `weight`, reduced; a mean `by_weight` divides by their sum."""
    if weight.size() != size:
        raise ValueError(
            f"weight and input must have the same size, got {weight.size()} and {size}"
        )
    loss = loss * weight
    number = NUMBER[reduction]
    if number == 0:
        return loss
    if number == 2:
        return loss.sum()
    return loss.sum() / weight.sum() if by_weight else loss.mean()


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)^2."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if target.size() != input.size():
        _warn_sizes(input, target)
    if weight is not None:
        return _weigh(_nn.mse_loss(input, target, 0), weight, input.size(), reduction, True)
    return _nn.mse_loss(input, target, NUMBER[reduction])


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if target.size() != input.size():
        _warn_sizes(input, target)
    if weight is not None:
        return _weigh(_nn.l1_loss(input, target, 0), weight, input.size(), reduction, True)
    return _nn.l1_loss(input, target, NUMBER[reduction])


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| < beta, d - beta / 2 elsewhere."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if target.size() != input.size():
        _warn_sizes(input, target)
    if beta == 0.0:
        return _nn.l1_loss(input, target, NUMBER[reduction])
    return _nn.smooth_l1_loss(input, target, NUMBER[reduction], beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d^2 / 2 where d = |input - target| < delta, delta * (d - delta / 2) elsewhere."""
    if target.size() != input.size():
        _warn_sizes(input, target)
    if weight is not None:
        loss = _nn.huber_loss(input, target, 0, delta)
        return _weigh(loss, weight, input.size(), reduction, False)
    return _nn.huber_loss(input, target, NUMBER[reduction], delta)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(target * log(input) + (1 - target) * log(1 - input)), logarithms cut at -100."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            "binary_cross_entropy: target and input must have the same size, got "
            f"{target.size()} and {input.size()}"
        )
    return _nn.binary_cross_entropy(input, target, weight, NUMBER[reduction])


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input); `pos_weight` multiplies the positive part."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            "binary_cross_entropy_with_logits: target and input must have the same size, got "
            f"{target.size()} and {input.size()}"
        )
    return flambeau.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, NUMBER[reduction]
    )


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target * (log(target) - input), `input` being log-probabilities."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if reduction == "mean":
        warnings.warn(
            "kl_div: reduction='mean' divides by the number of elements; "
            "the mathematical definition is reduction='batchmean'",
            stacklevel=2,
        )
    batchmean = reduction == "batchmean"
    number = 2 if batchmean else NUMBER[reduction]
    loss = flambeau.kl_div(input, target, number, log_target=log_target)
    return loss / input.size(0) if batchmean and input.dim() != 0 else loss


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-08,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target * input, or input - target * log(input + eps) if not `log_input`.

    `full` adds Stirling's approximation of log(target!).
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return flambeau.poisson_nll_loss(input, target, log_input, full, eps, NUMBER[reduction])


def _fit_variance(input, var):
    """`var` as a tensor that broadcasts against `input`."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var must not be negative, got {var}")
        return var * flambeau.ones_like(input)
    if flambeau.any(var < 0):
        raise ValueError("gaussian_nll_loss: var has negative entries")
    size, var_size = tuple(input.size()), tuple(var.size())
    if var_size == size:
        return var
    if size[:-1] == var_size:
        return var.unsqueeze(-1)
    differing = [i for i, (a, b) in enumerate(zip(size, var_size)) if a != b]
    if len(size) == len(var_size) and all(var_size[i] == 1 for i in differing):
        return var
    raise ValueError(f"gaussian_nll_loss: var must fit input {size}, got {var_size}")


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-06,
    reduction: str = "mean",
) -> Tensor:
    """(log(v) + (input - target)^2 / v) / 2 with v = max(var, eps); `full` adds log(2 pi) / 2."""
    number = NUMBER[reduction]
    var = _fit_variance(input, var).clone()
    with flambeau.no_grad():
        var.clamp_(min=eps)  # not differentiated: a clamped variance still gets its gradient
    loss = 0.5 * (flambeau.log(var) + (input - target) ** 2 / var)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    return _reduce(loss, number)


def _reduce(loss, number):
    return loss if number == 0 else loss.mean() if number == 1 else loss.sum()


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return flambeau.hinge_embedding_loss(input, target, margin, NUMBER[reduction])


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target * input))."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return _nn.soft_margin_loss(input, target, NUMBER[reduction])


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Hinge of every target class (listed in `target` up to a -1) against every other."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return _nn.multilabel_margin_loss(input, target, NUMBER[reduction])


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over classes (the last dimension) of the binary cross entropy with logits."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    number = NUMBER[reduction]
    log_sigmoid = _nn.log_sigmoid
    loss = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduce(loss.sum(dim=-1) / input.size(-1), number)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over classes i != target of max(0, margin - input[target] + input[i])^p."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"multi_margin_loss: weight must be 1D, got {weight.dim()}D")
    return _nn.multi_margin_loss(input, target, p, margin, weight, NUMBER[reduction])


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(x1, x2) where target is 1, max(0, cos(x1, x2) - margin) where it is -1."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return flambeau.cosine_embedding_loss(input1, input2, target, margin, NUMBER[reduction])


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin)."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    dims = [input1.dim(), input2.dim(), target.dim()]
    if len(set(dims)) != 1:
        raise RuntimeError(
            "margin_ranking_loss: input1, input2 and target must have equally many dimensions, "
            f"got {dims}"
        )
    return flambeau.margin_ranking_loss(input1, input2, target, margin, NUMBER[reduction])


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin), distances in the p-norm.

    `swap` takes |positive - negative| instead where that is smaller (Balntas et al. 2016).
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    return flambeau.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, NUMBER[reduction]
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own."""
    number = NUMBER[reduction]
    distance = flambeau.pairwise_distance if distance_function is None else distance_function
    if margin <= 0:
        raise ValueError(
            f"triplet_margin_with_distance_loss: margin must be greater than 0, got {margin}"
        )
    dims = [anchor.dim(), positive.dim(), negative.dim()]
    if len(set(dims)) != 1:
        raise RuntimeError(
            "triplet_margin_with_distance_loss: anchor, positive and negative must have equally "
            f"many dimensions, got {dims}"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = flambeau.minimum(far, distance(positive, negative))
    return _reduce(flambeau.clamp_min(margin + near - far, 0), number)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the sum over all alignments of `targets` to (T, N, C) `log_probs`.

    Graves et al. 2006. A mean first divides each loss by its target's length.
    """
    return flambeau.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, NUMBER[reduction], zero_infinity
    )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options=None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target).

    `options` (chunking) changes the memory that PyTorch needs, not the result; it has no effect.
    Shapes: input (N, in_features), linear_weight (C, *, in_features) -> logits (N, C, *).
    """
    NUMBER[reduction]
    if linear_weight.dim() > 2:
        outputs = linear_weight.shape[:-1]
        if input.dim() != 2:
            raise RuntimeError(
                f"linear_cross_entropy: weight {tuple(linear_weight.shape)} needs a 2D input, "
                f"got {input.dim()}D"
            )
        bias = None if linear_bias is None else linear_bias.flatten()
        logits = _nn.linear(input, linear_weight.flatten(0, -2), bias)
        logits = logits.unflatten(-1, outputs)
    else:
        logits = _nn.linear(input, linear_weight, linear_bias)
    if ignore_index is None:
        ignore_index = -100
    return cross_entropy(
        logits,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
