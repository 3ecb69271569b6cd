"""Test rows of ops/sorting.toml: order, search and counting."""

import numpy as np

from tests.ops.rows import FLOATS, HALVES, INTS, Op, S, V, error

REAL = FLOATS + HALVES + INTS
DISTINCT = V([[3.0, 1.0, 2.0], [0.5, 7.0, -1.0]])
TIES = V([3, 1, 3, 2, 1, 1])
FLOAT64 = {"float64": 1e-6}  # explicit values are float32


def sort_ref(x, dim=-1, descending=False, **_):
    if x.ndim == 0:
        return [x, np.zeros_like(x, dtype=np.int64)]
    order = np.argsort(-x if descending else x, dim, kind="stable")
    return [np.take_along_axis(x, order, dim), order]


def pick(x, order, place, dim, keepdim):
    at = np.take(order, [place], dim)
    found = [np.take_along_axis(x, at, dim), at]
    return found if keepdim else [np.squeeze(v, dim) for v in found]


def kth_ref(x, k, dim=-1, keepdim=False):
    return pick(x, np.argsort(x, dim, kind="stable"), k - 1, dim, keepdim)


def median_ref(x, dim=None, keepdim=False):
    if dim is None:
        return np.sort(x.reshape(-1))[(x.size - 1) // 2]
    return kth_ref(x, (x.shape[dim] + 1) // 2, dim, keepdim)


def mode_ref(x, dim=-1, keepdim=False):
    values, counts = np.unique(x, return_counts=True)
    best = values[np.argmax(counts)]
    return [best, np.flatnonzero(x == best)[-1]]


def unique_ref(x, sorted=True, inverse=False, counts=False):
    return [*np.unique(x, return_inverse=True, return_counts=True)]


def runs_ref(x, inverse=True, counts=True):
    new = np.concatenate([[True], x[1:] != x[:-1]])
    where = np.cumsum(new) - 1
    return [x[new], where, np.bincount(where)]


def unique_dim_ref(x, dim, *_):
    return [*np.unique(x, axis=dim, return_inverse=True, return_counts=True)]


NO_K = [error((2, 3), 4, type=RuntimeError, match=r"\[., 3\].*got 4")]

OPS = [
    Op("_unique2", [S(TIES, True, True, True)], unique_ref, ("int64",), grad=False),
    Op("argsort", [S((2, 3)), S((3, 2), 0, True)], lambda x, *a: sort_ref(x, *a)[1], FLOATS),
    Op(
        "bincount",
        [S(V([1, 3, 1])), S(V([0, 2]), minlength=5), S(V([1, 3, 1]), (3,))],
        np.bincount,
        ("float32",),
        grad=False,
        errors=[
            error(V([-1]), type=RuntimeError, match="got -1 at 0"),
            error(V([[1]]), type=RuntimeError, match=r"1-d, got shape \(1, 1\)"),
        ],
    ),
    Op(
        "bucketize",
        [S((2, 3), V([-1.0, 0.0, 1.0])), S((3,), V([-1.0, 0.0, 1.0]), right=True)],
        lambda x, b, right=False: np.searchsorted(b, x, "right" if right else "left"),
        FLOATS,
        grad=False,
    ),
    Op(
        "histc",
        [S((20,), 4, -2, 2), S((2, 3), 5, 0, 1)],
        lambda x, bins, low, high: np.histogram(x, bins, (low, high))[0],
        FLOATS,
        grad=False,
        errors=[error((3,), 0, type=RuntimeError, match="positive, got 0")],
    ),
    Op(
        "histogram",
        [S((20,), 4, range=[-2.0, 2.0]), S((20,), 4, range=[-2.0, 2.0], density=True)],
        lambda x, bins, range, density=False: [*np.histogram(x, bins, tuple(range), density)],
        FLOATS,
        grad=False,
    ),
    Op(
        "isin",
        [S(TIES, V([1, 5])), S(TIES, V(list(range(2, 30)))), S(TIES, 3, invert=True)],
        lambda x, t, invert=False: np.isin(x, t, invert=invert),
        ("int64",),
        grad=False,
    ),
    Op(
        "kthvalue",
        [S(DISTINCT, 2), S(DISTINCT, 1, 0, True)],
        kth_ref,
        REAL,
        errors=NO_K,
        tol=FLOAT64,
    ),
    Op(
        "median",
        [S(DISTINCT), S(DISTINCT, 1), S(DISTINCT, 0, True)],
        median_ref,
        REAL,
        tol=FLOAT64,
        errors=[error((2, 0), 1, type=IndexError, match=r"dim 1 of shape \(2, 0\)")],
    ),
    Op("mode", [S(TIES)], mode_ref, ("int64",)),
    Op("msort", [S((3, 2)), S((4,))], lambda x: np.sort(x, 0), REAL, exact=True),
    Op("nanmedian", [S(DISTINCT), S(DISTINCT, 1)], median_ref, REAL, tol=FLOAT64),
    Op(
        "searchsorted",
        [S(V([-1.0, 0.0, 1.0]), (2, 3)), S(V([-1.0, 0.0, 1.0]), (3,), side="right")],
        lambda b, x, side="left": np.searchsorted(b, x, side),
        FLOATS,
        grad=False,
        errors=[error((2, 3), (3, 3), type=RuntimeError, match=r"\(2, 3\) and \(3, 3\)")],
    ),
    Op("sort", [S(DISTINCT), S(DISTINCT, 0, True), S(TIES), S((), 0)], sort_ref, REAL, tol=FLOAT64),
    Op(
        "topk",
        [S(DISTINCT, 2), S(DISTINCT, 1, 0, False), S(TIES, 0)],
        lambda x, k, dim=-1, largest=True: [
            np.take(v, range(k), dim) for v in sort_ref(x, dim, largest)
        ],
        REAL,
        errors=NO_K,
        tol=FLOAT64,
    ),
    Op("unique_consecutive", [S(TIES, True, True)], runs_ref, ("int64",), grad=False),
    Op(
        "unique_dim",
        [S(V([[3, 1, 3], [2, 1, 2]]), 1, True, True, True)],
        unique_dim_ref,
        ("int64",),
        grad=False,
    ),
]

# Sweeps that make no sense for a row: they need values, or memory that is not a view.
WITHOUT = {
    "histogram": ["meta"],
    "median": ["out"],
    "nanmedian": ["out"],
}
for op in OPS:
    for sweep in WITHOUT.get(op.name, []):
        setattr(op, sweep, False)
