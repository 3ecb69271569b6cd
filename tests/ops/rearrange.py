"""Test rows of ops/rearrange.toml: the same elements in other places."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, INTS, Op, S, V, error

ALL = FLOATS + HALVES + INTS + COMPLEX


def moved(name, samples, ref, **kw):
    return Op(name, samples, ref, kw.pop("dtypes", ALL), exact=True, **kw)


def in_place(name, samples, ref):
    """Views made in place: leaves that require grad refuse them, so the sweep of derivatives cannot."""
    return moved(name, samples, ref, grad=False)


def atleast(n):
    ref = getattr(np, f"atleast_{n}d")
    return moved(f"atleast_{n}d", [S(()), S((3,)), S((2, 3)), S((2, 1, 2))], ref)


def block_diag_ref(*blocks):
    blocks = [np.atleast_2d(b) for b in blocks]
    out = np.zeros([sum(b.shape[d] for b in blocks) for d in (0, 1)], np.result_type(*blocks))
    row = col = 0
    for b in blocks:
        out[row : row + len(b), col : col + b.shape[1]] = b
        row, col = row + len(b), col + b.shape[1]
    return out


def diag_embed_ref(x, offset=0):
    out = np.zeros(x.shape[:-1] + (x.shape[-1] + abs(offset),) * 2, x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return out


def diagonal_scatter_ref(x, src, offset=0):
    x = np.array(x)
    i = np.arange(len(src))
    x[i + max(-offset, 0), i + max(offset, 0)] = src
    return x


def select_scatter_ref(x, src, dim, index):
    x = np.array(x)
    x[(slice(None),) * dim + (index,)] = src
    return x


def slice_scatter_ref(x, src, dim=0, start=None, end=None, step=1):
    x = np.array(x)
    x[(slice(None),) * dim + (slice(start, end, step),)] = src
    return x


def repeat_ref(x, repeats, dim=None, output_size=None):
    return np.repeat(x, repeats, dim)


def as_list(f):
    return lambda *args: [*f(*args)]


def roll_ref(x, shifts, dims=None):
    dims = tuple(dims) if isinstance(dims, list) else dims
    return np.roll(x, shifts, dims)


def swapped(x, a, b):
    return np.swapaxes(x, a, b)


OPS = [
    in_place("as_strided_", [S((6,), [2, 2], [3, 1])], lambda x, *_: x[[0, 1, 3, 4]].reshape(2, 2)),
    atleast(1),
    atleast(2),
    atleast(3),
    moved("block_diag", [S((2, 3), (2,), ())], block_diag_ref),
    moved("column_stack", [S([(3,), (3, 2), (3,)])], np.column_stack),
    in_place("detach_", [S((2, 3))], lambda x: x),
    moved(
        "diag",
        [S((3,)), S((3,), -1), S((3, 4), 1)],
        np.diag,
        errors=[error((2, 2, 2), type=RuntimeError, match=r"\(2, 2, 2\)")],
    ),
    moved("diag_embed", [S((2, 3)), S((3,), 1), S((3,), -2)], diag_embed_ref),
    moved("diagflat", [S((2, 2)), S(()), S((2,), 1)], np.diagflat),
    moved(
        "diagonal_scatter",
        [S((3, 3), (3,)), S((3, 4), (3,), 1)],
        diagonal_scatter_ref,
        errors=[error((3, 3), (2,), type=RuntimeError, match=r"\(3,\).*\(2,\)")],
    ),
    moved("dsplit", [S((1, 2, 4), 2), S((1, 2, 4), [1, 3])], as_list(np.dsplit)),
    moved("dstack", [S([(2, 3), (2, 3)]), S([(3,), (3,)])], np.dstack),
    moved(
        "flip",
        [S((2, 3), [0]), S((2, 3, 2), [0, -1]), S((0, 2), [0]), S((3,), [])],
        lambda x, dims: np.flip(x, tuple(dims)),
        errors=[error((2, 3), [0, 0], type=RuntimeError, match=r"dims=\(0, 0\)")],
    ),
    moved("fliplr", [S((2, 3))], np.fliplr),
    moved("flipud", [S((2, 3)), S((3,))], np.flipud),
    moved(
        "hsplit",
        [S((2, 4), 2), S((4,), [1, 3])],
        as_list(np.hsplit),
        errors=[error((2, 3), 2, type=RuntimeError, match="size 3 .*2 equal")],
    ),
    moved("hstack", [S([(2, 3), (2, 1)]), S([(3,), (2,), ()])], np.hstack),
    moved(
        "repeat",
        [S((2, 3), [2, 1, 3]), S((3,), [2]), S((), [2]), S((2,), [0])],
        np.tile,
        errors=[error((2, 3), [2], type=RuntimeError, match=r"\(2,\).*\(2, 3\)")],
    ),
    moved(
        "repeat_interleave",
        [S((2, 3), 2), S((2, 3), 2, 1), S((2, 3), V([1, 0, 2]), 1, output_size=3)],
        repeat_ref,
        dtypes=FLOATS,
        errors=[error((2, 3), -1, type=RuntimeError, match="negative, got -1")],
    ),
    in_place("resize_", [S((6,), [2, 3])], lambda x, n: x.reshape(n)),
    in_place("resize_as_", [S((6,), (2, 3))], lambda x, y: x.reshape(y.shape)),
    moved(
        "roll",
        [S((2, 3), 1), S((2, 3), [1, -2], [0, 1]), S((4,), 6, 0), S((0,), 1)],
        roll_ref,
        errors=[error((2, 3), [1, 2], [0], type=RuntimeError, match=r"\(1, 2\) and \(0,\)")],
    ),
    moved(
        "rot90",
        [S((2, 3)), S((2, 3), 2), S((2, 3), -1), S((2, 3, 2), 1, [0, 2])],
        lambda x, k=1, dims=(0, 1): np.rot90(x, k, tuple(dims)),
    ),
    moved("select_scatter", [S((2, 3), (2,), 1, 2)], select_scatter_ref),
    in_place("set_", [S((2,), (2, 3))], lambda x, y: y),
    moved("slice_scatter", [S((5, 2), (2, 2), 0, 1, 5, 2)], slice_scatter_ref),
    in_place(
        "squeeze_",
        [S((1, 3, 1)), S((1, 3), 0), S((1, 3, 1), [0, 2])],
        lambda x, dim=None: np.squeeze(x, tuple(dim) if isinstance(dim, list) else dim),
    ),
    in_place("swapaxes_", [S((2, 3), 0, 1)], swapped),
    in_place("swapdims_", [S((2, 3), 0, 1)], swapped),
    in_place("t_", [S((2, 3)), S((3,))], np.transpose),
    moved("tensor_split", [S((5, 2), 3), S((5, 2), [1, 4])], as_list(np.array_split)),
    moved("tile", [S((2, 3), [2]), S((2,), [2, 2])], np.tile),
    in_place("transpose_", [S((2, 3), 0, 1)], swapped),
    moved(
        "tril",
        [S((3, 3)), S((2, 3, 4), 1), S((3, 2), -1)],
        np.tril,
        errors=[error((3,), type=RuntimeError, match=r"got shape \(3,\)")],
    ),
    moved("triu", [S((3, 3)), S((2, 3, 4), 1), S((3, 2), -1)], np.triu),
    in_place("unsqueeze_", [S((2, 3), 1)], np.expand_dims),
    moved("vsplit", [S((4, 2), 2), S((4, 2), [1, 3])], as_list(np.vsplit)),
    moved("vstack", [S([(2, 3), (1, 3)]), S([(3,), (3,)])], np.vstack),
]

# Sweeps that make no sense for a row: they need values, or memory that is not a view.
WITHOUT = {
    "as_strided_": ["strided"],
    "repeat_interleave": ["meta"],
    "resize_": ["strided"],
    "resize_as_": ["strided"],
    "set_": ["strided", "meta"],
}
for op in OPS:
    for sweep in WITHOUT.get(op.name, []):
        setattr(op, sweep, False)
