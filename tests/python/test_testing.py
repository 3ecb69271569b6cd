"""flambeau.testing: what assert_close takes, refuses and says; make_tensor."""

import re

import numpy as np
import pytest

import flambeau as torch
from flambeau.testing import assert_allclose, assert_close, make_tensor

ONES = torch.ones(2)


@pytest.mark.parametrize(
    "actual, expected, options",
    [
        (ONES, ONES + 1e-6, {}),
        (ONES, ONES.double(), {"check_dtype": False}),
        (ONES.bfloat16(), ONES.bfloat16() * 1.01, {}),
        (1.0, 1.0 + 1e-8, {}),
        (1, 1.0, {"check_dtype": False}),
        ([1, ONES], [1, ONES], {}),
        ((1,), [1], {}),
        ({"a": ONES, "b": None}, {"b": None, "a": ONES}, {}),
        (torch.tensor(float("nan")), torch.tensor(float("nan")), {"equal_nan": True}),
        (torch.tensor([float("inf")]), torch.tensor([float("inf")]), {}),
        (np.ones(2), np.ones(2), {}),
        (ONES, ONES + 0.1, {"rtol": 0, "atol": 0.2}),
        (ONES.clone().requires_grad_(), ONES, {}),
        (torch.empty(0), torch.empty(0), {}),
    ],
    ids=str,
)
def test_close(actual, expected, options):
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    "actual, expected, options, message",
    [
        (
            ONES,
            torch.tensor([1.0, 2.0]),
            {},
            "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
            "Greatest absolute difference: 1.0 at index (1,) (up to 1e-05 allowed)\n"
            "Greatest relative difference: 0.5 at index (1,) (up to 1.3e-06 allowed)",
        ),
        (
            torch.tensor([1, 1]),
            torch.tensor([1, 4]),
            {},
            "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\n"
            "Greatest absolute difference: 3 at index (1,)\nGreatest relative difference: 0.75 at index (1,)",
        ),
        (
            torch.tensor(1.0),
            torch.tensor(2.0),
            {},
            "Scalars are not close!\n\nExpected 2.0 but got 1.0.\nAbsolute difference: 1.0 (up to 1e-05 allowed)",
        ),
        (
            1,
            2,
            {},
            "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5",
        ),
        (ONES, torch.ones(3), {}, "'shape' do not match: torch.Size([2]) != torch.Size([3])"),
        (ONES, ONES.double(), {}, "'dtype' do not match: torch.float32 != torch.float64"),
        (ONES, ONES.to("meta"), {}, "'device' do not match: cpu != meta"),
        (
            torch.ones(2, 2),
            torch.ones(2, 2).t(),
            {"check_stride": True},
            "'stride()' do not match: (2, 1) != (1, 2)",
        ),
        (True, False, {}, "Booleans mismatch: True is not False"),
        (1, 1.0, {}, "The (d)types do not match"),
        (None, ONES, {}, "None mismatch"),
        ([1], [1, 2], {}, "length of the sequences mismatch: 1 != 2"),
        ({"a": 1}, {"b": 1}, {}, "Missing keys in the actual mapping: ['b']"),
        ([1, {"k": ONES}], [1, {"k": ONES + 1}], {}, "The failure occurred for item [1]['k']"),
        (torch.tensor(float("nan")), torch.tensor(float("nan")), {}, "Scalars are not close!"),
        (
            torch.tensor([float("inf")]),
            torch.tensor([-float("inf")]),
            {},
            "Mismatched elements: 1 / 1 (100.0%)",
        ),
        (
            torch.tensor([1 + 1j]),
            torch.tensor([1 - 1j]),
            {},
            "Greatest absolute difference: 2.0 at index (0,)",
        ),
        (ONES, ONES + 1, {"msg": "mine"}, "mine"),
        (ONES, ONES + 1, {"msg": lambda text: "see: " + text}, "see: Tensor-likes are not close!"),
    ],
    ids=str,
)
def test_not_close(actual, expected, options, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        assert_close(actual, expected, **options)


def test_what_cannot_be_compared():
    for pair in [("a", "a"), (ONES, [1, 1]), ({1}, {1}), (1, torch.tensor(1))]:
        with pytest.raises(TypeError):
            assert_close(*pair)
    with pytest.raises(ValueError, match="rtol and atol go together, atol is missing"):
        assert_close(ONES, ONES, rtol=1e-3)
    with pytest.raises(TypeError, match="allow_subclasses"):
        assert_close(torch.nn.Parameter(ONES), ONES, allow_subclasses=False)


def test_allclose_is_deprecated():
    with pytest.warns(FutureWarning):
        assert_allclose(ONES, [1.0, 1.0])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError):
        assert_allclose(ONES, [1.0, 1.1])


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "complex64"]
)
def test_make_tensor(dtype):
    dtype = getattr(torch, dtype)
    x = make_tensor((20, 5), dtype=dtype)
    assert x.dtype is dtype and x.shape == (20, 5) and x.is_contiguous()
    y = make_tensor(4, 3, dtype=dtype, noncontiguous=True)
    assert y.shape == (4, 3) and not y.is_contiguous()
    if not dtype.is_complex and dtype is not torch.bool:
        z = make_tensor(50, dtype=dtype, low=2, high=4)
        assert z.double().min() >= 2 and z.double().max() <= 4
    assert (make_tensor(100, dtype=dtype, exclude_zero=True) != 0).all()
    assert make_tensor(dtype=dtype).shape == ()


def test_make_tensor_refuses():
    with pytest.raises(ValueError, match="requires_grad"):
        make_tensor(2, dtype=torch.int64, requires_grad=True)
    with pytest.raises(ValueError, match="low must be below high, got 3 and 2"):
        make_tensor(2, dtype=torch.float32, low=3, high=2)
    assert make_tensor(2, dtype=torch.float32, requires_grad=True).requires_grad
