"""Test rows of ops/ctc.toml: alignments counted one by one, bags as lists."""

import itertools
import math

import numpy as np

from tests.ops.rows import Op, S, V, error


def total(log_probs, target, blank):
    """The sum over all paths that collapse to target."""
    steps, classes = log_probs.shape
    sum_ = 0.0
    for path in itertools.product(range(classes), repeat=steps):
        collapsed = [c for c, _ in itertools.groupby(path) if c != blank]
        if collapsed == list(target):
            sum_ += math.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
    return sum_


def ctc_ref(log_probs, targets, steps, labels, blank=0, reduction=1, zero_infinity=False):
    losses, at = [], 0
    for n in range(log_probs.shape[1]):
        target = targets[n, : labels[n]] if targets.ndim == 2 else targets[at : at + labels[n]]
        at += labels[n]
        p = total(log_probs[: steps[n], n], target, blank)
        losses.append(-math.log(p) if p else 0.0 if zero_infinity else math.inf)
    losses = np.array(losses)
    if reduction == 1:
        return np.mean(losses / np.maximum(labels, 1))
    return losses.sum() if reduction == 2 else losses


def bag_ref(
    weight, indices, offsets, scale=False, mode=0, sparse=False, factors=None, last=False, pad=None
):
    ends = [*offsets[1:], len(indices)]
    rows, sizes, bags, best = [], [], [], []
    for bag, (start, end) in enumerate(zip(offsets, ends)):
        bags += [bag] * (end - start)
        used = [i for i in range(start, end) if indices[i] != pad]
        sizes.append(len(used))
        picked = weight[indices[used]]
        if factors is not None:
            picked = picked * factors[used][:, None]
        zero = np.zeros(weight.shape[1])
        rows.append((picked.sum, picked.mean, picked.max)[mode](0) if used else zero)
        best.append(indices[used][picked.argmax(0)] if used else zero)
    width = weight.shape[1]
    best = np.stack(best) if mode == 2 else np.zeros((0, width))
    return np.stack(rows), np.array(bags), np.array(sizes), best


P = V(
    [
        [[-0.5, -1.5, -2.0], [-1.0, -1.25, -0.75]],
        [[-1.5, -0.5, -1.0], [-2.0, -0.5, -1.5]],
        [[-1.0, -1.0, -1.25], [-0.75, -1.5, -1.0]],
        [[-0.25, -2.0, -2.5], [-1.5, -0.5, -2.0]],
    ],
    "float64",
)
T = V([[1, 1], [2, 0]])
I6, O3 = V([0, 2, 3, 2, 1, 3]), V([0, 3, 3])


def ctc(name, ref, samples, **kw):
    # The derivative holds for log_probs that a log_softmax made, so differences do not give it.
    return Op(name, samples, ref, ("float64",), grad=False, out=False, **kw)


OPS = [
    Op(
        "_bag_max_rows",
        [S(V([[1.0, 4.0], [3.0, 2.0]], "float64"), V([1, 1]), V([True, True]), 2)],
        lambda *_: np.array([[-1, -1], [1, 0]]),
        ("float64",),
        errors=[error((2, 1), V([0]), V([True]), 1, type=RuntimeError, match=r"got \(2, 1\)")],
    ),
    ctc("_ctc_loss", None, [S(P, T, [4, 3], [2, 1])]),
    ctc("_ctc_loss_backward", None, []),
    ctc(
        "ctc_loss",
        ctc_ref,
        [
            S(P, T, [4, 3], [2, 1], reduction=0),
            S(P, V([1, 2, 2]), [4, 3], [1, 2], 0, 1),
            S(P, T, [2, 3], [2, 1], 0, 2, True),
            S(P, T, [4, 4], [2, 0], reduction=2),
        ],
        errors=[
            error(P, T, [5, 3], [2, 1], type=RuntimeError, match="4 steps, got 5"),
            error(P, V([[1, 3], [2, 0]]), [4, 3], [2, 1], type=RuntimeError, match="got 3"),
        ],
    ),
    Op(
        "embedding_bag",
        [
            S((4, 3), I6, O3),
            S((4, 3), I6, O3, False, 1),
            S((4, 3), I6, O3, False, 2),
            S((4, 3), I6, O3, False, 0, False, (6,)),
            S((4, 3), I6, O3, False, 1, False, None, False, 2),
        ],
        bag_ref,
        ("float32", "float64"),
        errors=[error((4, 3), I6, V([1, 3]), type=RuntimeError, match="start at 0, got 1")],
    ),
]
