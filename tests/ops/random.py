"""Test rows of ops/random.toml. Values are compared where the parameters leave one possible outcome."""

import math

import numpy as np

from tests.ops.rows import FLOATS, HALVES, INTS, Op, S, V, error

REAL = FLOATS + HALVES


def fill(name, samples, errors, dtypes=REAL, ref=None):
    """Written in place; `ref` where the parameters decide the values."""
    return Op(name, samples, ref, dtypes, errors=errors, grad=False, random=ref is None, exact=True)


def drawn(name, samples, errors=(), dtypes=("float32",), ref=None, **kw):
    kw = {"grad": False, "inplace": False, "out": False} | kw
    return Op(name, samples, ref, dtypes, errors=list(errors), random=ref is None, exact=True, **kw)


def sure(name, ref, *args, **kw):
    """A sampler whose parameters leave one outcome."""
    return drawn(name, [S((3, 4), *args), S((), *args), S((0,), *args)], ref=ref, **kw)


def dropout(name, **kw):
    """Nothing is dropped at p = 0 or in evaluation; everything at p = 1."""
    return Op(
        name,
        [S((3, 4), 0.0, True), S((3, 4), 0.7, False), S((3, 4), 1.0, True), S((0, 2), 0.5, True)],
        lambda x, p, train: x * 0 if p == 1 else x,
        REAL,
        errors=[error((3, 4), 1.5, True, type=RuntimeError, match=r"in \[0, 1\], got 1.5")],
        exact=True,
        inplace=False,
        **kw,
    )


def rrelu(name, **kw):
    def slope(x, low, high, training=False):
        return np.where(x > 0, x, x * (low + high) / 2)

    return Op(
        name,
        [S((3, 4), 0.25, 0.25, True), S((3, 4), 0.25, 0.5), S(())],
        lambda x, *args: slope(x, *args) if args else slope(x, 0.125, 1 / 3),
        FLOATS,
        errors=[error((2,), 0.5, 0.25, type=RuntimeError, match="got 0.5 and 0.25")],
        inplace=False,
        **kw,
    )


def gamma_slope(a, x):
    """dx / da at a fixed quantile: exact for a = 1 by quadrature of d/da of the density."""
    t = np.linspace(0, 1, 20001)[1:]
    out = []
    for shape, sample in zip(a, x):
        u = sample * t**8  # the singularity of log at 0 is spread out
        du = sample * 8 * t**7
        psi = -np.euler_gamma if shape == 1 else 1 - np.euler_gamma
        density = u ** (shape - 1) * np.exp(-u) / math.gamma(shape)
        integral = np.trapezoid(density * (np.log(u) - psi) * du, t)
        out.append(-integral / (sample ** (shape - 1) * math.exp(-sample) / math.gamma(shape)))
    return np.array(out)


OPS = [
    Op(
        "_dirichlet_grad",
        # total = alpha + 1, where betainc(alpha, 1, x) = x^alpha
        [S(V([0.1, 0.5, 0.9]), V([1.0, 2.0, 0.5]), V([2.0, 3.0, 1.5]))],
        lambda x, a, total: -x * np.log(x) / a / (1 - x),
        ("float32",),
        grad=False,
        inplace=False,
    ),
    Op(
        "_masked_scale",
        [S((2, 2), V([[True, False], [False, True]]), 2.0), S((3, 2), V([True, False]), 0.5)],
        lambda x, mask, scale: x * mask * scale,
        REAL,
        inplace=False,
        exact=True,
    ),
    drawn("_sample_dirichlet", [S((3, 4), low_=0.5, high_=2.0), S((2, 0))]),
    drawn("_standard_gamma", [S((3, 4), low_=0.5, high_=2.0), S(())]),
    Op(
        "_standard_gamma_grad",
        [S(V([1.0, 1.0, 2.0, 2.0]), V([0.5, 6.0, 1.0, 8.0]))],
        gamma_slope,
        ("float32",),
        tol={"float32": 1e-5},
        grad=False,
        inplace=False,
    ),
    dropout("alpha_dropout"),
    dropout("alpha_dropout_", grad=False),
    Op(
        "bernoulli",
        [S(V([0.0, 1.0])), S((3,), 1.0), S((0,), 0.5)],
        lambda x, p=None: x if p is None else np.full_like(x, p),
        ("float32",),
        errors=[
            error(V([2.0]), type=RuntimeError, match=r"in \[0, 1\], got 2"),
            error((3,), 1.5, type=RuntimeError, match=r"in \[0, 1\], got 1.5"),
        ],
        grad=False,
        inplace=False,
        exact=True,
    ),
    fill(
        "bernoulli_",
        [
            S((3, 4), 1.0),
            S((3, 4), 0.0),
            S((2, 2), V([[1.0, 0.0], [0.0, 1.0]])),
            S((2, 2), V([0.0, 1.0])),
        ],
        [
            error((3,), 1.5, type=RuntimeError, match=r"in \[0, 1\], got 1.5"),
            error((2,), V([0.5, -1.0]), type=RuntimeError, match="got -1.* at 1"),
        ],
        REAL + INTS,
        lambda x, p: x * 0 + p,
    ),
    drawn(
        "binomial",
        [S(V([3.0, 5.0]), V([0.0, 1.0])), S(V([[3.0], [2.0]]), V([1.0, 0.0]))],
        [
            error(V([-1.0]), V([0.5]), type=RuntimeError, match="negative, got -1"),
            error(V([1.0]), V([1.5]), type=RuntimeError, match=r"in \[0, 1\], got 1.5"),
        ],
        ref=lambda n, p: n * p,
    ),
    fill(
        "cauchy_",
        [S((3, 4)), S((), 1.0, 2.0)],
        [error((2,), 0.0, 0.0, type=RuntimeError, match="above 0, got 0")],
    ),
    dropout("dropout"),
    dropout("dropout_", grad=False),
    fill(
        "exponential_",
        [S((3, 4)), S((), 2.0)],
        [error((2,), 0.0, type=RuntimeError, match="above 0, got 0")],
    ),
    dropout("feature_alpha_dropout"),
    dropout("feature_alpha_dropout_", grad=False),
    dropout("feature_dropout"),
    dropout("feature_dropout_", grad=False),
    fill(
        "geometric_",
        [S((3, 4), 0.5), S((), 0.25)],
        [error((2,), 1.0, type=RuntimeError, match=r"in \(0, 1\), got 1")],
        REAL + INTS,
    ),
    fill(
        "log_normal_",
        [S((3, 4)), S((), 0.0, 1.0)],
        [error((2,), 0.0, 0.0, type=RuntimeError, match="above 0")],
    ),
    drawn(
        "multinomial",
        [S(V([0.0, 2.0]), 1), S(V([[0.0, 0.5], [3.0, 0.0]]), 3, True)],
        [
            error(V([1.0, -1.0]), 1, type=RuntimeError, match=r"got -1.* at \(0, 1\)"),
            error(V([1.0, 1.0]), 3, type=RuntimeError, match="at most 2 samples, got 3"),
            error(V([0.0, 0.0]), 1, type=RuntimeError, match="must be above 0"),
        ],
        ref=lambda w, n, replacement=False: np.repeat(np.argmax(w, -1)[..., None], n, -1),
        out=True,
    ),
    Op(
        "native_dropout",
        [S((3, 4), 0.0, True), S((3, 4), 0.5, False)],
        lambda x, p, train: (x, np.ones_like(x)),
        REAL,
        inplace=False,
        exact=True,
    ),
    drawn(
        "normal",
        [
            S(V([1.0, -2.0]), 0.0),
            S(2.5, V([0.0, 0.0])),
            S(V([[1.0], [2.0]]), V([0.0, 0.0])),
            S(0.5, 0.0, [2]),
        ],
        [
            error(V([1.0]), -1.0, type=RuntimeError, match="negative, got -1"),
            error(V([1.0, 2.0]), V([1.0, -1.0]), type=RuntimeError, match="got -1.* at 1"),
        ],
        ref=lambda mean, std, size=None: np.full(size, mean) if size else mean + std * 0,
    ),
    fill(
        "normal_",
        [S((3, 4), 0.5, 0.0), S((5, 5), -1.0, 0.0)],
        [error((2,), 0.0, -1.0, type=RuntimeError, match="negative, got -1")],
        ref=lambda x, mean, std: np.full_like(x, mean),
    ),
    drawn(
        "poisson",
        [S(V([0.0, 0.0]))],
        [error(V([-1.0]), type=RuntimeError, match="negative, got -1")],
        ref=np.array,
    ),
    drawn("rand", [S([2, 3]), S([]), S([0])], [error([-1], type=RuntimeError, match="negative")]),
    drawn("rand_like", [S((2, 3)), S(())]),
    drawn(
        "randint",
        [S(1, [2, 3]), S(-4, -3, [2])],
        [error(3, 3, [2], type=RuntimeError, match="got 3 and 3")],
        ref=lambda low, high, size=None: np.zeros(high) if size is None else np.full(size, low),
    ),
    drawn(
        "randint_like",
        [S((2, 3), 1), S((2,), 4, 5)],
        ref=lambda x, low, high=None: x * 0 + (low if high else 0),
    ),
    drawn("randn", [S([2, 3]), S([]), S([20])], [error([-1], type=RuntimeError, match="negative")]),
    drawn("randn_like", [S((2, 3)), S(())]),
    fill(
        "random_",
        [S((3, 4), 3, 4), S((3, 4), 1)],
        [
            error((2,), 3, 3, type=RuntimeError, match="got 3 and 3"),
            error((2,), 0, 300, type=RuntimeError, match="uint8", dtype="uint8"),
        ],
        REAL + INTS,
        lambda x, low, high=None: x * 0 + (low if high else 0),
    ),
    drawn(
        "randperm",
        [S(0), S(1)],
        [error(-1, type=RuntimeError, match="negative, got -1")],
        ref=np.arange,
    ),
    rrelu("rrelu"),
    rrelu("rrelu_", grad=False),
    fill(
        "uniform_",
        [S((3, 4), 2.0, 2.0), S((), -1.0, -1.0)],
        [error((2,), 1.0, 0.0, type=RuntimeError, match="got 1.* and 0")],
        ref=lambda x, low, high: np.full_like(x, low),
    ),
]
