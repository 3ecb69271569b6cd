"""NumPy arrays and tensors on the same memory."""

import subprocess
import sys

import pytest

import flambeau as torch

np = pytest.importorskip("numpy")

DTYPES = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", DTYPES)
def test_both_ways_share_memory(name):
    a = np.array([[1, 0, 1], [0, 1, 1]]).astype(name)
    t = torch.from_numpy(a)
    assert t.dtype is getattr(torch, name) and t.shape == (2, 3)
    assert t.data_ptr() == a.ctypes.data
    back = t.numpy()
    assert back.dtype == a.dtype and back.ctypes.data == a.ctypes.data
    a[0, 0] = 0
    assert t.tolist()[0][0] == 0 == back[0, 0]


def test_strides_carry_over():
    a = np.arange(12.0).reshape(3, 4)[:, ::2]
    t = torch.from_numpy(a)
    assert t.stride() == (4, 2) and t.tolist() == a.tolist()
    assert torch.from_numpy(np.asfortranarray(np.ones((2, 3)))).stride() == (1, 2)


def test_memory_lives_as_long_as_the_tensor():
    t = torch.from_numpy(np.full(1000, 7.0))
    assert t.sum().item() == 7000
    array = torch.full((1000,), 3.0).numpy()
    assert array.sum() == 3000


@pytest.mark.parametrize(
    "array, error",
    [
        ([1], TypeError),
        (np.ones(2)[::-1], ValueError),
        (np.array(["a"]), TypeError),
        (np.ones(2, dtype=">f4"), ValueError),
    ],
)
def test_what_cannot_be_shared(array, error):
    with pytest.raises(error):
        torch.from_numpy(array)


def test_read_only_memory_warns():
    a = np.ones(2)
    a.flags.writeable = False
    with pytest.warns(UserWarning, match="read-only"):
        torch.from_numpy(a)


def test_tensor_that_requires_grad_is_refused():
    x = torch.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    with pytest.raises(RuntimeError, match="detach"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [0, 0]
    with pytest.raises(TypeError, match="bfloat16"):
        torch.zeros(2, dtype=torch.bfloat16).numpy()


def test_array_protocol():
    x = torch.tensor([1.0, 2.0])
    assert np.asarray(x).ctypes.data == x.data_ptr()
    assert np.array(x).ctypes.data != x.data_ptr()
    assert np.asarray(x, dtype=np.int64).tolist() == [1, 2]
    assert type(x + np.ones(2)) is torch.Tensor


def test_numpy_scalars_and_arrays_as_data():
    assert torch.tensor(np.float32(2)).dtype is torch.float32
    assert torch.tensor([np.float64(2)]).dtype is torch.float64
    assert torch.tensor(np.ones((2, 2), dtype=np.int8)).dtype is torch.int8
    assert torch.tensor([np.ones(2), np.ones(2)]).shape == (2, 2)
    a = np.ones(2)
    assert torch.as_tensor(a).data_ptr() == a.ctypes.data != torch.tensor(a).data_ptr()


def test_frombuffer():
    data = bytearray(b"\x01\x02\x03\x04")
    t = torch.frombuffer(data, dtype=torch.uint8, offset=1, count=2)
    data[1] = 9
    assert t.tolist() == [9, 3]
    with pytest.raises(ValueError):
        torch.frombuffer(data, dtype=torch.int16, offset=1)


def test_dlpack_both_ways():
    a = np.arange(4.0)
    t = torch.from_dlpack(a)
    assert t.data_ptr() == a.ctypes.data and t.tolist() == [0, 1, 2, 3]
    back = np.from_dlpack(torch.tensor([1, 2]))
    assert back.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="no __dlpack__"):
        torch.from_dlpack(3)


def test_import_needs_no_numpy():
    code = (
        "import sys, flambeau as t; x = t.zeros(2) + 1; print(x);"
        "print(sorted({'numpy', 'inspect', 'dataclasses', 'unittest'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.endswith("[]\n"), out.stderr


def test_dlpack_names_its_devices():
    kinds = torch.utils.dlpack.DLDeviceType
    assert kinds.kDLCPU == torch.ones(1).__dlpack_device__()[0] == 1 and kinds.kDLCUDA == 2
