"""Test rows of ops/reduce.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, INTS, Op, S, error

DIMS = [
    S((3, 4)),
    S((3, 4), 1),
    S((2, 3, 4), [0, 2], True),
    S(()),
    S((0, 3), 1),
    S((5, 3), -2, keepdim=True),
]
WRONG = [
    error((2, 3), 2, type=IndexError, match=r"dim must be in \[-2, 1\], got 2"),
    error((2, 3), [0, 0], type=RuntimeError, match="named once"),
]


def over(f):
    """A NumPy reduction with torch's keywords."""

    def reduce(a, dim=None, keepdim=False, dtype=None):
        axis = tuple(dim) if isinstance(dim, list) else dim
        return f(a, axis=axis, keepdims=keepdim)

    return reduce


OPS = [
    Op(
        "mean",
        [DIMS[0], DIMS[1], DIMS[2], DIMS[3], DIMS[5]],
        over(np.mean),
        FLOATS + HALVES + COMPLEX,
        errors=WRONG,
    ),
    Op("sum", DIMS, over(np.sum), FLOATS + HALVES + INTS + COMPLEX, errors=WRONG),
]
