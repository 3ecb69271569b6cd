"""Test rows of ops/special.toml: integrals, series and recurrences in NumPy are the references."""

import math

import numpy as np

from tests.ops.rows import FLOATS, HALVES, Op, S, error

LOOSE = {"float64": 1e-9, "float32": 1e-5}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
T, T_WEIGHTS = (NODES + 1) * math.pi / 2, WEIGHTS / 2  # the mean over [0, pi]
H, H_WEIGHTS = (NODES + 1) * 3.5, WEIGHTS * 3.5  # [0, 7], for integrands that vanish fast


def each(f):
    return lambda *arrays: np.vectorize(f, otypes=[float])(*arrays)


def mean(f):
    return each(lambda x: float(np.sum(T_WEIGHTS * f(x))))


def tail(f):
    return each(lambda x: float(np.sum(H_WEIGHTS * f(x))))


J0 = mean(lambda x: np.cos(x * np.sin(T)))
J1 = mean(lambda x: np.cos(T - x * np.sin(T)))
I0 = mean(lambda x: np.exp(x * np.cos(T)))
I1 = mean(lambda x: np.exp(x * np.cos(T)) * np.cos(T))
K0 = tail(lambda x: np.exp(-x * np.cosh(H)))
K1 = tail(lambda x: np.exp(-x * np.cosh(H)) * np.cosh(H))
Y0_TAIL = tail(lambda x: np.exp(-x * np.sinh(H)))
Y1_TAIL = tail(lambda x: 2 * np.sinh(H) * np.exp(-x * np.sinh(H)))


def y0(x):
    return mean(lambda v: np.sin(v * np.sin(T)))(x) - 2 / math.pi * Y0_TAIL(x)


def y1(x):
    return mean(lambda v: np.sin(v * np.sin(T) - T))(x) - Y1_TAIL(x) / math.pi


@each
def airy(x):
    """Maclaurin's series."""
    f = g = 0.0
    a, b = 1.0, x
    for k in range(1, 40):
        f, g = f + a, g + b
        a *= x**3 / ((3 * k - 1) * (3 * k))
        b *= x**3 / ((3 * k) * (3 * k + 1))
    return 0.3550280538878172 * f - 0.2588194037928068 * g


@each
def zeta(s, q):
    """The first terms, and the integral and half a term of the rest (Euler and Maclaurin)."""
    total = sum((k + q) ** -s for k in range(200))
    end = 200 + q
    return total + end ** (1 - s) / (s - 1) + end**-s / 2 + s * end ** (-s - 1) / 12


@each
def lower_gamma(a, x):
    """The series of the regularised lower incomplete gamma function."""
    term = total = 1 / a
    for k in range(1, 200):
        term *= x / (a + k)
        total += term
    return total * math.exp(a * math.log(x) - x - math.lgamma(a))


@each
def inverse_normal(p):
    low, high = -10.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(-middle / 2**0.5) / 2 < p else (low, middle)
    return low


def recurrence(first, step):
    """Polynomials p(0) = 1, p(1) = first(x), p(k + 1) = step(x, k, p(k), p(k - 1))."""

    def one(x, n):
        before, now = 1.0, first(x)
        if n < 1:
            return 1.0
        for k in range(1, int(n)):
            before, now = now, step(x, k, now, before)
        return now

    return each(one)


def two_x(x, k, now, before):
    return 2 * x * now - before


def shifted(f):
    return lambda x, n: f(2 * np.asarray(x) - 1, n)


CHEBYSHEV = {
    "t": recurrence(lambda x: x, two_x),
    "u": recurrence(lambda x: 2 * x, two_x),
    "v": recurrence(lambda x: 2 * x - 1, two_x),
    "w": recurrence(lambda x: 2 * x + 1, two_x),
}
POLYNOMIALS = {f"chebyshev_polynomial_{k}": f for k, f in CHEBYSHEV.items()} | {
    "hermite_polynomial_h": recurrence(
        lambda x: 2 * x, lambda x, k, now, before: 2 * x * now - 2 * k * before
    ),
    "hermite_polynomial_he": recurrence(
        lambda x: x, lambda x, k, now, before: x * now - k * before
    ),
    "laguerre_polynomial_l": recurrence(
        lambda x: 1 - x, lambda x, k, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1)
    ),
    "legendre_polynomial_p": recurrence(
        lambda x: x, lambda x, k, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1)
    ),
    **{f"shifted_chebyshev_polynomial_{k}": shifted(f) for k, f in CHEBYSHEV.items()},
}


def polynomial(name, f):
    samples = [S((3, 4), n) for n in (0, 1, 2, 5)] + [S((), 3), S((0,), 2)]
    return Op(f"special_{name}", samples, f, FLOATS, tol=LOOSE, grad=False)


def one(name, f, low, high, dtypes=FLOATS, **kw):
    samples = [S(shape, low_=low, high_=high) for shape in [(3, 4), (), (0, 2)]]
    return Op(name, samples, f, dtypes, tol=LOOSE, **kw)


def normal(x):
    return each(math.erfc)(-x / 2**0.5) / 2


OPS = [
    one("special_airy_ai", airy, -2, 2, grad=False),
    one("special_bessel_j0", J0, -3, 3),
    one("special_bessel_j1", J1, 0.5, 3),
    one("special_bessel_y0", y0, 1, 3),
    one("special_bessel_y1", y1, 1, 3),
    *[polynomial(name, f) for name, f in POLYNOMIALS.items()],
    one("special_entr", lambda x: -x * np.log(x), 0.1, 2, FLOATS + HALVES),
    one("special_erfcx", lambda x: np.exp(x * x) * each(math.erfc)(x), -2, 2),
    one("i0", I0, -3, 3, FLOATS + HALVES),
    one("special_i0e", lambda x: I0(x) * np.exp(-abs(x)), 0.5, 3),
    one("special_i1", I1, 0.5, 3),
    one("special_i1e", lambda x: I1(x) * np.exp(-abs(x)), 0.5, 3),
    Op(
        "igamma", [S((3, 4), (3, 4), low_=0.5, high_=3)], lower_gamma, FLOATS, tol=LOOSE, grad=False
    ),
    Op(
        "igammac",
        [S((3, 4), (3, 4), low_=0.5, high_=3)],
        lambda a, x: 1 - lower_gamma(a, x),
        FLOATS,
        tol=LOOSE,
        grad=False,
    ),
    one("special_log_ndtr", lambda x: np.log(normal(x)), -2, 2),
    one("special_modified_bessel_i0", I0, -3, 3),
    one("special_modified_bessel_i1", I1, 0.5, 3),
    one("special_modified_bessel_k0", K0, 0.5, 3),
    one("special_modified_bessel_k1", K1, 0.5, 3),
    one("special_ndtr", normal, -2, 2, FLOATS + HALVES),
    one("special_ndtri", inverse_normal, 0.1, 0.9),
    one("special_scaled_modified_bessel_k0", lambda x: K0(x) * np.exp(x), 0.5, 3),
    one("special_scaled_modified_bessel_k1", lambda x: K1(x) * np.exp(x), 0.5, 3),
    one("special_spherical_bessel_j0", lambda x: np.sin(x) / x, 0.5, 3),
    Op(
        "special_xlog1py",
        [S((3, 4), (3, 4), low_=0.5), S((3,), 2.0, low_=0.5), S(2.0, (3,), low_=0.5)],
        lambda x, y: x * np.log1p(y),
        FLOATS,
    ),
    Op(
        "special_zeta",
        [S((3, 4), (3, 4), low_=1.5, high_=4), S((3,), 2.0, low_=2, high_=4), S(3.0, (2,), low_=1)],
        zeta,
        FLOATS,
        tol={"float64": 1e-8, "float32": 1e-5},
        grad=False,
        errors=[error((2,), (3,), type=RuntimeError, match=r"\(2,\) and \(3,\)")],
    ),
]
