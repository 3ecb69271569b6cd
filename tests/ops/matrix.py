"""Test rows of ops/matrix.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, Op, S, error

DTYPES = FLOATS + HALVES + COMPLEX + ("int64",)
INNER = [error((2, 3), (4, 5), type=RuntimeError, match=r"got \(2, 3\) @ \(4, 5\)")]
TOL = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1, "complex64": 1e-5}


def product(name, ref, *samples, dtypes=DTYPES, **kw):
    return Op(name, list(samples), ref, dtypes, tol=TOL, **kw)


def add(a, product, beta=1, alpha=1):
    return beta * a + alpha * product


def affine(x, w, b=None):
    y = x @ np.swapaxes(w, 0, -1) if w.ndim == 2 else x @ w
    return y if b is None else y + b


OPS = [
    product(
        "addmm",
        lambda a, x, y, **kw: add(a, x @ y, **kw),
        S((3, 4), (3, 5), (5, 4)),
        S((4,), (3, 5), (5, 4), beta=2, alpha=3),
        S((3, 4), (3, 0), (0, 4)),
        errors=[error((2, 2), (2, 3), (4, 2), type=RuntimeError, match="inner sizes must match")],
    ),
    product(
        "addmv",
        lambda a, m, v, **kw: add(a, m @ v, **kw),
        S((3,), (3, 5), (5,)),
        S((), (3, 5), (5,), beta=2),
    ),
    product(
        "baddbmm",
        lambda a, x, y, **kw: add(a, x @ y, **kw),
        S((2, 3, 4), (2, 3, 5), (2, 5, 4)),
        S((1,), (2, 3, 5), (2, 5, 4), alpha=2),
    ),
    product(
        "bilinear",
        lambda x, y, w, b=None: np.einsum("...i,oij,...j->...o", x, w, y) + (0 if b is None else b),
        S((3, 2), (3, 4), (5, 2, 4), (5,)),
        S((2, 3, 2), (2, 3, 4), (5, 2, 4)),
        dtypes=FLOATS,
    ),
    product("bmm", np.matmul, S((2, 3, 5), (2, 5, 4)), S((0, 3, 5), (0, 5, 4))),
    product("dot", np.dot, S((7,), (7,)), S((0,), (0,))),
    product(
        "linear",
        affine,
        S((3, 5), (4, 5), (4,)),
        S((2, 3, 5), (4, 5)),
        S((5,), (4, 5), (4,)),
        S((3, 5), (5,)),
        errors=[
            error(
                (3, 8), (2, 5), type=RuntimeError, match=r"expected input \[\*, 5\].*got \(3, 8\)"
            )
        ],
    ),
    product(
        "matmul",
        np.matmul,
        S((3, 5), (5, 4)),
        S((5,), (5,)),
        S((3, 5), (5,)),
        S((5,), (5, 4)),
        S((2, 3, 5), (5, 4)),
        S((2, 1, 3, 5), (4, 5, 2)),
        S((3, 0), (0, 4)),
        errors=INNER,
    ),
    product(
        "mm",
        np.matmul,
        S((3, 5), (5, 4)),
        S((1, 1), (1, 1)),
        S((3, 0), (0, 4)),
        errors=[*INNER, error((2,), (2, 2), type=RuntimeError, match="must have 2 dims")],
    ),
    product("mv", np.matmul, S((3, 5), (5,)), S((0, 5), (5,))),
    product("outer", np.outer, S((3,), (4,)), S((0,), (4,))),
    product("vdot", np.vdot, S((7,), (7,)), dtypes=FLOATS + COMPLEX),
]
