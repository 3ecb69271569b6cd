"""Test rows of ops/unary.toml."""

import math

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, Op, S, error

SHAPES = [(3, 4), (), (0, 2), (70_000,)]


def unary(low, high):
    return [S(shape, low_=low, high_=high) for shape in SHAPES[:3]]


def inverse_erf(y):
    """By Newton's method on math.erf."""

    def one(v):
        x = 0.0
        for _ in range(60):
            x -= (math.erf(x) - v) * math.sqrt(math.pi) / 2 * math.exp(x * x)
        return x

    return np.vectorize(one, otypes=[float])(y)


def digamma_by_difference(x):
    step = 1e-5
    return np.vectorize(
        lambda v: (math.lgamma(v + step) - math.lgamma(v - step)) / (2 * step), otypes=[float]
    )(x)


OPS = [
    Op("abs", unary(-2, 2), np.abs, FLOATS + HALVES + ("int64",), exact=True),
    Op("acos", unary(-0.9, 0.9), np.arccos, FLOATS + HALVES + COMPLEX),
    Op("acosh", unary(1.2, 3), np.arccosh, FLOATS + HALVES + COMPLEX),
    Op("asin", unary(-0.9, 0.9), np.arcsin, FLOATS + HALVES + COMPLEX),
    Op("asinh", unary(-2, 2), np.arcsinh, FLOATS + HALVES + COMPLEX),
    Op("atan", unary(-2, 2), np.arctan, FLOATS + HALVES + COMPLEX),
    Op("atanh", unary(-0.9, 0.9), np.arctanh, FLOATS + HALVES + COMPLEX),
    Op("bitwise_not", unary(-2, 2), np.bitwise_not, ("int64", "int32"), exact=True, grad=False),
    Op("ceil", unary(-2, 2), np.ceil, FLOATS + HALVES, exact=True, grad=False),
    Op("cos", unary(-2, 2), np.cos, FLOATS + HALVES + COMPLEX),
    Op("cosh", unary(-2, 2), np.cosh, FLOATS + HALVES + COMPLEX),
    Op("deg2rad", unary(-2, 2), np.deg2rad, FLOATS + HALVES),
    Op(
        "digamma",
        unary(0.5, 4),
        digamma_by_difference,
        FLOATS + HALVES,
        second=False,
        tol={"float64": 1e-6, "float32": 1e-5},
    ),
    Op("erf", unary(-2, 2), np.vectorize(math.erf, otypes=[float]), FLOATS + HALVES),
    Op("erfc", unary(-2, 2), np.vectorize(math.erfc, otypes=[float]), FLOATS + HALVES),
    Op("erfinv", unary(-0.9, 0.9), inverse_erf, FLOATS + HALVES),
    Op("exp2", unary(-2, 2), np.exp2, FLOATS + HALVES + COMPLEX),
    Op("expm1", unary(-2, 2), np.expm1, FLOATS + HALVES),
    Op(
        "fake_quantize_per_tensor_affine",
        [S((3, 4), 0.25, 1, -2, 3), S((), 0.5, 0, 0, 255)],
        lambda a, scale, zero, low, high: (
            (np.clip(np.rint(a * (1 / scale)) + zero, low, high) - zero) * scale
        ),
        FLOATS,
        grad=False,  # passes straight through, which is no slope of steps: test_op_edges.py
        errors=[
            error(
                (2,), 1.0, 0, 3, 2, type=RuntimeError, match="hold, got quant_min 3, quant_max 2"
            ),
            error((2,), 1.0, 9, 0, 3, type=RuntimeError, match="must hold, got zero_point 9,"),
        ],
    ),
    Op("floor", unary(-2, 2), np.floor, FLOATS + HALVES, exact=True, grad=False),
    Op("frac", unary(-2, 2), lambda a: a - np.trunc(a), FLOATS + HALVES, exact=True),
    Op("isfinite", unary(-2, 2), np.isfinite, FLOATS + HALVES + COMPLEX, exact=True, grad=False),
    Op("isinf", unary(-2, 2), np.isinf, FLOATS + HALVES + COMPLEX, exact=True, grad=False),
    Op("isnan", unary(-2, 2), np.isnan, FLOATS + HALVES + COMPLEX, exact=True, grad=False),
    Op("isneginf", unary(-2, 2), np.isneginf, FLOATS + HALVES, exact=True, grad=False),
    Op("isposinf", unary(-2, 2), np.isposinf, FLOATS + HALVES, exact=True, grad=False),
    Op(
        "lgamma",
        unary(0.5, 4),
        np.vectorize(math.lgamma, otypes=[float]),
        FLOATS + HALVES,
        second=False,
    ),
    Op("log", unary(0.5, 4), np.log, FLOATS + HALVES + COMPLEX),
    Op("log10", unary(0.5, 4), np.log10, FLOATS + HALVES + COMPLEX),
    Op("log1p", unary(-0.4, 4), np.log1p, FLOATS + HALVES + COMPLEX),
    Op("log2", unary(0.5, 4), np.log2, FLOATS + HALVES + COMPLEX),
    Op("rad2deg", unary(-2, 2), np.rad2deg, FLOATS + HALVES),
    Op("sgn", unary(-2, 2), np.sign, FLOATS + HALVES, exact=True),
    Op("sigmoid", unary(-2, 2), lambda a: 1 / (1 + np.exp(-a)), FLOATS + HALVES + COMPLEX),
    Op("sign", unary(-2, 2), np.sign, FLOATS + HALVES, exact=True, grad=False),
    Op("signbit", unary(-2, 2), np.signbit, FLOATS + HALVES, exact=True, grad=False),
    Op("sin", unary(-2, 2), np.sin, FLOATS + HALVES + COMPLEX),
    Op("sinc", unary(-2, 2), np.sinc, FLOATS + HALVES, second=False),
    Op("sinh", unary(-2, 2), np.sinh, FLOATS + HALVES + COMPLEX),
    Op("sqrt", unary(0.5, 4), np.sqrt, FLOATS + HALVES + COMPLEX),
    Op("square", unary(-2, 2), np.square, FLOATS + HALVES + COMPLEX),
    Op("tan", unary(-1.2, 1.2), np.tan, FLOATS + HALVES + COMPLEX),
    Op("tanh", unary(-2, 2), np.tanh, FLOATS + HALVES + COMPLEX),
    Op("trunc", unary(-2, 2), np.trunc, FLOATS + HALVES, exact=True, grad=False),
]
OPS.append(Op("_bitwise_not", [S((3,))], np.bitwise_not, ("int64",), grad=False, exact=True))
OPS.append(Op("_depends", [S((3,), (3,))], lambda a, b: a, FLOATS, inplace=False))
OPS.append(Op("polygamma", [S(1, (3, 4), low_=1, high_=3)], inplace=False, second=False))
