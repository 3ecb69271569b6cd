"""Test rows of ops/binary.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, INTS, Op, S, V

PAIRS = [S((3, 4), (3, 4)), S((3, 1), (1, 4)), S((2, 3), ()), S((5,), 2)]
TENSOR_PAIRS = PAIRS[:3]


def binary(name, ref, dtypes, samples, **kw):
    return Op(name, samples, ref, dtypes, **kw)


OPS = [
    Op(
        "addcdiv",
        [S((3, 4), (3, 4), (3, 4), low_=0.5), S((2, 1), (1, 3), (), value=2.0, low_=0.5)],
        lambda a, b, c, value=1: a + value * b / c,
    ),
    Op(
        "addcmul",
        [S((3, 4), (3, 4), (3, 4)), S((2, 1), (1, 3), (), value=2)],
        lambda a, b, c, value=1: a + value * b * c,
    ),
    binary("atan2", np.arctan2, FLOATS + HALVES, TENSOR_PAIRS),
    binary(
        "bitwise_and", np.bitwise_and, ("int64", "int32", "uint8"), PAIRS, grad=False, exact=True
    ),
    binary(
        "bitwise_left_shift",
        lambda a, b: a << b,
        ("int64", "int32"),
        [S((3, 4), (3, 4), low_=0, high_=5)],
        grad=False,
        exact=True,
    ),
    binary("bitwise_or", np.bitwise_or, ("int64", "int32", "uint8"), PAIRS, grad=False, exact=True),
    binary(
        "bitwise_right_shift",
        lambda a, b: a >> b,
        ("int64", "int32"),
        [S((3, 4), (3, 4), low_=0, high_=5)],
        grad=False,
        exact=True,
    ),
    binary(
        "bitwise_xor", np.bitwise_xor, ("int64", "int32", "uint8"), PAIRS, grad=False, exact=True
    ),
    Op("clamp_max", [S((3, 4), 0.5), S((3, 4), (1, 4))], np.minimum),
    Op("clamp_min", [S((3, 4), 0.5), S((3, 4), (1, 4))], np.maximum),
    binary(
        "copysign",
        np.copysign,
        FLOATS + HALVES,
        [S((3, 4), (3, 4)), S((2, 3), (), low_=0.5)],
        second=False,
    ),
    binary(
        "floor_divide",
        np.floor_divide,
        FLOATS + INTS,
        [S((3, 4), (3, 4), low_=1, high_=9), S((5,), 2)],
        grad=False,
        exact=True,
    ),
    binary("fmax", np.fmax, FLOATS + HALVES, TENSOR_PAIRS),
    binary("fmin", np.fmin, FLOATS + HALVES, TENSOR_PAIRS),
    binary("fmod", np.fmod, FLOATS + HALVES, [S((3, 4), (3, 4), low_=0.5, high_=3), S((5,), 2)]),
    binary("gcd", np.gcd, ("int64", "int32"), TENSOR_PAIRS, grad=False, exact=True),
    binary("heaviside", np.heaviside, FLOATS + HALVES, TENSOR_PAIRS, grad=False, exact=True),
    binary("hypot", np.hypot, FLOATS + HALVES, TENSOR_PAIRS),
    binary("lcm", np.lcm, ("int64", "int32"), TENSOR_PAIRS, grad=False, exact=True),
    binary("ldexp", lambda a, b: a * 2.0**b, FLOATS + HALVES + COMPLEX, TENSOR_PAIRS),
    Op(
        "lerp",
        [S((3, 4), (3, 4), (3, 4)), S((2, 1), (1, 3), 0.25)],
        lambda a, b, w: a + w * (b - a),
    ),
    binary(
        "logaddexp",
        lambda a, b: np.log(np.exp(a) + np.exp(b)),
        FLOATS + HALVES + COMPLEX,
        TENSOR_PAIRS,
    ),
    binary("logaddexp2", np.logaddexp2, FLOATS + HALVES, TENSOR_PAIRS),
    binary("logical_xor", np.logical_xor, FLOATS + HALVES, TENSOR_PAIRS, grad=False, exact=True),
    Op(
        "masked_fill",
        [S((2, 2), V([[True, False], [False, True]]), 3.0)],
        lambda a, m, v: np.where(m, v, a),
    ),
    binary("maximum", np.maximum, FLOATS + HALVES, TENSOR_PAIRS),
    binary("minimum", np.minimum, FLOATS + HALVES, TENSOR_PAIRS),
    binary("nextafter", np.nextafter, ("float64",), TENSOR_PAIRS, grad=False, exact=True),
    binary("pow", np.power, FLOATS, [S((3, 4), (3, 4), low_=0.5), S((5,), 3), S((5,), 2)]),
    binary(
        "remainder",
        np.remainder,
        FLOATS + HALVES,
        [S((3, 4), (3, 4), low_=0.5, high_=3), S((5,), 2)],
    ),
    binary("xlogy", lambda a, b: a * np.log(b), FLOATS + HALVES, [S((3, 4), (3, 4), low_=0.5)]),
]

# Sweeps that make no sense for a row: they need values, or memory that is not a view.
WITHOUT = {
    "masked_fill": ["meta"],
}
for op in OPS:
    for sweep in WITHOUT.get(op.name, []):
        setattr(op, sweep, False)
