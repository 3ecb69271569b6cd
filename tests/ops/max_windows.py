"""Test rows of max pooling over windows of unequal sizes or places, and of its inverse."""

import math

import numpy as np

from tests.ops.rows import FLOATS, HALVES, Op, S, V, error


def search(x, spans):
    """(maxima, places) of windows; spans[d] lists (start, end) along spatial dim d of a plane."""
    dims = len(spans[(0, 0)] if isinstance(spans, dict) else spans)
    if x.ndim == dims + 1:
        return tuple(r[0] for r in search(x[None], spans))
    first = spans[(0, 0)] if isinstance(spans, dict) else spans
    shape = x.shape[:2] + tuple(len(s) for s in first)
    values, places = np.zeros(shape, x.dtype), np.zeros(shape, np.int64)
    for n, c, *at in np.ndindex(shape):
        own = spans[(n, c)] if isinstance(spans, dict) else spans
        window = tuple(slice(*s[i]) for s, i in zip(own, at))
        part = x[n, c][window]
        inner = np.unravel_index(part.argmax(), part.shape)
        place = [s.start + i for s, i in zip(window, inner)]
        values[(n, c, *at)] = part[inner]
        places[(n, c, *at)] = np.ravel_multi_index(place, x.shape[2:])
    return values, places


def adaptive(dims):
    def ref(x, size):
        size = size if isinstance(size, list) else [size] * dims
        inner = x.shape[-dims:]
        return search(
            x,
            [
                [(i * n // m, math.ceil((i + 1) * n / m)) for i in range(m)]
                for n, m in zip(inner, size)
            ],
        )

    return ref


def fractional(dims):
    def ref(x, kernel, size, samples):
        spans = {}
        for n, c, _ in np.ndindex(samples.shape):
            own = []
            for d in range(dims):
                sample = samples[n, c, 1 - d if dims == 2 else d]
                room = x.shape[-dims + d] - kernel[d]
                step = room / max(size[d] - 1, 1)
                starts = [int((i + sample) * step) - int(sample * step) for i in range(size[d] - 1)]
                own.append([(s, s + kernel[d]) for s in [*starts, room]])
            spans[(n, c)] = own
        return search(x, spans)

    return ref


def unpooled(dims):
    def ref(x, indices, size, *_):
        out = np.zeros(x.shape[:-dims] + (math.prod(size),), x.dtype)
        flat = x.reshape(*x.shape[:-dims], -1)
        np.put_along_axis(out, indices.reshape(flat.shape), flat, -1)
        return out.reshape(*x.shape[:-dims], *size)

    return ref


# Distinct elements: at a tie the derivative has a corner.
def distinct(*shape):
    n = math.prod(shape)
    return V(((np.arange(n) * 37 % 101) / 25 - 2).reshape(shape).tolist(), "float64")


def first(ref):
    return lambda *a: ref(*a)[1]


SAMPLES2 = V([[[0.3, 0.7], [0.1, 0.9]]], "float64")
SAMPLES3 = V([[[0.3, 0.7, 0.5]]], "float64")
I2 = V([[[[0, 5], [8, 7]]]])
WRONG = error((3,), 2, type=RuntimeError, match=r"got shape \(3,\)")


def pool(name, ref, *samples, errors=()):
    return Op(name, list(samples), ref, ("float64",), errors=list(errors), out=False)


OPS = [
    pool("_adaptive_max_indices", first(adaptive(2)), S(distinct(1, 2, 5, 7), [2, 3])),
    pool(
        "_fractional_max_indices",
        first(fractional(2)),
        S(distinct(1, 2, 6, 7), [2, 3], [3, 2], SAMPLES2),
    ),
    pool(
        "adaptive_max_pool1d",
        adaptive(1),
        S(distinct(1, 2, 7), 3),
        S(distinct(2, 5), 5),
        errors=[WRONG],
    ),
    pool("adaptive_max_pool2d", adaptive(2), S(distinct(1, 2, 5, 7), [2, 3]), errors=[WRONG]),
    pool("adaptive_max_pool3d", adaptive(3), S(distinct(2, 3, 4, 5), [2, 3, 2]), errors=[WRONG]),
    pool(
        "fractional_max_pool2d",
        fractional(2),
        S(distinct(1, 2, 6, 7), [2, 3], [3, 2], SAMPLES2),
        errors=[
            error(
                distinct(1, 2, 3, 3),
                [2, 2],
                [3, 3],
                SAMPLES2,
                type=RuntimeError,
                match="do not fit",
            )
        ],
    ),
    pool(
        "fractional_max_pool3d",
        fractional(3),
        S(distinct(1, 1, 4, 5, 5), [2, 2, 3], [2, 3, 2], SAMPLES3),
    ),
    Op(
        "max_unpool2d",
        [S((1, 1, 2, 2), I2, [3, 4]), S((1, 2, 2), V([[[0, 5], [8, 7]]]), [3, 3])],
        unpooled(2),
        FLOATS + HALVES,
        exact=True,
        out=False,
        errors=[error((1, 1, 2, 1), I2, [3, 3], type=RuntimeError, match=r"\(1, 1, 2, 1\)")],
    ),
    Op(
        "max_unpool3d",
        [S((1, 1, 1, 2, 2), V([[[[[0, 5], [8, 7]]]]]), [2, 3, 2], [1, 1, 1], [0, 0, 0])],
        unpooled(3),
        FLOATS,
        exact=True,
        out=False,
    ),
]
