"""safetensors files: what is written, what is read back, damaged headers."""

import json

import pytest

import flambeau as torch
from flambeau import safetensors

DTYPES = "bool uint8 int8 int16 uint16 float16 bfloat16 int32 uint32 float32 float64 int64 uint64"


def file(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_round_trip_of_every_dtype(tmp_path):
    tensors = {n: torch.tensor([0, 1, 1], dtype=getattr(torch, n)) for n in DTYPES.split()}
    tensors["complex"] = torch.tensor([1 + 2j])
    tensors["empty"] = torch.tensor([]).view(0, 3)
    tensors["turned"] = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
    tensors["part"] = torch.tensor([1.0, 2.0, 3.0])[1:]
    safetensors.save_file(tensors, tmp_path / "a.safetensors", {"format": "pt"})
    loaded = safetensors.load_file(tmp_path / "a.safetensors")
    assert loaded.keys() == tensors.keys()
    for name, x in tensors.items():
        assert loaded[name].tolist() == x.tolist() and loaded[name].dtype is x.dtype
        assert loaded[name].shape == x.shape


def test_bytes_are_as_the_format_says():
    data = safetensors.save({"a": torch.tensor([1.0, 2.0])}, {"k": "v"})
    size = int.from_bytes(data[:8], "little")
    assert size % 8 == 0
    assert json.loads(data[8 : 8 + size]) == {"__metadata__": {"k": "v"}, "a": entry()}
    assert data[8 + size :] == bytes.fromhex("0000803f00000040")


def test_safe_open_reads_single_tensors(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.save_file({"a": torch.tensor([1.0]), "b": torch.tensor([2])}, path, {"k": "v"})
    with safetensors.safe_open(path, "pt") as f:
        assert sorted(f.keys()) == ["a", "b"] and f.metadata() == {"k": "v"}
        assert f.get_tensor("b").tolist() == [2]
        with pytest.raises(KeyError, match="'c'"):
            f.get_tensor("c")


EIGHT = bytes(8)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        (1 << 60).to_bytes(8, "little") + b"{}",
        file(b"\xff"),
        file(b"[1]"),
        file(b"{"),
        file(b"[" * 100000),
        file(b'{"a":1,"a":2}'),
        file({"a": entry()}),
        file({"a": entry()}, bytes(9)),
        file({"a": entry(offsets=(4, 12))}, bytes(12)),
        file({"a": entry(), "b": entry()}, EIGHT),
        file({"a": entry(shape=(3,))}, EIGHT),
        file({"a": entry(shape=(-2,))}, EIGHT),
        file({"a": entry(shape=(2.0,))}, EIGHT),
        file({"a": entry(shape=(True, 2))}, EIGHT),
        file({"a": entry(shape=(2**62, 2**62, 0), offsets=(0, 8))}, EIGHT),
        file({"a": entry(dtype="F33")}, EIGHT),
        file({"a": entry(dtype=[])}, EIGHT),
        file({"a": {"dtype": "F32", "shape": [2]}}, EIGHT),
        file({"a": {**entry(), "more": 1}}, EIGHT),
        file({"__metadata__": {"a": 1}}),
    ],
)
def test_damaged_files_are_refused(data):
    with pytest.raises(ValueError, match="safetensors"):
        safetensors.load(data)
