"""Test rows of ops/activation.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, Op, S

SHAPES = [(3, 4), (), (0, 2), (70_000,)]


def unary(low, high):
    return [S(shape, low_=low, high_=high) for shape in SHAPES[:3]]


OPS = [
    Op("celu", [S((3, 4)), S((5,), 0.5)], lambda a, s=1.0: np.where(a > 0, a, s * np.expm1(a / s))),
    Op("elu", [S((3, 4)), S((5,), 0.5)], lambda a, s=1.0: np.where(a > 0, a, s * np.expm1(a))),
    Op("hardshrink", [S((3, 4))], lambda a: np.where(np.abs(a) <= 0.5, 0, a)),
    Op("hardsigmoid", unary(-2, 2), lambda a: np.clip(a + 3, 0, 6) / 6, FLOATS + HALVES),
    Op("hardswish", unary(-2, 2), lambda a: a * np.clip(a + 3, 0, 6) / 6, FLOATS + HALVES),
    Op(
        "hardtanh", [S((3, 4)), S((5,), -0.5, 1.5)], lambda a, low=-1, high=1: np.clip(a, low, high)
    ),
    Op("leaky_relu", [S((3, 4)), S((5,), 0.2)], lambda a, s=0.01: np.where(a > 0, a, s * a)),
    Op("log_sigmoid", unary(-2, 2), lambda a: -np.log1p(np.exp(-a)), FLOATS + HALVES),
    Op("mish", unary(-2, 2), lambda a: a * np.tanh(np.log1p(np.exp(a))), FLOATS + HALVES),
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
