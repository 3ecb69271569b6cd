"""Test rows of ops/view_copies.toml: the views are tested in view.py, here that the values are theirs."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, Op, S


def copied(name, samples, ref, dtypes=FLOATS, **kw):
    return Op(f"{name}_copy", samples, ref, dtypes, exact=True, **kw)


def pieces(x, sizes, dim=0):
    return np.split(x, np.cumsum(sizes)[:-1], dim)


def unsafe(name, samples, ref):
    return Op(f"unsafe_{name}", samples, ref, FLOATS, exact=True)


OPS = [
    copied("alias", [S((2, 3)), S(())], lambda x: x),
    copied(
        "as_strided",
        [S((6,), [2, 2], [3, 1], 1)],
        lambda x, size, stride, offset: np.array([[x[1], x[2]], [x[4], x[5]]]),
        strided=False,
    ),
    copied("detach", [S((2, 3))], lambda x: x, grad=False),
    copied("diagonal", [S((3, 3)), S((2, 3, 4), 1, 1, 2)], np.diagonal),
    copied("expand", [S((3, 1), [2, 3, 4])], np.broadcast_to),
    copied("narrow", [S((4, 2), 0, 1, 2)], lambda x, dim, start, n: x[start : start + n]),
    copied("permute", [S((2, 3, 4), [2, 0, 1])], np.transpose),
    copied("select", [S((2, 3), 1, -1)], lambda x, dim, i: np.take(x, i, dim)),
    copied("slice", [S((5, 2), 0, 1, 4, 2)], lambda x, dim, a, b, step: x[a:b:step]),
    copied("split", [S((5, 2), 2)], lambda x, n: pieces(x, [2, 2, 1])),
    copied("split_with_sizes", [S((5, 2), [1, 4])], pieces),
    copied(
        "squeeze",
        [S((1, 2, 1)), S((1, 2, 1), 0), S((1, 2, 1), [0, 2])],
        lambda x, dim=None: np.squeeze(x, tuple(dim) if isinstance(dim, list) else dim),
    ),
    copied("t", [S((2, 3))], np.transpose),
    copied("transpose", [S((2, 3, 4), 0, 2)], np.swapaxes),
    copied("unbind", [S((2, 3))], list),
    copied("unfold", [S((5, 2), 0, 3, 2)], lambda x, *a: np.stack([x[0:3].T, x[2:5].T])),
    copied("unsqueeze", [S((2, 3), 1)], np.expand_dims),
    copied("view", [S((2, 3), [3, 2])], np.reshape),
    copied("view_as_complex", [S((3, 2))], lambda x: x[:, 0] + 1j * x[:, 1], strided=False),
    copied("view_as_real", [S((3,))], lambda x: np.stack([x.real, x.imag], -1), COMPLEX),
    unsafe("chunk", [S((5, 2), 2)], lambda x, n: pieces(x, [3, 2])),
    unsafe("split", [S((5, 2), 2)], lambda x, n: pieces(x, [2, 2, 1])),
    unsafe("split_with_sizes", [S((5, 2), [1, 4])], pieces),
]
