"""Test rows of ops/margin_loss.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, Op, S, V, error


def reduced(losses, reduction):
    return (losses, np.mean(losses), np.sum(losses))[reduction]


def multi_margin(x, t, p=1, margin=1, weight=None, reduction=1):
    rows, classes = np.atleast_2d(x), np.atleast_1d(t)
    losses = []
    for row, c in zip(rows, classes):
        short = np.maximum(0, margin - row[c] + row) ** p * (1 if weight is None else weight[c])
        losses.append(np.delete(short, c).sum() / len(row))
    return reduced(np.reshape(losses, np.shape(t)), reduction)


def multilabel_margin(x, t, reduction=1):
    losses = []
    for row, listed in zip(np.atleast_2d(x), np.atleast_2d(t)):
        own = [c for c, ok in zip(listed, np.cumprod(listed >= 0)) if ok]
        others = [c for c in range(len(row)) if c not in own]
        gaps = [max(0, 1 - row[c] + row[d]) for c in own for d in others]
        losses.append(sum(gaps) / len(row))
    return reduced(np.reshape(losses, np.shape(x)[:-1]), reduction)


def cosine_embedding(a, b, t, margin=0.0, reduction=1):
    cosine = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return reduced(np.where(t == 1, 1 - cosine, np.maximum(0, cosine - margin)), reduction)


def shortened(x, p, dim, limit):
    others = tuple(d for d in range(x.ndim) if d != dim)
    norms = (np.abs(x) ** p).sum(others, keepdims=True) ** (1 / p)
    return x * np.where(norms > limit, limit / (norms + 1e-7), 1)


def distances(x, p=2.0):
    i, j = np.triu_indices(len(x), 1)
    return np.linalg.norm(x[i] - x[j], p, -1) if len(i) else np.zeros(0)


CLASSES = V([2, 0, 1], "int64")
LABELS = V([[3, 0, -1, 1], [-1, 0, 1, 2], [1, 2, 3, 0]], "int64")

OPS = [
    Op(
        "cosine_embedding_loss",
        [S((2, 3), (2, 3), V([1, -1], "int64"), 0.1), S((3,), (3,), V(-1, "int64"), 0.0, 2)],
        cosine_embedding,
        FLOATS,
        errors=[error((3,), (3,), (3,), type=RuntimeError, match=r"\(3,\), \(3,\) and \(3,\)")],
    ),
    Op(
        "embedding_renorm_",
        [S((4, 3), V([2, 0, 2], "int64"), 0.5, 2.0)],
        lambda x, i, limit, p: np.where(
            np.isin(np.arange(4), i)[:, None], shortened(x, p, 0, limit), x
        ),
        FLOATS,
        grad=False,
        inplace=False,
        meta=False,  # how many rows are touched is not known there
        errors=[error((3,), V([0], "int64"), 1.0, 2.0, type=RuntimeError, match="a matrix")],
    ),
    Op(
        "multi_margin_loss",
        [
            S((3, 4), CLASSES),
            S((3, 4), CLASSES, 2, 0.5, V([1.0, 2.0, 0.5, 1.0], "float64"), 0),
            S((4,), V(1, "int64"), reduction=2),
        ],
        multi_margin,
        ("float64",),
        errors=[
            error((3, 2), CLASSES, type=RuntimeError, match=r"\[0, 2\), got 0 to 2"),
            error((2, 3), CLASSES, type=RuntimeError, match="each of 2 rows"),
        ],
    ),
    Op(
        "multilabel_margin_loss",
        [S((3, 4), LABELS), S((3, 4), LABELS, 0), S((4,), V([3, 0, -1, 1], "int64"), 2)],
        multilabel_margin,
        FLOATS,
        errors=[error((3,), LABELS, type=RuntimeError, match=r"shape \(3,\), got \(3, 4\)")],
    ),
    Op(
        "pdist",
        [S((4, 3)), S((4, 3), 1.0), S((1, 3))],
        distances,
        FLOATS,
        errors=[error((3,), type=RuntimeError, match=r"got shape \(3,\)")],
    ),
    Op(
        "renorm",
        [S((3, 4), 2, 0, 1), S((2, 3, 2), 1, 1, 2.5)],
        shortened,
        FLOATS + COMPLEX,
        errors=[error((3,), 2, 0, 1, type=RuntimeError, match=r"got shape \(3,\)")],
    ),
]
