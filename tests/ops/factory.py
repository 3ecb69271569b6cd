"""Test rows of ops/factory.toml: constants, ranges, windows, grids."""

import itertools

import numpy as np

from tests.ops.rows import FLOATS, HALVES, INTS, Op, S, V, error

ONE = ("float32",)
NEGATIVE = [error([-1], type=RuntimeError, match=r"negative, got \(-1,\)")]


def factory(name, samples, ref, errors=(), exact=True, **kw):
    """Takes no tensors: nothing to sweep but the values."""
    return Op(
        name, samples, ref, ONE, errors=list(errors), grad=False, inplace=False, exact=exact, **kw
    )


def like(name, ref, samples=None):
    samples = samples or [S((3, 4)), S(()), S((0, 2)), S((2, 3), strided_=True)]
    return Op(name, samples, ref, FLOATS + HALVES + INTS, grad=False, inplace=False, exact=True)


def shape_only(name, samples, errors=()):
    return Op(name, samples, None, ONE, errors=list(errors), grad=False, inplace=False, random=True)


def window(name, value, **kw):
    """Symmetric over n - 1 steps, periodic over n."""

    def ref(n, periodic=True, *args):
        steps = n if periodic else n - 1
        x = np.arange(n) / max(steps, 1)
        return value(x, *args) if n != 1 else np.ones(1)

    samples = [S(7), S(6, False), S(1), S(0), *kw.pop("more", [])]
    wrong = [error(-1, type=RuntimeError, match="negative, got -1")]
    return factory(name, samples, ref, wrong, exact=False, **kw)


def cosines(a, b, c=0.0):
    return a - b, lambda x: a - b * np.cos(2 * np.pi * x) + c * np.cos(4 * np.pi * x)


def triangle(keep):
    def ref(row, col, offset=0):
        return (
            np.array([(r, c) for r in range(row) for c in range(col) if keep(c - r, offset)])
            .reshape(-1, 2)
            .T
        )

    return ref


def one_hot(x, num_classes=-1):
    x = x.astype(int)
    return np.eye(num_classes if num_classes >= 0 else int(x.max()) + 1)[x]


def combinations(x, r=2, with_replacement=False):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(choose(x, r))).reshape(-1, r) if r else np.zeros(0)


OPS = [
    factory(
        "arange",
        [S(5), S(0), S(2, 9, 3), S(9, 2, -2), S(0.0, 1.0, 0.25), S(1.0, 3.0), S(-3, 3)],
        np.arange,
        [
            error(0, 5, 0, type=RuntimeError, match="step must not be zero"),
            error(5, 0, type=RuntimeError, match="lead from 5.* to 0"),
            error(0, float("inf"), type=RuntimeError, match="finite"),
        ],
    ),
    window("bartlett_window", lambda x: 1 - np.abs(2 * x - 1)),
    window("blackman_window", cosines(0.42, 0.5, 0.08)[1], tol={"float32": 1e-6}),
    Op(
        "cartesian_prod",
        [S([(2,), (3,)]), S([(3,)]), S([(2,), (0,)])],
        lambda xs: (
            np.stack([g.reshape(-1) for g in np.meshgrid(*xs, indexing="ij")], 1)
            if len(xs) > 1
            else xs[0]
        ),
        FLOATS,
        errors=[error([(2, 2)], type=RuntimeError, match=r"one dim, got shape \(2, 2\)")],
        inplace=False,
        exact=True,
    ),
    Op(
        "combinations",
        [S((4,)), S((4,), 3), S((3,), 2, True), S((2,), 3), S((0,)), S((3,), 0)],
        combinations,
        FLOATS + INTS,
        errors=[
            error((2, 2), type=RuntimeError, match=r"one dim, got shape \(2, 2\)"),
            error((2,), -1, type=RuntimeError, match="negative, got -1"),
        ],
        inplace=False,
        exact=True,
    ),
    Op(
        "complex",
        [S((3, 4), (3, 4)), S((3, 1), (4,)), S((), ()), S((0,), (1,))],
        lambda a, b: a + 1j * b,
        FLOATS,
        errors=[
            error(V([1.0]), V([1]), type=RuntimeError, match="one dtype, got float32 and int64")
        ],
        inplace=False,
        exact=True,
        grad=False,
    ),
    shape_only("empty", [S([2, 3]), S([0]), S([])], NEGATIVE),
    shape_only("empty_like", [S((2, 3)), S(())]),
    shape_only(
        "empty_permuted",
        [S([2, 3], [1, 0])],
        [error([2, 3], [0, 0], type=RuntimeError, match=r"once, got \(0, 0\)")],
    ),
    shape_only(
        "empty_strided",
        [S([2, 3], [1, 2])],
        [error([2], [1, 2], type=RuntimeError, match="as many")],
    ),
    factory(
        "eye",
        [S(3), S(2, 4), S(4, 2), S(0)],
        np.eye,
        [error(-1, type=RuntimeError, match="negative, got -1")],
    ),
    Op(
        "fill",
        [S((3, 4), 2), S((0,), 1), S((3,), V(1.5, "float64"))],
        lambda x, value: np.full_like(x, value),
        FLOATS + HALVES,
        errors=[error((2,), V([1.0]), type=RuntimeError, match=r"0-d tensor, got shape \(1,\)")],
        inplace=False,
        exact=True,
    ),
    factory("full", [S([2, 3], 7), S([], 1.5), S([2], True)], np.full, NEGATIVE[:0]),
    like("full_like", np.full_like, [S((3, 4), 2), S((), 1)]),
    window(
        "hamming_window",
        lambda x, a=0.54, b=0.46: a - b * np.cos(2 * np.pi * x),
        more=[S(5, True, 0.5, 0.25)],
    ),
    window("hann_window", cosines(0.5, 0.5)[1], tol={"float32": 1e-6}),
    window(
        "kaiser_window",
        lambda x, beta=12.0: (
            np.i0(beta * np.sqrt(np.maximum(0, 1 - (2 * x - 1) ** 2))) / np.i0(beta)
        ),
        more=[S(5, False, 2.0)],
    ),
    factory(
        "linspace",
        [S(0, 1, 5), S(-2.5, 7.0, 8), S(3, 3, 1), S(1, 0, 0)],
        np.linspace,
        [error(0, 1, -1, type=RuntimeError, match="negative, got -1")],
        exact=False,
    ),
    factory(
        "logspace",
        [S(0, 1, 5), S(-2.5, 2.0, 8, 2.0)],
        lambda a, b, n, base=10.0: np.logspace(a, b, n, base=base),
        [error(0, 1, -1, type=RuntimeError, match="negative, got -1")],
        exact=False,
    ),
    Op(
        "meshgrid",
        [S([(2,), (3,)]), S([(2,), (3,), (2,)], indexing="xy"), S([()], indexing="ij")],
        lambda xs, indexing="ij": [np.array(g) for g in np.meshgrid(*xs, indexing=indexing)],
        FLOATS,
        errors=[
            error([(2, 2)], type=RuntimeError, match=r"one dim, got shape \(2, 2\)"),
            error([(2,)], indexing="yx", type=RuntimeError, match='got "yx"'),
        ],
        inplace=False,
        exact=True,
    ),
    shape_only("new_empty", [S((2,), [2, 3])]),
    shape_only("new_empty_strided", [S((2,), [2, 3], [1, 2])]),
    like("new_full", lambda x, size, value: np.full(size, value), [S((2,), [2, 3], 2)]),
    like("new_ones", lambda x, size: np.ones(size), [S((2,), [2, 3]), S((2,), [])]),
    like("new_zeros", lambda x, size: np.zeros(size), [S((2,), [2, 3]), S((2,), [])]),
    Op(
        "one_hot",
        [S(V([0, 2, 1]), 3), S(V([[1], [0]]), 4)],
        one_hot,
        ONE,
        errors=[
            error(V([0, 5]), 3, type=RuntimeError, match="below num_classes = 3, got 5 at 1"),
            error(V([-1]), type=RuntimeError, match="negative, got -1 at 0"),
        ],
        grad=False,
        inplace=False,
        exact=True,
    ),
    factory("ones", [S([2, 3]), S([]), S([0, 2])], np.ones, NEGATIVE),
    like("ones_like", np.ones_like),
    factory(
        "range", [S(1, 3), S(0, 1, 0.25)], lambda a, b, step=1: np.arange(a, b + step / 2, step)
    ),
    factory("scalar_tensor", [S(2), S(0.5)], lambda s: np.array(float(s))),
    factory(
        "tril_indices", [S(3, 3), S(3, 4, 1), S(4, 2, -1), S(0, 3)], triangle(lambda d, k: d <= k)
    ),
    factory(
        "triu_indices", [S(3, 3), S(3, 4, 1), S(4, 2, -1), S(0, 3)], triangle(lambda d, k: d >= k)
    ),
    Op(
        "polar",
        [S((3, 4), (3, 4)), S((3, 1), (4,)), S((), ())],
        lambda r, a: r * np.exp(1j * a),
        FLOATS,
        errors=[
            error(V([1.0]), V([1]), type=RuntimeError, match="one dtype, got float32 and int64")
        ],
        inplace=False,
        grad=False,
    ),
    Op(
        "vander",
        [S((3,)), S((3,), 5), S((2,), 3, True), S((3,), 0)],
        lambda x, n=None, increasing=False: np.vander(x, n, increasing),
        FLOATS + INTS,
        errors=[error((2, 2), type=RuntimeError, match=r"one dim, got shape \(2, 2\)")],
        inplace=False,
    ),
    factory("zeros", [S([2, 3]), S([]), S([0, 2])], np.zeros, NEGATIVE),
    like("zeros_like", np.zeros_like),
]
OPS.append(
    Op(
        "polar",
        [S((3, 4), (3, 4))],
        lambda r, a: r * np.exp(1j * a),
        FLOATS,
        inplace=False,
        second=False,
    )
)
