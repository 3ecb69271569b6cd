"""Test rows of ops/scan.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, INTS, Op, S, V, error

DIMS = [S((3, 4), 1), S((2, 3, 4), -2), S((), 0), S((0, 3), 0), S((5,), 0)]
WRONG = [error((2, 3), 2, type=IndexError, match=r"dim must be in \[-2, 1\], got 2")]


def along(f):
    return lambda a, dim, dtype=None: f(a, axis=dim) if np.ndim(a) else a


def running(beats):
    """Values and indices of the extreme element so far; of equal ones the last counts."""

    def scan(a, dim):
        if np.ndim(a) == 0:
            return a, np.int64(0)
        x = np.moveaxis(np.asarray(a), dim, 0)
        values, indices = x.copy(), np.zeros(x.shape, np.int64)
        for i in range(1, len(x)):
            better = beats(x[i], values[i - 1])
            values[i] = np.where(better, x[i], values[i - 1])
            indices[i] = np.where(better, i, indices[i - 1])
        return np.moveaxis(values, 0, dim), np.moveaxis(indices, 0, dim)

    return scan


OPS = [
    Op("cummax", DIMS, running(np.greater_equal), FLOATS + INTS, out=False, errors=WRONG),
    Op("cummin", DIMS, running(np.less_equal), FLOATS + INTS, out=False, errors=WRONG),
    Op(
        "cumprod",
        [*DIMS, S(V([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0]]), 1, grad_=False)],
        along(np.cumprod),
        FLOATS + INTS + COMPLEX,
        inplace=False,
        errors=WRONG,
    ),
    Op("cumsum", DIMS, along(np.cumsum), FLOATS + INTS + COMPLEX, inplace=False, errors=WRONG),
    Op(
        "logcumsumexp",
        DIMS,
        along(lambda a, axis: np.log(np.cumsum(np.exp(a), axis=axis))),
        FLOATS,
        errors=WRONG,
    ),
]
