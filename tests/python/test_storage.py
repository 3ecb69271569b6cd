"""Storages: bytes and elements, files as memory, byte orders, copies and pickles."""

import copy
import pickle
import struct

import pytest

import flambeau as torch


def test_both_kinds_see_one_memory():
    x = torch.tensor([1.0, 2.0])
    typed, untyped = x.storage(), x.untyped_storage()
    assert typed.tolist() == [1, 2] and len(untyped) == 8 and typed.untyped() is untyped
    typed[0] = 5
    assert x.tolist() == [5, 2]
    untyped.fill_(0)
    assert typed.tolist() == [0, 0] and typed.resizable() and typed.filename is None


def test_conversions():
    x = torch.tensor([1.5, 2.5]).storage()
    assert x.int().tolist() == [1, 2] and x.int().dtype is torch.int32
    assert x.type() == "torch.FloatStorage" and x.cpu() is x
    bytes_ = torch.UntypedStorage([1, 2])
    assert bytes_.float().tolist() == [1, 2] and bytes_.type() == "torch.storage.UntypedStorage"
    assert len(bytes_.new()) == 0


def test_from_buffer_in_both_byte_orders():
    for order, mark in (("little", "<"), ("big", ">")):
        data = struct.pack(mark + "3h", 1, -2, 3)
        storage = torch.ShortStorage.from_buffer(data, order, 2, 2)
        assert storage.tolist() == [-2, 3] and storage.dtype is torch.int16


def test_a_shared_file_takes_what_is_written(tmp_path):
    path = tmp_path / "memory"
    storage = torch.IntStorage.from_file(path, shared=True, size=3)
    storage[1] = 7
    assert path.read_bytes() == struct.pack("3i", 0, 7, 0) and storage.filename == str(path)
    private = torch.IntStorage.from_file(path, size=2)
    private[0] = 9
    assert private.tolist() == [9, 7] and storage.tolist() == [0, 7, 0]
    with pytest.raises(RuntimeError, match="has 12 bytes, not 16"):
        torch.IntStorage.from_file(path, size=4)


def test_copies_and_pickles():
    x = torch.tensor([1.0, 2.0, 3.0])
    for storage in (x.storage(), x.untyped_storage()):
        for twin in (
            copy.copy(storage),
            copy.deepcopy(storage),
            pickle.loads(pickle.dumps(storage)),
        ):
            assert type(twin) is type(storage) or twin.dtype is storage.dtype
            assert twin.tolist() == storage.tolist() and twin.data_ptr() != storage.data_ptr()


def test_growing_a_view_leaves_the_others_their_memory():
    whole = torch.tensor([[1.0], [2.0]])
    first, second = whole
    first.resize_(3)
    assert whole.tolist() == [[1.0], [2.0]] and second.tolist() == [2.0]
    assert first.shape == (3,) and first[0].item() == 1
    second.resize_(300)
    assert second[0].item() == 2 and whole.tolist() == [[1.0], [2.0]]
    row = whole[1]
    torch.add(torch.ones(40), 1, out=row)
    assert row.tolist() == [2.0] * 40 and whole.tolist() == [[1.0], [2.0]]


def test_a_storage_in_use_keeps_its_size():
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="tensors use this storage of 12 bytes"):
        x.untyped_storage().resize_(0)
    assert x.tolist() == [1.0, 1.0, 1.0]
