"""Test rows of ops/indexing.toml: gather, scatter, index_*, masks."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, INTS, Op, S, V, error

ALL = FLOATS + HALVES + INTS + COMPLEX
I2 = V([[0, 2, 1], [1, 1, 0]])
MASK = V([[True, False, True], [False, False, True]])
ROWS = V([2, 0, 2])


def scatter_ref(x, dim, index, src, combine=None):
    x = np.array(x)
    for at in np.ndindex(*index.shape):
        to = list(at)
        if to:
            to[dim] = index[at]
        value = src[at] if np.ndim(src) else src
        to = tuple(to)
        x[to] = value if combine is None else combine(x[to], value)
    return x


WORDS = {
    "sum": np.add,
    "add": np.add,
    "prod": np.multiply,
    "multiply": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
}


def scatter_reduce_ref(x, dim, index, src, reduce, include_self=True):
    if reduce == "mean":
        total = scatter_reduce_ref(x, dim, index, src, "sum", include_self)
        start = np.full(x.shape, float(include_self))
        count = scatter_ref(start, dim, index, np.ones(src.shape), np.add)
        return total / np.maximum(count, 1)
    start = {"sum": 0, "prod": 1, "amax": -np.inf, "amin": np.inf}[reduce]
    x = x if include_self else scatter_ref(x, dim, index, start)
    return scatter_ref(x, dim, index, src, WORDS[reduce])


def along(index, source, dim):
    shape = [1] * source.ndim
    shape[dim] = -1
    return np.broadcast_to(index.reshape(shape), source.shape)


def index_add_ref(x, dim, index, source, alpha=1):
    return scatter_ref(x, dim, along(index, source, dim), alpha * source, np.add)


def index_fill_ref(x, dim, index, value):
    x = np.array(x)
    x[(slice(None),) * dim + (index,)] = value
    return x


def index_put_ref(x, indices, values, accumulate=False):
    x = np.array(x)
    if accumulate:
        np.add.at(x, tuple(indices), values)
    else:
        x[tuple(indices)] = values
    return x


def masked_fill_ref(x, mask, value):
    return np.where(mask, value, x)


def masked_scatter_ref(x, mask, source):
    x = np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)))
    mask = np.broadcast_to(mask, x.shape)
    x[mask] = source.reshape(-1)[: mask.sum()]
    return x


def put_ref(x, index, source, accumulate=False):
    flat = np.array(x).reshape(-1)
    for i, v in zip(index.reshape(-1), source.reshape(-1)):
        flat[i] = flat[i] + v if accumulate else v
    return flat.reshape(x.shape)


def embedding_back_ref(g, indices, n, padding, by_frequency):
    out = np.zeros((n, g.shape[-1]))
    counts = np.bincount(indices.reshape(-1), minlength=n)
    for i, row in zip(indices.reshape(-1), g.reshape(-1, g.shape[-1])):
        if i != padding:
            out[i] += row / (counts[i] if by_frequency else 1)
    return out


SCATTER_ERRORS = [
    error((2, 3), 0, V([[5]]), (1, 1), type=RuntimeError, match="index 5 .*size 2"),
    error((2, 3), 0, V([0]), (1,), type=RuntimeError, match=r"\(1,\).*\(2, 3\)"),
    error((2, 3), 2, V([[0]]), (1, 1), type=IndexError, match=r"\[-2, 1\], got 2"),
]
ROW_ERRORS = [
    error((3, 4), 0, V([3]), (1, 4), type=IndexError, match="index 3 .*size 3"),
    error((3, 4), 0, V([0, 1]), (1, 4), type=IndexError, match="2 elements"),
    error((3, 4), 0, V([0]), (1, 5), type=IndexError, match=r"\(1, 5\).*\(3, 4\)"),
]

OPS = [
    Op(
        "_masked_fill",
        [S((2, 3), MASK, 2), S((2, 3), MASK, ()), S((3,), MASK, 2)],
        masked_fill_ref,
        ALL,
        inplace=False,
    ),
    Op("argwhere", [S(MASK), S((2, 3), dtype_="int64")], np.argwhere, ("int64",), grad=False),
    Op(
        "embedding",
        [S((3, 4), I2), S((3, 4), V([0, 1, 1]), 1), S((3, 2), V([2, 2, 0]), -1, True)],
        lambda w, i, *_: w[i],
        FLOATS + HALVES,
        exact=True,
        grad=False,
        errors=[error((3, 4), V([3]), type=IndexError, match="index 3 .*size 3")],
    ),
    Op(
        "embedding_dense_backward",
        [S((3, 2), V([2, 2, 0]), 4, -1, False), S((2, 3, 2), I2, 3, 1, True)],
        embedding_back_ref,
        FLOATS,
    ),
    Op(
        "gather",
        [S((2, 3), 1, I2), S((4, 3), 0, I2), S((), 0, V(0)), S((2, 3), -1, V([[0], [2]]))],
        lambda x, dim, i: np.take_along_axis(x, i, dim) if x.ndim else x,
        ALL,
        exact=True,
        errors=[
            error((2, 3), 1, V([[4]]), type=RuntimeError, match="index 4 .*size 3"),
            error((2, 3), 1, V([0]), type=RuntimeError, match="as many dims"),
        ],
    ),
    Op(
        "index",
        [
            S((2, 3), [V([0, 1, -1]), V([2, 0, 0])]),
            S((3, 4), [ROWS]),
            S((3, 2, 4), [V([[2], [0]])]),
        ],
        lambda x, i: x[tuple(i)],
        ALL,
        exact=True,
        errors=[
            error((2, 3), [V([2])], type=IndexError, match="index 2 .*dim 0 of size 2"),
            error((2, 3), [V([0, 1]), V([0, 1, 2])], type=IndexError, match=r"\(2,\), \(3,\)"),
        ],
    ),
    Op(
        "index_add",
        [
            S((3, 4), 0, ROWS, (3, 4)),
            S((2, 3), 1, ROWS, (2, 3), alpha=2),
            S((3,), 0, V([1]), (1,)),
        ],
        index_add_ref,
        ALL,
        errors=ROW_ERRORS,
    ),
    Op(
        "index_copy",
        [S((3, 4), 0, V([2, 0]), (2, 4)), S((2, 3), 1, V([1, 2]), (2, 2))],
        lambda x, dim, i, s: scatter_ref(x, dim, along(i, s, dim), s),
        ALL,
        exact=True,
        errors=ROW_ERRORS,
    ),
    Op(
        "index_fill",
        [S((3, 4), 0, V([2, 0]), 5), S((2, 3), 1, V([1, -1]), ())],
        index_fill_ref,
        ALL,
        exact=True,
        errors=[error((3, 4), 0, V([3]), 1, type=IndexError, match="index 3 .*size 3")],
    ),
    Op(
        "index_put",
        [
            S((2, 3), [V([0, 1]), V([2, 0])], (2,)),
            S((3, 4), [V([0, 2])], (4,)),
            S((3, 4), [ROWS], (3, 4), True),
        ],
        index_put_ref,
        ALL,
        errors=[error((3,), [V([0, 1])], (3,), type=RuntimeError, match=r"\(3,\).*\(2,\)")],
    ),
    Op(
        "index_reduce",
        [
            S((3, 2), 0, ROWS, (3, 2), "prod"),
            S((3, 2), 0, ROWS, (3, 2), "mean"),
            S((2, 3), 1, ROWS, (2, 3), "amax"),
            S((2, 3), 1, ROWS, (2, 3), "amin", include_self=False),
        ],
        lambda x, dim, i, s, r, **kw: scatter_reduce_ref(x, dim, along(i, s, dim), s, r, **kw),
        FLOATS,
        errors=[error((2,), 0, V([0]), (1,), "sum", type=RuntimeError, match="got 'sum'")],
    ),
    Op(
        "index_select",
        [S((3, 4), 0, ROWS), S((2, 3), -1, ROWS), S((3,), 0, V(1))],
        lambda x, dim, i: np.take(x, i.reshape(-1), dim),
        ALL,
        exact=True,
        errors=[error((3, 4), 0, V([3]), type=IndexError, match="index 3 .*size 3")],
    ),
    Op(
        "masked_fill",
        [S((2, 3), MASK, 2), S((3,), MASK, ())],
        masked_fill_ref,
        ALL,
        exact=True,
        errors=[
            error((2, 3), V([0, 1, 1]), 1, type=RuntimeError, match="bool, got int64"),
            error((2, 3), MASK, (1,), type=RuntimeError, match=r"0-d tensor, got shape \(1,\)"),
        ],
    ),
    Op("masked_fill_", [S((2, 3), MASK, 2)], masked_fill_ref, ALL, grad=False, exact=True),
    Op(
        "masked_scatter",
        [S((2, 3), MASK, (4,)), S((3,), MASK, (2, 2))],
        masked_scatter_ref,
        ALL,
        exact=True,
        errors=[error((2, 3), MASK, (2,), type=RuntimeError, match="selects 3 .*has 2")],
    ),
    Op(
        "masked_select",
        [S((2, 3), MASK), S((3,), MASK), S((2, 1), MASK)],
        lambda x, m: np.broadcast_to(x, m.shape)[m],
        ALL,
        exact=True,
    ),
    Op("nonzero", [S(MASK), S(V([0, 3, 4]))], np.argwhere, ("int64",), grad=False),
    Op("nonzero_numpy", [S(MASK)], lambda m: list(np.nonzero(m)), ("int64",), grad=False),
    Op(
        "nonzero_static",
        [S(V([0, 3, 4]), size=3), S(V([0, 3, 4]), size=1)],
        lambda x, size: np.concatenate([np.argwhere(x), np.full((3, 1), -1)])[:size],
        ("int64",),
        grad=False,
    ),
    Op(
        "put",
        [S((2, 3), V([5, 0]), (2,)), S((2, 3), V([[1], [1]]), (2, 1), True)],
        put_ref,
        ALL,
        errors=[error((2, 3), V([6]), (1,), type=IndexError, match="index 6 .*6 elements")],
    ),
    Op(
        "scatter",
        [S((2, 3), 1, V([[0, 2], [1, 0]]), (2, 2)), S((4, 3), 0, V([[0, 2, 1]]), 3)],
        scatter_ref,
        ALL,
        exact=True,
        errors=SCATTER_ERRORS,
    ),
    Op(
        "scatter_add",
        [S((2, 3), 1, I2, (2, 3)), S((4, 3), 0, I2, (2, 3)), S((4, 3), 0, V([[1, 1]]), (2, 3))],
        lambda x, dim, i, s: scatter_ref(x, dim, i, s, np.add),
        ALL,
        errors=SCATTER_ERRORS,
    ),
    Op(
        "scatter_reduce",
        [
            S((4, 3), 0, I2, (2, 3), "sum"),
            S((4, 3), 0, I2, (2, 3), "prod", include_self=False),
            S((2, 3), 1, I2, (2, 3), "mean"),
            S((2, 3), 1, I2, (2, 3), "amax"),
            S((2, 3), 1, I2, (2, 3), "amin", include_self=False),
        ],
        scatter_reduce_ref,
        FLOATS,
    ),
    Op(
        "take",
        [S((2, 3), V([[0, 5], [-1, 2]])), S((), V([0]))],
        lambda x, i: x.reshape(-1)[i],
        ALL,
        exact=True,
        errors=[error((2, 3), V([6]), type=IndexError, match="index 6 .*6 elements")],
    ),
    Op(
        "take_along_dim",
        [S((2, 3), I2, 1), S((2, 3), V([5, 0])), S((1, 3), V([[0], [2]]), 1)],
        lambda x, i, dim=None: (
            x.reshape(-1)[i.reshape(-1)]
            if dim is None
            else np.take_along_axis(np.broadcast_to(x, (max(len(x), len(i)), 3)), i, dim)
        ),
        ALL,
        exact=True,
    ),
]

# Sweeps that make no sense for a row: they need values, or memory that is not a view.
WITHOUT = {
    "_masked_fill": ["meta"],
    "masked_fill": ["meta"],
}
for op in OPS:
    for sweep in WITHOUT.get(op.name, []):
        setattr(op, sweep, False)
