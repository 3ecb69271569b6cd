"""Test rows of ops/fourier.toml, against NumPy's transforms in doubles."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, Op, S, error

NORMS = (
    "backward",
    "ortho",
    "forward",
)  # of a transform with minus in the exponent: by none, root, count


def scaled(function, inverse, x, s, dim, normalization):
    """NumPy's norm that divides by as much in this direction."""
    norm = NORMS[normalization] if not inverse else NORMS[::-1][normalization]
    return function(x, s, dim, norm)


def c2c(x, dim, normalization, forward):
    if not dim:
        return np.array(x)
    return scaled(
        np.fft.fftn if forward else np.fft.ifftn, not forward, x, None, dim, normalization
    )


def r2c(x, dim, normalization, onesided, forward=True):
    full = c2c(x, dim, normalization, forward)
    return full.take(range(x.shape[dim[-1]] // 2 + 1), dim[-1]) if onesided else full


def c2r(x, dim, normalization, last_dim_size, forward=False):
    s = [x.shape[d] for d in dim[:-1]] + [last_dim_size]
    return scaled(np.fft.irfftn, True, np.conj(x) if forward else x, s, dim, normalization)


OPS = [
    Op(
        "_fft_c2c",
        samples=[
            S((5,), [0], 0, True),
            S((3, 8), [-1], 1, False),
            S((3, 8), [0], 2, True),
            S((17, 33), [0], 0, False),
            S((2, 6, 34), [0, 2], 1, True),
            S((37, 3), [0], 0, True),
            S((0, 4), [1], 0, True),
            S((4, 3), [], 0, True),
            S((20, 3, 4), [1, 2], 2, True),
        ],
        ref=c2c,
        dtypes=COMPLEX,
        errors=[
            error((3,), [0], 0, True, type=RuntimeError, match="complex input .* float32"),
            error((3,), [1], 0, True, type=IndexError, match="got 1", dtype="complex64"),
            error((3,), [0, -1], 0, True, type=RuntimeError, match="named once", dtype="complex64"),
            error((3,), [0], 3, True, type=RuntimeError, match="got 3", dtype="complex64"),
            error(
                (0,), [0], 0, True, type=RuntimeError, match="at least 1, got 0", dtype="complex64"
            ),
        ],
    ),
    Op(
        "_fft_r2c",
        samples=[
            S((8,), [0], 0, True),
            S((7,), [0], 1, True, False),
            S((18, 12), [1], 2, True),
            S((9, 5), [0], 0, True),
            S((6, 5), [0, 1], 0, False),
            S((4, 6), [1, 0], 1, False, False),
            S((20, 4, 6), [1, 2], 0, True),
            S((37,), [0], 0, True),
            S((0, 4), [1], 0, True),
        ],
        ref=r2c,
        dtypes=FLOATS,
        errors=[
            error(
                (3,),
                [0],
                0,
                True,
                type=RuntimeError,
                match="real input .* complex64",
                dtype="complex64",
            ),
            error((3,), [0], 0, True, type=RuntimeError, match="float16", dtype="float16"),
            error((3,), [], 0, True, type=RuntimeError, match="at least one dim"),
        ],
    ),
    Op(
        "_fft_c2r",
        samples=[
            S((5,), [0], 2, 8),
            S((5,), [0], 1, 9, True),
            S((18, 7), [1], 2, 12),
            S((5, 9), [0], 0, 9),
            S((20, 4, 4), [1, 2], 0, 6),
            S((20, 4, 4), [2, 1], 0, 7, True),
            S((19,), [0], 0, 37),
            S((0, 3), [1], 0, 4),
        ],
        ref=c2r,
        dtypes=COMPLEX,
        errors=[
            error((3,), [0], 0, 4, type=RuntimeError, match="complex input .* float32"),
            error(
                (3,), [0], 0, 6, type=RuntimeError, match="has 4 elements, got 3", dtype="complex64"
            ),
            error((1,), [0], 0, 0, type=RuntimeError, match="at least 1, got 0", dtype="complex64"),
        ],
    ),
]
