"""Test rows of ops/view.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, Op, S

DTYPES = FLOATS + ("int64",)


def view(name, ref, *samples, dtypes=DTYPES, **kw):
    return Op(name, list(samples), ref, dtypes, exact=True, inplace=False, out=False, **kw)


def filled_diagonal(a, value, wrap=False):
    a = a.copy()
    np.fill_diagonal(a, value, wrap)
    return a


def as_strided(a, size, stride, offset=0):
    flat = a.ravel()
    where = sum(
        np.arange(n).reshape([-1] + [1] * (len(size) - d - 1)) * s
        for d, (n, s) in enumerate(zip(size, stride))
    )
    return flat[where + offset]


def windows(a, dim, size, step):
    starts = range(0, a.shape[dim] - size + 1, step)
    picked = [np.take(a, range(i, i + size), axis=dim) for i in starts]
    return np.stack([np.moveaxis(p, dim, -1) for p in picked], axis=dim)


def pieces(a, sizes, dim=0):
    return np.split(a, np.cumsum(sizes)[:-1], axis=dim)


def by_size(a, size, dim=0):
    return np.split(a, range(size, a.shape[dim], size), axis=dim)


OPS = [
    view("_piecewise", lambda a: a, S((2, 3)), S(())),
    view(
        "adjoint",
        lambda a: np.conj(np.swapaxes(a, -1, -2)),
        S((2, 3)),
        S((4, 2, 3)),
        dtypes=FLOATS + COMPLEX,
    ),
    view("as_strided", as_strided, S((12,), [2, 3], [4, 1], 1)),
    view("broadcast_to", lambda a, size: np.broadcast_to(a, size), S((3, 1), [2, 3, 4])),
    view("chunk", lambda a, n, dim=0: np.array_split(a, n, dim), S((6, 2), 3), S((2, 4), 2, 1)),
    view("conj", np.conj, S((3, 4)), dtypes=FLOATS + COMPLEX),
    Op("detach", [S((3, 4)), S(())], lambda a: a, DTYPES, exact=True, grad=False, inplace=False),
    view(
        "diagonal",
        lambda a, offset=0, dim1=0, dim2=1: np.diagonal(a, offset, dim1, dim2),
        S((3, 4)),
        S((2, 3, 4), -1, 1, 2),
        S((3, 4), 2),
    ),
    view(
        "expand",
        lambda a, *size: np.broadcast_to(a, size),
        S((3, 1), 3, 4),
        S((2,), 3, 2),
        S((), 2),
    ),
    view("expand_as", lambda a, b: np.broadcast_to(a, b.shape), S((3, 1), (3, 4))),
    view(
        "flatten",
        lambda a, *d: a.reshape(2, -1) if d else a.ravel(),
        S((2, 3, 2)),
        S((2, 3, 2), 1),
        S(()),
    ),
    view("movedim", np.moveaxis, S((2, 3, 4), 0, 2), S((2, 3, 4), [0, 1], [1, 0])),
    view(
        "narrow",
        lambda a, dim, start, n: np.take(a, range(start, start + n), dim),
        S((4, 3), 0, 1, 2),
        S((4, 3), 1, 2, 1),
    ),
    view("imag", np.imag, S((3, 4)), dtypes=COMPLEX),
    view("permute", lambda a, dims: np.transpose(a, dims), S((2, 3, 4), [2, 0, 1])),
    view("ravel", np.ravel, S((3, 4)), S(())),
    view("real", np.real, S((3, 4)), dtypes=FLOATS + COMPLEX),
    view("resolve_conj", lambda a: a, S((3, 4)), dtypes=FLOATS + COMPLEX),
    view("resolve_neg", lambda a: a, S((3, 4))),
    view(
        "fill_diagonal_",
        filled_diagonal,
        S((3, 3), 2.5),
        S((7, 2), 2.5, True),
        S((2, 2, 2), 2.5),
        dtypes=FLOATS,
        grad=False,
    ),
    view(
        "reshape",
        lambda a, size: a.reshape(size),
        S((3, 4), [2, 6]),
        S((3, 4), [-1]),
        S((2, 3), [3, -1]),
    ),
    view("reshape_as", lambda a, b: a.reshape(b.shape), S((3, 4), (4, 3))),
    view("select", lambda a, dim, i: np.take(a, i, dim), S((3, 4), 0, 1), S((3, 4), 1, -1)),
    view(
        "slice",
        lambda a, dim, s, e, t: a[s:e:t] if dim == 0 else a[:, s:e:t],
        S((5, 4), 0, 1, 4, 2),
        S((5, 4), 1, None, -1, 1),
    ),
    view("split", by_size, S((5, 2), 2), S((2, 4), 2, 1)),
    view("split_with_sizes", pieces, S((5, 2), [2, 3]), S((2, 4), [1, 3], 1)),
    view("squeeze", lambda a, *d: np.squeeze(a, *d), S((1, 3, 1)), S((1, 3, 1), 0), S((2, 3))),
    Op(
        "sum_to_size",
        [S((2, 3), [1, 3]), S((4, 2, 3), [2, 1])],
        lambda a, size: a.sum(tuple(range(a.ndim - len(size)))).sum(
            tuple(i for i, n in enumerate(size) if n == 1), keepdims=True
        ),
        FLOATS,
        inplace=False,
    ),
    view("swapaxes", np.swapaxes, S((2, 3, 4), 0, 2)),
    view("swapdims", np.swapaxes, S((2, 3, 4), 0, 1)),
    view("t", np.transpose, S((2, 3)), S((3,)), S(())),
    view("transpose", np.swapaxes, S((2, 3, 4), 0, 2), S((2, 3), -1, 0)),
    view(
        "unbind",
        lambda a, dim=0: [np.take(a, i, dim) for i in range(a.shape[dim])],
        S((3, 2)),
        S((3, 2), 1),
    ),
    view("unflatten", lambda a, dim, sizes: a.reshape(2, *sizes), S((2, 6), 1, [2, 3])),
    view("unfold", windows, S((6, 2), 0, 3, 1), S((2, 7), 1, 3, 2)),
    view("unsqueeze", np.expand_dims, S((2, 3), 1), S((2, 3), -1), S((), 0)),
    view("view", lambda a, *size: a.reshape(size), S((3, 4), 2, 6), S((3, 4), -1)),
    view("view_as", lambda a, b: a.reshape(b.shape), S((3, 4), (4, 3))),
    view("view_as_complex", lambda a: a[..., 0] + 1j * a[..., 1], S((3, 2)), dtypes=FLOATS),
    view("view_as_real", lambda a: np.stack([a.real, a.imag], -1), S((3,)), dtypes=COMPLEX),
]
# A strided copy of their input cannot be a view.
for op in OPS:
    if op.name in ("view", "view_as", "view_as_complex", "as_strided", "unflatten"):
        op.strided = False
