"""Test rows of ops/regression_loss.toml."""

import numpy as np

from tests.ops.rows import FLOATS, HALVES, Op, S, V, error

PAIR = [S((3, 4), (3, 4)), S((3, 4), (3, 4), reduction=0), S((3, 4), (3, 4), reduction=2)]
ELEMENTS = [S((3, 4), (3, 4)), S((3, 1), (4,))]
UNIT = dict(low_=0.05, high_=0.95)
SIGNS = V([[1, -1], [-1, 1]])


def reduced(f):
    def loss(*args, reduction=1, **kwargs):
        losses = f(*args, **kwargs)
        return losses if reduction == 0 else losses.mean() if reduction == 1 else losses.sum()

    return loss


def cross_entropy(x, t):
    return -(t * np.log(x) + (1 - t) * np.log(1 - x))


def from_logits(x, t):
    return np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))


def huber(x, t, delta=1.0):
    d = np.abs(x - t)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


def smooth_l1(x, t, beta=1.0):
    d = np.abs(x - t)
    return np.where(d < beta, d * d / 2 / beta, d - beta / 2)


def element(name, ref, samples=ELEMENTS, **kw):
    return Op(name, samples, ref, FLOATS, inplace=False, out=False, **kw)


OPS = [
    element("_bce", cross_entropy, [S((3, 4), (3, 4), **UNIT)]),
    element("_bce_logits", from_logits),
    element("_huber", huber, [S((3, 4), (3, 4), 1.0)]),
    element("_smooth_l1", smooth_l1, [S((3, 4), (3, 4), 1.0)]),
    element("_squared_error", lambda x, t: (x - t) ** 2),
    Op(
        "binary_cross_entropy",
        [S((3, 4), (3, 4), **UNIT), S((3, 4), (3, 4), (3, 4), reduction=0, **UNIT)],
        reduced(lambda x, t, w=1: w * cross_entropy(x, t)),
        FLOATS,
        errors=[error((3,), (3,), low_=2, high_=3, type=RuntimeError, match=r"\[0, 1\]")],
    ),
    Op(
        "binary_cross_entropy_with_logits",
        [*PAIR, S((3, 4), (3, 4), pos_weight=(4,))],
        reduced(
            lambda x, t, pos_weight=1: (
                (1 - t) * x + (1 + (pos_weight - 1) * t) * np.log1p(np.exp(-x))
            )
        ),
        FLOATS,
    ),
    Op(
        "hinge_embedding_loss",
        [S((2, 2), SIGNS), S((2, 2), SIGNS, 0.5, reduction=0)],
        reduced(lambda x, t, margin=1.0: np.where(t == 1, x, np.maximum(0, margin - x))),
        ("float64",),
    ),
    Op(
        "huber_loss",
        [*PAIR, S((3, 4), (3, 4), delta=0.5)],
        reduced(huber),
        FLOATS,
        errors=[error((3,), (3,), delta=0.0, type=RuntimeError, match="must be positive")],
    ),
    Op(
        "kl_div",
        [S((3, 4), (3, 4), **UNIT), S((3, 4), (3, 4), log_target=True)],
        reduced(
            lambda x, t, log_target=False: (
                np.exp(t) * (t - x) if log_target else t * (np.log(t) - x)
            )
        ),
        FLOATS,
    ),
    Op("l1_loss", PAIR, reduced(lambda x, t: np.abs(x - t)), FLOATS + HALVES),
    Op(
        "margin_ranking_loss",
        [S((2, 2), (2, 2), SIGNS), S((2, 2), (2, 2), SIGNS, 0.5, reduction=0)],
        reduced(lambda a, b, t, margin=0.0: np.maximum(0, -t * (a - b) + margin)),
        ("float64",),
    ),
    Op(
        "mse_loss",
        PAIR,
        reduced(lambda x, t: (x - t) ** 2),
        FLOATS,
        errors=[error((3,), (3,), 3, type=ValueError, match="reduction must be 0")],
    ),
    Op(
        "smooth_l1_loss",
        [*PAIR, S((3, 4), (3, 4), beta=0.5)],
        reduced(smooth_l1),
        FLOATS,
        errors=[error((3,), (3,), beta=-1.0, type=RuntimeError, match="must not be negative")],
    ),
    Op("soft_margin_loss", PAIR, reduced(lambda x, t: np.log1p(np.exp(-t * x))), FLOATS),
]
OPS += [
    Op(
        "poisson_nll_loss",
        [
            S((3, 4), (3, 4), True, False, 1e-8, 1, low_=0.1),
            S((3,), (3,), False, False, 1e-8, 0, low_=0.1),
        ],
        lambda x, t, log_input, full, eps, reduction: (
            (np.exp(x) - t * x).mean() if log_input else x - t * np.log(x + eps)
        ),
        FLOATS,
        inplace=False,
    ),
    Op(
        "triplet_margin_loss",
        [S((3, 4), (3, 4), (3, 4), margin=4.0)],
        lambda a, p, n, margin: np.maximum(
            np.linalg.norm(a - p + 1e-6, axis=1) - np.linalg.norm(a - n + 1e-6, axis=1) + margin, 0
        ).mean(),
        FLOATS,
        inplace=False,
    ),
]
