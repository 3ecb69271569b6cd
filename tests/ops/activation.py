"""Test rows of ops/activation.toml."""

import math

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, Op, S, error

SHAPES = [(3, 4), (), (0, 2), (70_000,)]


def unary(low, high):
    return [S(shape, low_=low, high_=high) for shape in SHAPES[:3]]


def cumulative(a):
    return 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(a / math.sqrt(2)))


def gelu(a, approximate="none"):
    if approximate == "none":
        return a * cumulative(a)
    return 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))


def gelu_slope(g, a):
    return g * (cumulative(a) + a * np.exp(-a * a / 2) / math.sqrt(2 * math.pi))


def glu(a, dim=-1):
    first, second = np.split(a, 2, dim)
    return first / (1 + np.exp(-second))


def prelu(a, w):
    return np.where(a > 0, a, a * (w if w.size == 1 else w.reshape(-1, *[1] * (a.ndim - 2))))


OPS = [
    Op("_gelu", [S((3, 4))], gelu),
    Op("_gelu_backward", [S((3, 4), (3, 4))], gelu_slope),
    Op("_gelu_tanh", [S((3, 4))], lambda a: gelu(a, "tanh")),
    Op("_gelu_tanh_backward", [S((3, 4), (3, 4))]),
    Op(
        "_prelu_kernel",
        [S((3, 4), (1, 4)), S((2, 3), (1, 1))],
        lambda a, w: np.where(a > 0, a, a * w),
        inplace=False,
    ),
    # Slopes are drawn and have no derivative; the row of rrelu has that by self.
    Op("_rrelu", [S((3, 4), (3, 4))], lambda a, slope: a * slope, grad=False),
    Op("celu", [S((3, 4)), S((5,), 0.5)], lambda a, s=1.0: np.where(a > 0, a, s * np.expm1(a / s))),
    Op("elu", [S((3, 4)), S((5,), 0.5)], lambda a, s=1.0: np.where(a > 0, a, s * np.expm1(a))),
    Op(
        "gelu",
        [*unary(-2, 2), S((3, 4), approximate="tanh")],
        gelu,
        FLOATS + HALVES,
        errors=[error((3,), approximate="x", type=RuntimeError, match="'none' or 'tanh', got 'x'")],
    ),
    Op(
        "glu",
        [S((3, 4)), S((2, 3, 2), 0)],
        glu,
        errors=[error((3,), type=RuntimeError, match="even size, got 3")],
    ),
    Op("hardshrink", [S((3, 4))], lambda a: np.where(np.abs(a) <= 0.5, 0, a)),
    Op("hardsigmoid", unary(-2, 2), lambda a: np.clip(a + 3, 0, 6) / 6, FLOATS + HALVES),
    Op("hardswish", unary(-2, 2), lambda a: a * np.clip(a + 3, 0, 6) / 6, FLOATS + HALVES),
    Op(
        "hardtanh", [S((3, 4)), S((5,), -0.5, 1.5)], lambda a, low=-1, high=1: np.clip(a, low, high)
    ),
    Op("leaky_relu", [S((3, 4)), S((5,), 0.2)], lambda a, s=0.01: np.where(a > 0, a, s * a)),
    Op("log_sigmoid", unary(-2, 2), lambda a: -np.log1p(np.exp(-a)), FLOATS + HALVES),
    Op("mish", unary(-2, 2), lambda a: a * np.tanh(np.log1p(np.exp(a))), FLOATS + HALVES),
    Op(
        "prelu",
        [S((3, 4), (1,)), S((2, 3, 4), (3,))],
        prelu,
        FLOATS,
        errors=[error((2, 3), (2,), type=RuntimeError, match="each of 3 channels")],
    ),
    Op("relu6", unary(-2, 2), lambda a: np.clip(a, 0, 6), FLOATS + HALVES),
    Op(
        "selu",
        unary(-2, 2),
        lambda a: 1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(a)),
        FLOATS + HALVES,
    ),
    Op("silu", unary(-2, 2), lambda a: a / (1 + np.exp(-a)), FLOATS + HALVES + COMPLEX),
    Op("softplus", [S((3, 4)), S((5,), 2.0)], lambda a, b=1.0: np.log1p(np.exp(a * b)) / b),
    Op("softshrink", [S((3, 4))], lambda a: np.sign(a) * np.maximum(np.abs(a) - 0.5, 0)),
    Op("threshold", [S((3, 4), 0.5, 20.0)], lambda a, t, v: np.where(a > t, a, v)),
]
