"""Test rows of ops/composite.toml, border.toml and contraction.toml."""

import math

import numpy as np

from tests.ops.rows import FLOATS, HALVES, INTS, Op, S, V, error

PAIRS = [S((3, 4), (3, 4)), S((3, 1), (1, 4)), S((2, 3), ())]
INF, NAN = float("inf"), float("nan")


def clamp(a, min=None, max=None):
    low = -np.inf if min is None else min
    high = np.inf if max is None else max
    return np.minimum(np.maximum(a, low), high)


def nan_to_num(a, nan=0.0, posinf=None, neginf=None):
    return np.nan_to_num(a, nan=nan, posinf=posinf, neginf=neginf)


def cosine(a, b, dim=1, eps=1e-8):
    return np.sum(a * b, dim) / (np.linalg.norm(a, axis=dim) * np.linalg.norm(b, axis=dim))


def distances(a, b, p=2.0):
    return np.sum(np.abs(a[..., :, None, :] - b[..., None, :, :]) ** p, -1) ** (1 / p)


def pad(a, pad, mode="constant", value=None):
    widths = [(0, 0)] * (a.ndim - len(pad) // 2)
    widths += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    names = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    extra = {"constant_values": value or 0} if mode == "constant" else {}
    return np.pad(a, widths, names[mode], **extra)


def shuffle(a, r):
    n, c, h, w = a.shape
    parts = a.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // r**2, h * r, w * r)


def unshuffle(a, r):
    n, c, h, w = a.shape
    parts = a.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return parts.reshape(n, c * r**2, h // r, w // r)


UNIT = dict(low_=0.05, high_=0.95)

OPS = [
    Op("_angle", [S((3, 4))], np.angle, FLOATS, inplace=False, out=False),
    Op("_clamp", [S((3, 4), -1, 0.5)], np.clip, FLOATS, inplace=False, out=False),
    Op("_logit", [S((3, 4), -1.0, **UNIT)], lambda a, eps: np.log(a / (1 - a)), FLOATS),
    Op("_nan_to_num", [S((3, 4), 0.0, 1.0, 2.0)], nan_to_num, FLOATS),
    Op(
        "addbmm",
        [S((3, 5), (2, 3, 4), (2, 4, 5)), S((5,), (2, 3, 4), (2, 4, 5), beta=2, alpha=0.5)],
        lambda c, a, b, beta=1, alpha=1: beta * c + alpha * (a @ b).sum(0),
        FLOATS,
        inplace=False,
    ),
    Op(
        "addr",
        [S((3, 4), (3,), (4,)), S((3, 4), (3,), (4,), beta=2, alpha=0.5)],
        lambda c, a, b, beta=1, alpha=1: beta * c + alpha * np.outer(a, b),
        FLOATS,
        errors=[error((3, 4), (3, 1), (4,), type=RuntimeError, match="two vectors")],
    ),
    Op("allclose", [S((3, 4), (3, 4)), S((3,), (3,), 10.0)], np.allclose, FLOATS, grad=False),
    Op("angle", [S((3, 4))], np.angle, FLOATS + ("complex64", "complex128")),
    Op(
        "cdist",
        [S((3, 4), (5, 4)), S((2, 3, 4), (2, 1, 4), 3.0)],
        distances,
        FLOATS,
        errors=[error((3, 4), (3, 5), type=RuntimeError, match="rows of one size")],
    ),
    Op(
        "clamp",
        [S((3, 4), -1, 0.5), S((3, 4), -1.0), S((3, 4), max=1.0), S((3, 4), (3, 4), (4,))],
        clamp,
        FLOATS + HALVES,
        errors=[error((3,), type=RuntimeError, match="got neither")],
    ),
    Op("cosine_similarity", [S((3, 4), (3, 4)), S((3, 4), (3, 4), 0)], cosine, FLOATS),
    Op(
        "cross",
        [S((4, 3), (4, 3)), S((3, 2), (3, 2), 0)],
        lambda a, b, dim=-1: np.cross(a, b, axis=dim),
        FLOATS,
        errors=[error((2,), (2,), type=RuntimeError, match=r"size 3 is needed, got shape \(2,\)")],
    ),
    Op(
        "diff",
        [S((3, 4)), S((3, 4), 2, 0), S((3, 4), 5), S((3, 4), 1, 1, (3, 2))],
        lambda a, n=1, dim=-1, prepend=None: (
            np.diff(a, n, dim)
            if prepend is None
            else np.diff(np.concatenate([prepend, a], dim), n, dim)
        ),
        FLOATS + INTS,
        errors=[error((), type=RuntimeError, match="at least one dim")],
    ),
    Op(
        "einsum",
        [
            S("ij,jk->ik", [(2, 3), (3, 4)]),
            S("bij,bjk", [(5, 2, 3), (5, 3, 4)]),
            S("ii->i", [(3, 3)]),
            S("...ij->...ji", [(2, 3, 4)]),
            S("ij,kj,lk->il", [(2, 3), (4, 3), (5, 4)]),
            S("i,j->ij", [(2,), (3,)]),
        ],
        lambda equation, tensors: np.einsum(equation, *tensors),
        FLOATS,
        errors=[error("ij->k", [(2, 3)], type=RuntimeError, match="einsum")],
    ),
    Op(
        "dequantize",
        [S((3, 4)), S([(2,), (3, 1)])],
        lambda x: x,
        ("float32", "int64", "uint8"),
        exact=True,
        grad=False,  # single precision is too coarse for differences
    ),
    Op("equal", [S((3, 4), (3, 4)), S((3,), (4,))], np.array_equal, FLOATS, grad=False),
    Op(
        "float_power",
        [S((3, 4), 2), S((3, 4), (3, 4), low_=0.5)],
        lambda a, b: np.asarray(a, np.float64) ** b,
        ("float64", "int64"),
        inplace=False,
        out=False,
    ),
    Op(
        "inner",
        [S((3, 4), (2, 4)), S((4,), (4,)), S((), (3,))],
        np.inner,
        FLOATS,
        errors=[error((3,), (4,), type=RuntimeError, match="last sizes must match")],
    ),
    Op(
        "isclose",
        [*PAIRS, S((3,), (3,), 10.0)],
        np.isclose,
        FLOATS,
        grad=False,
        errors=[error((3,), (3,), -1.0, type=RuntimeError, match="must not be negative")],
    ),
    Op(
        "frexp",
        [S((3, 4)), S((0,))],
        lambda x: np.frexp(x),
        FLOATS + HALVES,
        exact=True,
        second=False,
    ),
    Op("isreal", [S((3, 4))], np.isreal, ("float32", "complex64"), grad=False),
    Op("kron", [S((2, 3), (3, 2)), S((3,), (2, 2))], np.kron, FLOATS + INTS),
    Op(
        "linalg_cross",
        [S((4, 3), (4, 3)), S((3, 2), (3, 2), dim=0)],
        lambda a, b, dim=-1: np.cross(a, b, axis=dim),
        FLOATS,
    ),
    Op("logit", [S((3, 4), **UNIT), S((3, 4), 0.2, **UNIT)], None, FLOATS),
    Op(
        "nan_to_num",
        [S((3, 4)), S(V([NAN, INF, -INF, 1.0]), 2.0, 3.0, 4.0, grad_=False)],
        nan_to_num,
        FLOATS,
    ),
    Op(
        "pad",
        [
            S((2, 3), [1, 2]),
            S((1, 2, 5), [1, 2], "reflect"),
            S((1, 2, 5), [4, 2], "replicate"),
            S((1, 2, 4, 5), [1, 2, 3, 1], "circular"),
            S((2, 3), [1, 2, 0, 1], "constant", 2.5),
        ],
        pad,
        FLOATS,
        errors=[
            error((1, 2, 3), [3, 0], "reflect", type=RuntimeError, match="must be smaller"),
            error((3,), [1, 0], "reflect", type=NotImplementedError, match="cannot pad"),
            error((2, 0, 3), [1, 1], "replicate", type=RuntimeError, match="pads no empty dims"),
        ],
    ),
    Op(
        "pairwise_distance",
        [S((3, 4), (3, 4)), S((3, 4), (4,), 3.0)],
        lambda a, b, p=2.0: np.sum(np.abs(a - b + 1e-6) ** p, -1) ** (1 / p),
        FLOATS,
    ),
    Op(
        "pixel_shuffle",
        [S((2, 8, 3, 2), 2)],
        shuffle,
        FLOATS,
        errors=[error((1, 3, 2, 2), 2, type=RuntimeError, match="multiple of 4")],
    ),
    Op(
        "pixel_unshuffle",
        [S((2, 2, 4, 6), 2)],
        unshuffle,
        FLOATS,
        errors=[error((1, 3, 3, 2), 2, type=RuntimeError, match="multiples of 2")],
    ),
    Op(
        "mvlgamma",
        [S((3, 4), p, low_=2, high_=4) for p in (1, 3)],
        lambda x, p: (
            sum(np.vectorize(math.lgamma, otypes=[float])(x - j / 2) for j in range(p))
            + p * (p - 1) / 4 * math.log(math.pi)
        ),
        FLOATS,
        tol={"float32": 1e-5},
        errors=[error((2,), 0, type=RuntimeError, match="at least 1, got 0")],
    ),
    Op("positive", [S((3, 4))], lambda x: x, FLOATS, exact=True),
    Op(
        "round",
        [S((3, 4)), S((3, 4), decimals=1)],
        lambda a, decimals=0: np.round(a, decimals),
        FLOATS,
        grad=False,
    ),
    Op(
        "tensordot",
        [S((2, 3), (3, 4), 1), S((2, 3, 4), (4, 3), [[1, 2], [1, 0]])],
        np.tensordot,
        FLOATS,
        out=False,
    ),
]

# Sweeps that make no sense for a row: they need values, or memory that is not a view.
WITHOUT = {
    "allclose": ["meta"],
    "equal": ["meta"],
}
for op in OPS:
    for sweep in WITHOUT.get(op.name, []):
        setattr(op, sweep, False)
