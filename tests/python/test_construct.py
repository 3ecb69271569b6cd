"""Tensors from Python data and back."""

import copy
import math

import pytest

import flambeau as torch


@pytest.mark.parametrize(
    "data, dtype, shape",
    [
        (1, torch.int64, ()),
        (1.5, torch.float32, ()),
        (True, torch.bool, ()),
        (1j, torch.complex64, ()),
        ([1, 2.5, True], torch.float32, (3,)),
        ([True, 2], torch.int64, (2,)),
        ([[], []], torch.float32, (2, 0)),
        ([[1, 2], [3, 4]], torch.int64, (2, 2)),
        (range(3), torch.int64, (3,)),
        ([torch.tensor(1), 2.0], torch.float32, (2,)),
    ],
)
def test_dtype_and_shape_follow_the_data(data, dtype, shape):
    t = torch.tensor(data)
    assert t.dtype is dtype and t.shape == shape


def test_values_come_back():
    nested = [[1.5, -2.0], [0.0, math.inf]]
    assert torch.tensor(nested).tolist() == nested
    assert torch.tensor([1 + 2j]).tolist() == [1 + 2j]
    assert torch.tensor(2**64 - 1, dtype=torch.uint64).item() == 2**64 - 1
    assert torch.tensor([2]).bool().tolist() == [True]


@pytest.mark.parametrize(
    "data, options, error",
    [
        ([[1, 2], [3]], {}, ValueError),
        ([1, [2]], {}, TypeError),
        ([1, "a"], {}, TypeError),
        ("a", {}, TypeError),
        (None, {}, RuntimeError),
        (2**70, {}, ValueError),
        ([300], {"dtype": torch.uint8}, RuntimeError),
        ([math.nan], {"dtype": torch.int32}, RuntimeError),
        ([1j], {"dtype": torch.float32}, TypeError),
        (1, {"requires_grad": True}, RuntimeError),
    ],
)
def test_what_is_no_tensor(data, options, error):
    with pytest.raises(error):
        torch.tensor(data, **options)


def test_negative_ints_wrap_in_small_unsigned_types():
    assert torch.tensor([-1], dtype=torch.uint8).item() == 255
    assert torch.tensor([-1], dtype=torch.uint16).item() == 65535


def test_tensor_copies_and_as_tensor_does_not():
    x = torch.tensor([1.0, 2.0])
    assert torch.as_tensor(x) is x
    with pytest.warns(UserWarning, match="clone"):
        y = torch.tensor(x)
    assert y.data_ptr() != x.data_ptr()


def test_legacy_constructors():
    assert torch.Tensor(2, 3).shape == (2, 3)
    assert torch.Tensor([1, 2]).dtype is torch.float32
    assert torch.Tensor().shape == (0,)
    assert torch.LongTensor([1.5]).tolist() == [1]
    assert torch.LongTensor(2).dtype is torch.int64
    assert isinstance(torch.tensor([1]), torch.LongTensor)
    assert not isinstance(torch.tensor([1.0]), torch.LongTensor)
    with pytest.raises(TypeError):
        torch.LongTensor(torch.tensor([1.0]))


def test_new_tensor_keeps_the_dtype():
    assert torch.zeros(1, dtype=torch.float64).new_tensor([1, 2]).dtype is torch.float64


def test_conversions_to_python():
    assert float(torch.tensor(2)) == 2.0 and int(torch.tensor(2.7)) == 2
    assert [1, 2, 3][torch.tensor(1)] == 2
    assert bool(torch.tensor([0.0])) is False
    assert f"{torch.tensor(1.5):.3f}" == "1.500"
    assert len(torch.zeros(3, 2)) == 3
    for call, error in (
        (lambda: bool(torch.zeros(2)), RuntimeError),
        (lambda: float(torch.zeros(2)), ValueError),
        (lambda: len(torch.tensor(1)), TypeError),
        (lambda: [1][torch.tensor(0.0)], TypeError),
        (lambda: torch.zeros(2).item(), RuntimeError),
    ):
        with pytest.raises(error):
            call()


def test_deepcopy_copies_memory_once():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.detach()
    a, b = copy.deepcopy([y, y.view(2)])
    assert a.data_ptr() == b.data_ptr() != y.data_ptr()
    assert copy.deepcopy(x).requires_grad
    with pytest.raises(RuntimeError):
        copy.deepcopy(x * 2)


def test_data_shares_memory_and_counts_its_own_version():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    before = x._version
    x.data.mul_(2)
    assert x.tolist() == [2, 4] and x._version == before
    x.data = torch.zeros(3)
    assert x.shape == (3,) and x.requires_grad


def test_finfo_and_iinfo():
    assert torch.finfo(torch.float32).eps == 2.0**-23
    assert torch.finfo(torch.bfloat16).max == 3.3895313892515355e38
    assert torch.finfo().dtype == "float32"
    assert (torch.iinfo(torch.int8).min, torch.iinfo(torch.uint8).max) == (-128, 255)
    with pytest.raises(TypeError):
        torch.finfo(torch.int32)


def test_memory_is_reported():
    from flambeau import memory

    before = memory.stats()["live_bytes"]
    x = torch.zeros(1 << 18)
    assert memory.stats()["live_bytes"] - before >= 1 << 20
    memory.reset_peak()
    del x
    assert memory.stats()["peak_bytes"] >= before + (1 << 20)


def test_fake_device_runs_out_of_memory():
    from flambeau import memory

    memory.set_fake_limit(1 << 20)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 20, device="fake")
    finally:
        memory.set_fake_limit(1 << 30)
