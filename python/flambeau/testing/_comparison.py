"""assert_close: numbers, tensors and containers of them, equal up to rounding."""

import cmath
import collections.abc
import sys
import warnings

import flambeau
from flambeau import Tensor

# (rtol, atol) where the caller names none; what is not here is compared exactly.
_TOLERANCES = {
    flambeau.float16: (1e-3, 1e-5),
    flambeau.bfloat16: (1.6e-2, 1e-5),
    flambeau.float32: (1.3e-6, 1e-5),
    flambeau.float64: (1e-7, 1e-7),
    flambeau.complex64: (1.3e-6, 1e-5),
    flambeau.complex128: (1e-7, 1e-7),
}


class _Rules:
    """What a comparison demands."""

    def __init__(self, subclasses, rtol, atol, equal_nan, device, dtype, layout, stride):
        if (rtol is None) != (atol is None):
            missing = "rtol" if rtol is None else "atol"
            raise ValueError(f"assert_close: rtol and atol go together, {missing} is missing")
        self.subclasses, self.equal_nan = subclasses, equal_nan
        self.rtol, self.atol = rtol, atol
        self.device, self.dtype, self.layout, self.stride = device, dtype, layout, stride

    def tolerances(self, *dtypes):
        if self.rtol is not None:
            return self.rtol, self.atol
        found = [_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
        return max(r for r, _ in found), max(a for _, a in found)


class _Mismatch(Exception):
    """The text of what differs, and the way to it through the containers."""

    def __init__(self, text):
        super().__init__(text)
        self.text, self.path = text, []


def _array_as_tensor(value):
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return flambeau.as_tensor(value)
    return value


def _compare(actual, expected, rules):
    actual, expected = _array_as_tensor(actual), _array_as_tensor(expected)
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {actual} is not {expected}")
    elif isinstance(actual, Tensor) and isinstance(expected, Tensor):
        if not rules.subclasses and type(actual) is not type(expected):
            raise TypeError(
                f"assert_close: got {type(actual)} and {type(expected)}, and allow_subclasses=False"
            )
        _compare_tensors(actual, expected, rules)
    elif isinstance(actual, bool) and isinstance(expected, bool):
        if actual is not expected:
            raise _Mismatch(f"Booleans mismatch: {actual} is not {expected}")
    elif _is_number(actual) and _is_number(expected):
        _compare_numbers(actual, expected, rules)
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Mismatch(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            )
        _compare_items(actual, expected, range(len(actual)), rules)
    elif isinstance(actual, collections.abc.Mapping) and isinstance(
        expected, collections.abc.Mapping
    ):
        missing, more = (
            [k for k in expected if k not in actual],
            [k for k in actual if k not in expected],
        )
        if missing or more:
            raise _Mismatch(
                f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {more}"
            )
        _compare_items(actual, expected, actual, rules)
    else:
        raise TypeError(f"assert_close: cannot compare {type(actual)} with {type(expected)}")


def _is_number(value):
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _is_sequence(value):
    return isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes))


def _compare_items(actual, expected, keys, rules):
    for key in keys:
        try:
            _compare(actual[key], expected[key], rules)
        except _Mismatch as mismatch:
            mismatch.path.insert(0, key)
            raise


def _compare_numbers(actual, expected, rules):
    if rules.dtype and type(actual) is not type(expected):
        raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    kinds = {int: flambeau.int64, float: flambeau.float64, complex: flambeau.complex128}
    # Python's doubles are compared as torch's default numbers are.
    defaults = {flambeau.float64: flambeau.float32, flambeau.complex128: flambeau.complex64}
    dtypes = [defaults.get(kinds[type(v)], kinds[type(v)]) for v in (actual, expected)]
    rtol, atol = rules.tolerances(*dtypes)
    if actual == expected or (rules.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    difference = abs(actual - expected)
    if (
        cmath.isfinite(actual)
        and cmath.isfinite(expected)
        and difference <= atol + rtol * abs(expected)
    ):
        return
    relative = difference / abs(expected) if expected else float("inf")
    exact = rtol == atol == 0
    allowed = ("", "") if exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    raise _Mismatch(
        f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{allowed[0]}\nRelative difference: {relative}{allowed[1]}"
    )


def _check_attributes(actual, expected, rules):
    checks = [
        ("shape", True),
        ("device", rules.device),
        ("dtype", rules.dtype),
        ("layout", rules.layout),
    ]
    for name, checked in checks:
        a, b = getattr(actual, name), getattr(expected, name)
        if checked and a != b:
            raise _Mismatch(f"The values for attribute '{name}' do not match: {a} != {b}.")
    if rules.stride and actual.stride() != expected.stride():
        raise _Mismatch(
            f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}."
        )


def _compare_tensors(actual, expected, rules):
    _check_attributes(actual, expected, rules)
    if actual.is_meta or expected.is_meta:
        return  # they have no values
    rtol, atol = rules.tolerances(actual.dtype, expected.dtype)
    actual, expected = actual.detach().to("cpu"), expected.detach().to("cpu")
    if actual.dtype != expected.dtype:
        dtype = flambeau.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(dtype), expected.to(dtype)
    close = flambeau.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=rules.equal_nan)
    if not bool(close.all()):
        raise _Mismatch(_describe(actual, expected, close, rtol, atol))


def _describe(actual, expected, close, rtol, atol):
    wrong, total = int((~close).sum()), close.numel()
    if not (actual.is_floating_point() or actual.is_complex()):
        actual, expected = actual.to(flambeau.int64), expected.to(flambeau.int64)
    difference = (actual - expected).abs()
    relative = difference / expected.abs()
    exact = rtol == atol == 0
    lines = [f"Tensor-likes are not {'equal' if exact else 'close'}!", ""]
    if close.dim():
        lines.append(f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})")
    else:
        lines = [f"Scalars are not {'equal' if exact else 'close'}!", ""]
        lines.append(f"Expected {expected.item()} but got {actual.item()}.")
    for kind, values, bound in (("absolute", difference, atol), ("relative", relative, rtol)):
        # Only the elements that differ too much count, and NaN among them counts most.
        values = flambeau.where(close, flambeau.zeros_like(values), values).reshape(-1)
        at = int(values.argmax())
        place = [int(i) for i in flambeau.unravel_index(flambeau.tensor(at), close.shape)]
        allowed = "" if exact else f" (up to {bound} allowed)"
        if close.dim():
            text = f"Greatest {kind} difference: {values[at].item()} at index ({', '.join(map(str, place))}"
            lines.append(text + ("," if len(place) == 1 else "") + f"){allowed}")
        else:
            lines.append(f"{kind.capitalize()} difference: {values[at].item()}{allowed}")
    return "\n".join(lines)


def assert_close(
    actual,
    expected,
    *,
    allow_subclasses=True,
    rtol=None,
    atol=None,
    equal_nan=False,
    check_device=True,
    check_dtype=True,
    check_layout=True,
    check_stride=False,
    msg=None,
):
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Takes tensors, NumPy arrays, numbers, None, and sequences and mappings of them. Shapes must be equal, devices,
    dtypes, layouts and strides as far as they are checked. Without rtol and atol the dtype decides: 1.3e-6 and 1e-5
    for float32, 1e-7 both for float64, 1e-3 and 1e-5 for float16, 1.6e-2 and 1e-5 for bfloat16, equality for integers.
    `msg` replaces the text; a function is given it.

    Raises:  AssertionError, TypeError for what cannot be compared, ValueError for one tolerance alone.
    Example:
        >>> flambeau.testing.assert_close(flambeau.tensor([1.0]), flambeau.tensor([1.0 + 1e-7]))
    """
    rules = _Rules(
        allow_subclasses,
        rtol,
        atol,
        equal_nan,
        check_device,
        check_dtype,
        check_layout,
        check_stride,
    )
    try:
        _compare(actual, expected, rules)
    except _Mismatch as mismatch:
        text = mismatch.text
        if mismatch.path:
            text += "\n\nThe failure occurred for item " + "".join(
                f"[{key!r}]" for key in mismatch.path
            )
        raise AssertionError(msg(text) if callable(msg) else msg or text) from None


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """assert_close for whatever makes a tensor, without regard to dtypes. Deprecated in torch."""
    warnings.warn("assert_allclose: use assert_close", FutureWarning, stacklevel=2)
    actual, expected = flambeau.as_tensor(actual), flambeau.as_tensor(expected)
    if rtol is None and atol is None:
        rtol, atol = _Rules(*[True, None, None, True] + [False] * 4).tolerances(
            actual.dtype, expected.dtype
        )
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )
