"""Test rows of ops/copying.toml and ops/joining.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, INTS, Op, S, error

ALL = FLOATS + HALVES + INTS + COMPLEX


def strided_scatter(a, src, size, stride, offset=0):
    flat = a.ravel().copy()
    for place in np.ndindex(*size):
        flat[offset + sum(p * s for p, s in zip(place, stride))] = src[place]
    return flat.reshape(a.shape)


def pad(a, amounts, value=0):
    pairs = [(amounts[2 * i], amounts[2 * i + 1]) for i in range(len(amounts) // 2)][::-1]
    pairs = [(0, 0)] * (a.ndim - len(pairs)) + pairs
    cut = tuple(slice(max(-b, 0), n - max(-e, 0)) for (b, e), n in zip(pairs, a.shape))
    return np.pad(a[cut], [(max(b, 0), max(e, 0)) for b, e in pairs], constant_values=value)


def written(name, ref, *samples, **kw):
    return Op(
        name,
        list(samples),
        ref,
        FLOATS + ("int64",),
        exact=True,
        grad=False,
        inplace=False,
        out=False,
        **kw,
    )


OPS = [
    Op(
        "as_strided_scatter",
        [S((8,), (2, 2), [2, 2], [4, 1], 1)],
        strided_scatter,
        FLOATS,
        exact=True,
    ),
    Op("clone", [S((3, 4)), S(()), S((0, 2))], lambda a: a, ALL, exact=True),
    Op("contiguous", [S((3, 4)), S((3, 4), strided_=True)], lambda a: a, ALL, exact=True),
    written(
        "copy_",
        lambda a, b: np.broadcast_to(b, a.shape),
        S((3, 4), (3, 4)),
        S((3, 4), (4,)),
        S((2,), ()),
        errors=[error((2,), (3,), type=RuntimeError, match="broadcast")],
    ),
    written("fill_", lambda a, v: np.full_like(a, v), S((3, 4), 3), S((), 1)),
    Op("to", [S((3, 4))], lambda a: a, FLOATS, exact=True),
    Op("_to_copy", [], None, FLOATS),
    written("zero_", lambda a: np.zeros_like(a), S((3, 4)), S(())),
    Op(
        "cat",
        [S([(2, 3), (4, 3)]), S([(2, 3), (2, 1), (2, 0)], 1), S([(0,), (2, 3)])],
        lambda t, dim=0: np.concatenate([x for x in t if x.shape != (0,)], dim),
        ALL,
        exact=True,
        errors=[error([(2, 3), (2, 4)], type=RuntimeError, match=r"got \(2, 3\) and \(2, 4\)")],
    ),
    Op(
        "stack",
        [S([(2, 3), (2, 3)]), S([(2,), (2,)], -1), S([(), ()])],
        lambda t, dim=0: np.stack(t, dim),
        ALL,
        exact=True,
        errors=[error([(2,), (3,)], type=RuntimeError, match="sizes must match")],
    ),
    Op("constant_pad_nd", [S((2, 3), [1, 2]), S((2, 3), [1, -1, 0, 2], 5)], pad, ALL, exact=True),
    Op(
        "pad_sequence",
        [S([(2, 3), (4, 3)]), S([(2,), (3,)], True, 2.0)],
        lambda t, first=False, v=0.0: np.stack(
            [
                np.pad(
                    x,
                    [(0, max(len(y) for y in t) - len(x))] + [(0, 0)] * (x.ndim - 1),
                    constant_values=v,
                )
                for x in t
            ],
            0 if first else 1,
        ),
        FLOATS,
        inplace=False,
    ),
]
