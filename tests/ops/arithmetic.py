"""Test rows of ops/pointwise.toml: arithmetic and comparison."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, INTS, Op, S, V, error

NUMERIC = FLOATS + HALVES + INTS + COMPLEX
PAIRS = [
    S((3, 4), (3, 4)),
    S((3, 1), (1, 4)),
    S((2, 3), ()),
    S((), ()),
    S((0, 3), (1, 3)),
    S((5,), 2),
]
MISMATCH = [error((2, 3), (4,), type=RuntimeError, match=r"got \(2, 3\) and \(4,\)")]


def binary(name, ref, dtypes=NUMERIC, samples=PAIRS, **kw):
    return Op(name, samples, ref, dtypes, errors=MISMATCH, **kw)


def comparison(name, ref, dtypes=FLOATS + HALVES + INTS):
    return binary(name, ref, dtypes, grad=False, exact=True)


OPS = [
    binary("add", lambda a, b, alpha=1: a + alpha * b, samples=[*PAIRS, S((3,), (3,), alpha=2)]),
    Op("conj_physical", [S((3, 4)), S(())], np.conj, NUMERIC, exact=True),
    binary("div", lambda a, b: a / b, FLOATS + HALVES, [S((3, 4), (3, 4), low_=0.5), S((2, 3), 4)]),
    comparison("eq", lambda a, b: a == b, NUMERIC),
    Op(
        "exp",
        [S((3, 4)), S(()), S((0, 2)), S((2, 3), strided_=True)],
        np.exp,
        FLOATS + HALVES + COMPLEX,
    ),
    comparison("ge", lambda a, b: a >= b),
    comparison("gt", lambda a, b: a > b),
    comparison("le", lambda a, b: a <= b),
    binary("logical_and", np.logical_and, samples=PAIRS[:-1], grad=False),
    Op("logical_not", [S((3, 4)), S(())], np.logical_not, NUMERIC, grad=False),
    binary("logical_or", np.logical_or, samples=PAIRS[:-1], grad=False),
    comparison("lt", lambda a, b: a < b),
    binary("mul", lambda a, b: a * b),
    comparison("ne", lambda a, b: a != b, NUMERIC),
    Op("neg", [S((3, 4)), S(()), S((0,))], lambda a: -a, FLOATS + HALVES + COMPLEX, exact=True),
    Op("reciprocal", [S((3, 4), low_=0.5), S((), low_=0.5)], lambda a: 1 / a),
    Op(
        "relu",
        [S((3, 4)), S(())],
        lambda a: np.maximum(a, 0),
        FLOATS + HALVES + ("int64",),
        exact=True,
    ),
    Op("rsqrt", [S((3, 4), low_=0.5), S((), low_=0.5)], lambda a: 1 / np.sqrt(a)),
    binary("rsub", lambda a, b, alpha=1: b - alpha * a, out=False, inplace=False),
    binary("sub", lambda a, b, alpha=1: a - alpha * b, samples=[*PAIRS, S((3,), (3,), alpha=2)]),
    Op(
        "where",
        [S(V([[True, False], [False, True]]), (2, 2), (2, 2)), S(V([[True], [False]]), (1, 3), 0)],
        lambda c, a, b: np.where(c, a, b),
        inplace=False,
    ),
]
