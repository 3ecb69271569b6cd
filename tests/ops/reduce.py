"""Test rows of ops/reduce.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, INTS, Op, S, V, error

DIMS = [
    S((3, 4)),
    S((3, 4), 1),
    S((2, 3, 4), [0, 2], True),
    S(()),
    S((0, 3), 1),
    S((5, 3), -2, keepdim=True),
]
ONE_DIM = [S((3, 4)), S((3, 4), 1), S((2, 3, 4), 1, True), S(()), S((5, 3), -2, keepdim=True)]
SPREAD = [
    S((3, 4)),
    S((3, 4), 1),
    S((2, 3, 4, 2), [0, 2], correction=0, keepdim=True),
    S((5, 3), -2, keepdim=True),
    S((5, 3), unbiased=False),
]
INTEGERS = error((2, 3), type=RuntimeError, match="floating or complex", dtype="int64")
WRONG = [
    error((2, 3), 2, type=IndexError, match=r"dim must be in \[-2, 1\], got 2"),
    error((2, 3), [0, 0], type=RuntimeError, match="named once"),
]
WRONG_DIM = [error((2, 3), 2, type=IndexError, match=r"dim must be in \[-2, 1\], got 2")]
EMPTY = [error((0, 3), 0, type=IndexError, match=r"dim 0 must have a size other than 0")]
NOTHING = [error((0, 3), type=RuntimeError, match=r"at least one element is needed")]


def over(f):
    """A NumPy reduction with torch's keywords."""

    def reduce(a, dim=None, keepdim=False, dtype=None):
        axis = tuple(dim) if isinstance(dim, list) else dim
        return f(a, axis=axis, keepdims=keepdim)

    return reduce


def spread(f):
    """NumPy's variance or deviation with torch's keywords."""

    def reduce(a, dim=None, unbiased=True, keepdim=False, correction=None):
        axis = tuple(dim) if isinstance(dim, list) else dim
        ddof = int(unbiased) if correction is None else correction
        return f(a, axis=axis, ddof=ddof, keepdims=keepdim)

    return reduce


def with_mean(f):
    def both(a, dim=None, unbiased=True, keepdim=False, correction=None):
        kept = {"dim": dim, "keepdim": keepdim}
        return (
            spread(f)(a, unbiased=unbiased, correction=correction, **kept),
            over(np.mean)(a, **kept),
        )

    return both


def extreme(value, index):
    """max and min: one tensor gives a value, a dim values and indices, two tensors the larger."""

    def reduce(a, dim=None, keepdim=False):
        if isinstance(dim, np.ndarray):
            return np.maximum(a, dim) if value is np.max else np.minimum(a, dim)
        if dim is None:
            return value(a)
        return value(a, axis=dim, keepdims=keepdim), index(a, axis=dim, keepdims=keepdim)

    return reduce


def found(index):
    def reduce(a, dim=None, keepdim=False):
        if np.ndim(a) == 0:
            return np.int64(0)
        return index(a, axis=dim, keepdims=keepdim)

    return reduce


def norm(a, ord=2, dim=None, keepdim=False, dtype=None):
    axis = tuple(dim) if isinstance(dim, list) else dim
    size = np.abs(a)
    if ord in (np.inf, -np.inf):
        return (np.max if ord > 0 else np.min)(size, axis=axis, keepdims=keepdim)
    if ord == 0:
        return np.sum(size != 0, axis=axis, keepdims=keepdim).astype(size.dtype)
    return np.sum(size**ord, axis=axis, keepdims=keepdim) ** (1 / ord)


def count(a, dim=None):
    return np.count_nonzero(a, axis=tuple(dim) if isinstance(dim, list) else dim)


NORMS = [
    S((3, 4)),
    S((3, 4), 1, 1),
    S((2, 3, 4), 3, [0, 2], True),
    S((3, 4), float("inf"), 0),
    S((3, 4), -float("inf"), 0),
    S((3, 4), 1.5),
    S((3, 4), 0, 1, grad_=False),
    S((0, 3), 2, 0, grad_=False),
]
LOGSUMEXP = [S((3, 4), 1), S((2, 3, 4), [0, 2], True), S((), 0)]
TRUTH = dict(dtypes=FLOATS + HALVES + INTS + COMPLEX + ("bool",), grad=False, exact=True)


def truth(f):
    def reduce(a, dim=None, keepdim=False):
        axis = tuple(dim) if isinstance(dim, list) else dim
        return f(a != 0, axis=axis, keepdims=keepdim)

    return reduce


OPS = [
    Op("all", DIMS, truth(np.all), errors=WRONG, **TRUTH),
    Op("amax", ONE_DIM, over(np.max), FLOATS + HALVES + INTS, errors=WRONG + EMPTY),
    Op("amin", ONE_DIM, over(np.min), FLOATS + HALVES + INTS, errors=WRONG + EMPTY),
    Op(
        "aminmax",
        [S((3, 4)), S((3, 4), dim=1), S((2, 3), dim=0, keepdim=True)],
        lambda a, dim=None, keepdim=False: (
            np.min(a, axis=dim, keepdims=keepdim),
            np.max(a, axis=dim, keepdims=keepdim),
        ),
        FLOATS + HALVES + INTS,
        errors=NOTHING,
    ),
    Op("any", DIMS, truth(np.any), errors=WRONG, **TRUTH),
    Op("argmax", ONE_DIM, found(np.argmax), FLOATS + INTS, grad=False, exact=True, errors=EMPTY),
    Op("argmin", ONE_DIM, found(np.argmin), FLOATS + INTS, grad=False, exact=True, errors=EMPTY),
    Op(
        "count_nonzero",
        [S((3, 4)), S((3, 4), 1), S((2, 3, 4), [0, 2])],
        count,
        FLOATS + HALVES + INTS + COMPLEX,
        grad=False,
        exact=True,
        out=False,
        errors=WRONG_DIM,
    ),
    Op(
        "dist",
        [S((3, 4), (3, 4)), S((3, 4), (4,), 1)],
        lambda a, b, p=2: norm(a - b, p),
        out=False,
    ),
    Op(
        "frobenius_norm",
        [S((3, 4), 1), S((2, 3, 4), [0, 2], True), S((), []), S((0, 3), 0), S((5, 3), -2)],
        lambda a, dim, keepdim=False: np.sqrt(
            over(np.sum)(np.abs(a) ** 2, None if dim == [] else dim, keepdim)
        ),
        FLOATS + HALVES + COMPLEX,
        errors=WRONG,
    ),
    Op(
        "hash_tensor",
        [
            S(V([1, 2, 4], "int64")),
            S(V([[1, 2], [6, 3]], "int64"), 0),
            S(V([5], "int64"), 0, keepdim=True),
        ],
        lambda a, dim=None, keepdim=False: np.bitwise_xor.reduce(
            a.astype(np.uint64), axis=dim, keepdims=keepdim
        ),
        ("float64",),
        grad=False,
        errors=[error((0,), type=RuntimeError, match=r"empty input of shape \(0,\)")],
    ),
    Op("linalg_vector_norm", NORMS, norm, FLOATS + COMPLEX, second=False),
    Op(
        "logsumexp",
        LOGSUMEXP,
        lambda a, dim, keepdim=False: np.log(over(np.sum)(np.exp(a), dim, keepdim)),
        FLOATS + HALVES + COMPLEX,
        errors=WRONG_DIM,
    ),
    Op(
        "max",
        [*ONE_DIM, S((3, 4), (4,))],
        extreme(np.max, np.argmax),
        FLOATS + INTS,
        out=False,
        errors=NOTHING + EMPTY,
    ),
    Op(
        "mean",
        [DIMS[0], DIMS[1], DIMS[2], DIMS[3], DIMS[5]],
        over(np.mean),
        FLOATS + HALVES + COMPLEX,
        errors=WRONG + [INTEGERS],
    ),
    Op(
        "min",
        [*ONE_DIM, S((3, 4), (4,))],
        extreme(np.min, np.argmin),
        FLOATS + INTS,
        out=False,
        errors=NOTHING + EMPTY,
    ),
    Op(
        "nanmean",
        [S((3, 4)), S((3, 4), 1), S(V([1.0, float("nan")]), grad_=False)],
        over(np.nanmean),
        FLOATS,
    ),
    Op(
        "nansum",
        [S((3, 4)), S((3, 4), 1), S(V([1.0, float("nan")]), grad_=False)],
        over(np.nansum),
        FLOATS,
    ),
    Op("norm", [S((3, 4)), S((3, 4), 3), S((3, 4), 2, 1, True)], norm, FLOATS, out=False),
    Op(
        "prod",
        [*ONE_DIM, S(V([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0]]), 1, grad_=False), S((0, 3), 0)],
        over(np.prod),
        FLOATS + INTS + COMPLEX,
        errors=WRONG_DIM,
    ),
    Op("std", SPREAD, spread(np.std), FLOATS + COMPLEX, errors=WRONG + [INTEGERS]),
    Op("std_mean", SPREAD, with_mean(np.std), FLOATS, errors=[INTEGERS], out=False),
    Op("sum", DIMS, over(np.sum), FLOATS + HALVES + INTS + COMPLEX, errors=WRONG),
    Op(
        "trace",
        [S((3, 4)), S((0, 2))],
        np.trace,
        FLOATS + INTS,
        out=False,
        errors=[error((3,), type=RuntimeError, match=r"must have 2 dims, got shape \(3,\)")],
    ),
    Op("var", SPREAD, spread(np.var), FLOATS + COMPLEX, errors=WRONG + [INTEGERS]),
    Op("var_mean", SPREAD, with_mean(np.var), FLOATS, errors=[INTEGERS], out=False),
]
