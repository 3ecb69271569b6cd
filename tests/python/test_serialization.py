"""Files: what is written, what is read back, and that nothing hostile runs or crashes."""

import collections
import copy
import dataclasses
import datetime
import enum
import io
import mmap
import os
import pathlib
import pickle
import pickletools
import struct
import zipfile

import pytest

import flambeau as torch
from flambeau import nn, serialization


def values(n, dtype=None):
    return torch.tensor(list(range(n)), dtype=dtype or torch.float32)


def written(obj, **options):
    out = io.BytesIO()
    torch.save(obj, out, **options)
    return out.getvalue()


def again(obj, **options):
    return torch.load(io.BytesIO(written(obj)), **options)


def same_memory(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


# ---- what is written ----


def test_only_the_reachable_part_of_a_storage_is_written():
    x = values(10**5)
    assert len(written(x[:10])) < 4096
    data = written([x[:10], x[5:20]])
    assert len(data) < 8192
    a, b = torch.load(io.BytesIO(data))
    assert a.tolist() == list(range(10)) and b.tolist() == list(range(5, 20))
    assert same_memory(a, b)
    a[5] = -1.0
    assert b[0].item() == -1


def test_a_storage_reached_whole_keeps_offsets():
    x = values(10)
    base, view = again([x, x[2:5]])
    assert view.storage_offset() == 2 and same_memory(base, view)


def test_two_dtypes_on_one_storage_share_it_again():
    x = values(8)
    bits = torch._C._tensor_on(x.untyped_storage(), torch.int32, 5, (2,), (1,))
    a, b = again([x[4:], bits])
    assert same_memory(a, b) and b.dtype is torch.int32
    assert a.tolist() == [4, 5, 6, 7] and b.tolist() == bits.tolist()
    assert a.untyped_storage().nbytes() == 16


def test_tensors_made_anew_by_each_pickling_are_saved():
    data = written(MakesTensors())
    with serialization.safe_globals([MakesTensors]):
        assert torch.load(io.BytesIO(data)).part.tolist() == [0, 1]


class MakesTensors:
    def __getstate__(self):
        return {"part": values(1000)[:2]}


def test_records_are_stored_at_multiples_of_64_and_any_zip_program_reads_them(tmp_path):
    torch.save({"a": values(3), "b": values(70, torch.int64)}, tmp_path / "model.pt")
    data = (tmp_path / "model.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "model.pt") as z:
        assert z.testzip() is None
        assert z.namelist()[0] == "model/data.pkl"
        for info in z.infolist():
            name, extra = struct.unpack("<HH", data[info.header_offset + 26 :][:4])
            assert (info.header_offset + 30 + name + extra) % 64 == 0
            assert info.compress_type == zipfile.ZIP_STORED


def test_names_in_the_file_are_torchs_even_beside_text_that_looks_like_them():
    text = "cflambeau._utils\n_rebuild_tensor_v2\n"
    data = written([text, values(2), text + "!"])
    assert b"ctorch._utils\n_rebuild_tensor_v2\n" in data
    loaded = torch.load(io.BytesIO(data))
    assert loaded[0] == text and loaded[2] == text + "!" and loaded[1].tolist() == [0, 1]


def test_equal_objects_give_equal_files():
    assert written({"a": values(3)}) == written({"a": values(3)})


def test_sizes_beyond_32_bits_are_written_and_read():
    from flambeau._serialize import zip_reader, zip_writer

    entry = zip_writer._directory_entry(b"archive/data/0", 7, 5 << 32, 6 << 32)
    (record,) = zip_reader._directory(Bytes(entry), 0, len(entry), 1)
    assert (record.size, record.packed, record.header) == (5 << 32, 5 << 32, 6 << 32)


class Bytes:
    def __init__(self, data):
        self.data, self.size = data, len(data)

    def read(self, offset, count):
        return self.data[offset : offset + count]


# ---- round trips ----

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"


@pytest.mark.parametrize("name", DTYPES.split() + ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("zipped", [True, False])
def test_every_dtype(name, zipped):
    dtype = getattr(torch, name)
    x = torch.tensor([0, 1, 1, 0], dtype=dtype)
    y = torch.load(io.BytesIO(written(x, _use_new_zipfile_serialization=zipped)))
    assert y.dtype is dtype and y.tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()


@pytest.mark.parametrize("zipped", [True, False])
def test_parameters_attributes_and_strides(zipped):
    p = nn.Parameter(values(6))
    p.note = "kept"
    frozen = nn.Parameter(values(2), requires_grad=False)
    turned = values(6).view(2, 3).t()
    data = written([p, frozen, turned, p], _use_new_zipfile_serialization=zipped)
    a, b, c, d = torch.load(io.BytesIO(data))
    assert type(a) is nn.Parameter and a.requires_grad and a.note == "kept" and a is d
    assert type(b) is nn.Parameter and not b.requires_grad
    assert c.stride() == (1, 3) and c.tolist() == turned.tolist()


def test_empty_and_scalar_tensors():
    a, b, c = again(
        [torch.tensor([]), torch.tensor([], dtype=torch.int64).view(0, 3), values(3)[3:]]
    )
    assert a.shape == (0,) and b.shape == (0, 3) and b.dtype is torch.int64 and c.shape == (0,)
    assert again(torch.tensor(2.5)).item() == 2.5


@pytest.mark.parametrize("protocol", range(2, 6))
def test_every_pickle_protocol(protocol):
    obj = {"x": values(3), "t": (1, 2.5, None, True), "s": {1}, "b": b"ab", "n": -(2**70)}
    loaded = torch.load(io.BytesIO(written(obj, pickle_protocol=protocol)))
    assert loaded.pop("x").tolist() == [0, 1, 2]
    obj.pop("x")
    assert loaded == obj


def test_state_dicts_keep_their_metadata():
    state = nn.Linear(2, 3).state_dict()
    loaded = again(state)
    assert type(loaded) is collections.OrderedDict and loaded._metadata == state._metadata


def test_modules_pickle_copy_and_save_whole():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    for twin in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        again(model, weights_only=False),
    ):
        assert twin[0].weight.tolist() == model[0].weight.tolist()
        assert not same_memory(twin[0].weight, model[0].weight)
    assert b"ctorch.nn.modules.linear\nLinear\n" in written(model)


def test_shared_parameters_stay_shared_in_pickles():
    x = values(4)
    a, b = pickle.loads(pickle.dumps([x, x[1:]]))
    assert a.tolist() == [0, 1, 2, 3] and b.tolist() == [1, 2, 3]
    a, b = copy.deepcopy([x, x[1:]])
    assert same_memory(a, b)


def test_several_objects_in_one_file_object():
    out = io.BytesIO()
    for i in range(3):
        torch.save(values(i + 1), out, _use_new_zipfile_serialization=False)
    out.seek(0)
    assert [len(torch.load(out)) for _ in range(3)] == [1, 2, 3]


def test_a_file_object_that_does_not_begin_at_zero():
    source = io.BytesIO(b"header" + written(values(3)))
    source.seek(6)
    assert torch.load(source).tolist() == [0, 1, 2]


class Color(enum.Enum):
    RED = "r"


@dataclasses.dataclass
class Config:
    width: int
    names: list


@dataclasses.dataclass(frozen=True)
class Frozen:
    depth: int


def test_ordinary_content_loads_in_safe_mode():
    np = pytest.importorskip("numpy")
    obj = {
        "config": Config(3, ["a"]),
        "frozen": Frozen(2),
        "color": Color.RED,
        "path": pathlib.PurePosixPath("a/b"),
        "time": datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
        "delta": datetime.timedelta(3),
        "count": collections.Counter("aab"),
        "default": collections.defaultdict(list, {1: [2]}),
        "deque": collections.deque([1, 2], 5),
        "scalar": np.float64(0.5),
        "bytes": bytearray(b"ab"),
        "rest": (1 + 2j, slice(1, 2), range(3), {1}, frozenset([2])),
    }
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    loaded = again({**obj, "array": array})
    assert (loaded.pop("array") == array).all()
    assert loaded == obj and type(loaded["scalar"]) is np.float64


def test_dtypes_devices_and_sizes():
    obj = [torch.float64, torch.device("cpu"), torch.Size([2, 3]), torch.strided]
    assert again(obj) == obj


# ---- where storages go ----


def test_map_location_in_all_forms():
    data = written({"x": values(3)})
    seen = []

    def keep(storage, location):
        seen.append((location, storage.nbytes()))
        return storage

    for place in ("cpu", torch.device("cpu"), {"cpu": "cpu"}, {"cuda:0": "cpu"}, keep, None):
        assert torch.load(io.BytesIO(data), map_location=place)["x"].tolist() == [0, 1, 2]
    assert seen == [("cpu", 12)]
    assert torch.load(io.BytesIO(data), map_location="meta")["x"].is_meta
    with pytest.raises(TypeError, match="map_location"):
        torch.load(io.BytesIO(data), map_location=3)
    with pytest.raises(RuntimeError, match="nowhere"):
        torch.load(io.BytesIO(data), map_location="nowhere")


def test_errors_of_a_map_location_function_pass_through():
    def fails(storage, location):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        torch.load(io.BytesIO(written(values(2))), map_location=fails)


def test_a_mapped_file_is_shared_until_written(tmp_path):
    path = tmp_path / "a.pt"
    torch.save(values(1000), path)
    before = path.read_bytes()
    x = torch.load(path, mmap=True)
    x[0] = 7.0
    assert x[0].item() == 7 and path.read_bytes() == before
    # Saving over the file leaves the mapping of the old one alone.
    torch.save(values(3), path)
    assert x[999].item() == 999 and len(torch.load(path)) == 3


def test_mapping_flags(tmp_path):
    path = tmp_path / "a.pt"
    torch.save(values(16), path)
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        assert serialization.get_default_mmap_options() == mmap.MAP_SHARED
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with pytest.raises(ValueError, match="MAP_PRIVATE"):
        serialization.set_default_mmap_options(77)


# ---- files on disk ----


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    torch.save(values(3), path)
    path.chmod(0o640)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        torch.save([values(3), lambda: None], path)
    assert torch.load(path).tolist() == [0, 1, 2]
    torch.save(values(4), path)
    assert os.stat(path).st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.pt"]


def test_a_failed_save_leaves_no_file(tmp_path):
    with pytest.raises((AttributeError, pickle.PicklingError)):
        torch.save(lambda: None, tmp_path / "a.pt")
    assert os.listdir(tmp_path) == []


def test_wrong_places():
    with pytest.raises(RuntimeError, match="/no/where does not exist"):
        torch.save(values(1), "/no/where/a.pt")
    with pytest.raises(FileNotFoundError):
        torch.load("/no/where/a.pt")
    with pytest.raises(AttributeError, match="write"):
        torch.save(values(1), 3)
    with pytest.raises(AttributeError, match="read"):
        torch.load(3)


def test_a_symbolic_link_keeps_pointing(tmp_path):
    torch.save(values(1), tmp_path / "real.pt")
    (tmp_path / "link.pt").symlink_to(tmp_path / "real.pt")
    torch.save(values(2), tmp_path / "link.pt")
    assert (tmp_path / "link.pt").is_symlink() and len(torch.load(tmp_path / "real.pt")) == 2


# ---- hostile and damaged files ----


class Runs:
    def __init__(self, function, *args):
        self.reduced = function, args

    def __reduce__(self):
        return self.reduced


class Plain:
    pass


def hostile(folder):
    big = torch._C._tensor_on
    return [
        (Runs(os.mkdir, folder), "mkdir"),
        (Runs(eval, "1"), "eval"),
        (Runs(getattr, values(1), "data"), "getattr"),
        ([Plain()], "Plain"),
        (print, "print"),
        (Runs(big, 1), "_tensor_on"),
        (nn.Linear(1, 1), "Linear"),
    ]


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("protocol", [2, 4])
def test_unsafe_names_are_refused_and_named(tmp_path, number, zipped, protocol):
    obj, name = hostile(str(tmp_path / "made"))[number]
    data = written(obj, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
    with pytest.raises(pickle.UnpicklingError, match=name):
        torch.load(io.BytesIO(data))
    assert os.listdir(tmp_path) == []
    unsafe = serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
    assert any(name in n for n in unsafe)
    assert os.listdir(tmp_path) == []


def test_safe_globals_come_and_go():
    data = written(Plain())
    assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data)) == [f"{__name__}.Plain"]
    with serialization.safe_globals([Plain]):
        assert type(torch.load(io.BytesIO(data))) is Plain
        assert serialization.get_safe_globals() == [Plain]
    with pytest.raises(pickle.UnpicklingError):
        torch.load(io.BytesIO(data))
    serialization.add_safe_globals([(Plain, f"{__name__}.Plain")])
    assert type(torch.load(io.BytesIO(data))) is Plain
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []


STORAGE = (
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x03tQ"
)
END = b"\x89ccollections\nOrderedDict\n)RtR."


def archive(pickle_bytes):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", pickle_bytes)
        z.writestr("archive/data/0", struct.pack("<3f", 1, 2, 3))
        z.writestr("archive/version", "3\n")
    return io.BytesIO(out.getvalue())


def number(n):
    return pickle.dumps(n, 2)[2:-1]


def tensor_pickle(offset, size, stride):
    tuples = b"".join(b"(" + b"".join(map(number, t)) + b"t" for t in (size, stride))
    return STORAGE + number(offset) + tuples + END


def test_the_hand_made_archive_is_sound():
    assert torch.load(archive(tensor_pickle(1, (2,), (1,)))).tolist() == [2, 3]


@pytest.mark.parametrize(
    "offset, size, stride",
    [
        (0, (4,), (1,)),
        (2, (2,), (1,)),
        (-1, (1,), (1,)),
        (0, (-1,), (1,)),
        (2, (3,), (-1,)),
        (0, (2, 2), (1,)),
        (0, (2**62, 2**62), (0, 0)),
        (0, (2**63,), (0,)),
        (2**70, (1,), (1,)),
        (0, (2,), (2**62,)),
        (0, (3.0,), (1,)),
        (0, ("3",), (1,)),
        (None, (1,), (1,)),
    ],
)
def test_a_tensor_outside_its_storage_is_refused(offset, size, stride):
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        torch.load(archive(tensor_pickle(offset, size, stride)))


@pytest.mark.parametrize(
    "text",
    [
        b"\x80\x02Nb.",  # state for None
        b"\x80\x02ctorch\nTensor\nN}X\x01\x00\x00\x00aNs\x86b.",  # state for a class
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}X\x01\x00\x00\x00aNs\x86b.",  # for a function
        b"\x80\x02ctorch\nFloatStorage\nJ\xff\xff\xff\x7f\x85R.",  # a call of a constant
        b"\x80\x02c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.",
        b"\x80\x02c__builtin__\nset\nX\x01\x00\x00\x00a\x85R.",
        b"\x80\x02}K\x01K\x02sa.",
        b"\x80\x02K\x01(t",
        b"\x80\x02\x8b\xff\xff\xff\x7f.",
        b"\x80\x02X\xff\xff\xff\xffa.",
        b"\x80\x09N.",
        b"\x80\x02" + b"(" * 1000 + b".",
        b"\x80\x02]" + b"\x85" * 100000 + b"0.",
    ],
)
def test_damaged_pickles_are_refused(text):
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        torch.load(archive(text))


def test_every_truncation_and_many_mutations_raise_or_load():
    import random

    state = {"a": values(5), "b": nn.Parameter(values(3)), "c": [1, "x", (2.5, None)]}
    allowed = (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, MemoryError)
    rng = random.Random(0)
    for zipped in (True, False):
        data = written(state, _use_new_zipfile_serialization=zipped)
        for end in range(0, len(data), 7):
            with pytest.raises(allowed):
                torch.load(io.BytesIO(data[:end]))
        for _ in range(1500):
            damaged = bytearray(data)
            for _ in range(rng.randint(1, 3)):
                damaged[rng.randrange(len(data))] = rng.randrange(256)
            try:
                torch.load(io.BytesIO(damaged))
            except allowed:
                pass


def test_scripts_and_compressed_files_are_named():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/constants.pkl", b"")
    out.seek(0)
    with pytest.raises(RuntimeError, match="TorchScript"):
        torch.load(out)
    with pytest.raises(RuntimeError, match="compressed"):
        torch.load(io.BytesIO(b"\x1f\x8b" + bytes(20)))
    with pytest.raises(EOFError, match="empty"):
        torch.load(io.BytesIO())


def test_deflated_archives_load():
    stored = zipfile.ZipFile(io.BytesIO(written(values(100))))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name in stored.namelist():
            z.writestr(name, stored.read(name))
    out.seek(0)
    assert torch.load(out).tolist() == list(range(100))


def test_files_of_the_other_byte_order():
    stored = zipfile.ZipFile(io.BytesIO(written(values(3))))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name in stored.namelist():
            data = stored.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            elif "/data/" in name:
                data = struct.pack(">3f", 0, 1, 2)
            z.writestr(name, data)
    out.seek(0)
    assert torch.load(out).tolist() == [0, 1, 2]


def test_skip_data_writes_zeros_and_reads_none():
    with serialization.skip_data():
        data = written(values(3))
        assert torch.load(io.BytesIO(data)).shape == (3,)
    assert torch.load(io.BytesIO(data)).tolist() == [0, 0, 0]


def test_options():
    serialization.set_crc32_options(False)
    try:
        data = written(values(3))
        assert not serialization.get_crc32_options()
    finally:
        serialization.set_crc32_options(True)
    assert torch.load(io.BytesIO(data)).tolist() == [0, 1, 2]
    assert serialization.get_default_load_endianness() is None
    with pytest.raises(TypeError, match="LoadEndianness"):
        serialization.set_default_load_endianness("little")


def test_weights_only_excludes_a_pickle_module():
    with pytest.raises(RuntimeError, match="pickle_module"):
        torch.load(io.BytesIO(written(1)), pickle_module=pickle, weights_only=True)
    assert type(torch.load(io.BytesIO(written(Plain())), pickle_module=pickle)) is Plain


# ---- whole modules and functions ----


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(3, 4)
        self.b = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.GELU("tanh"))
        self.lstm = torch.nn.LSTM(4, 2, bidirectional=True)
        self.tied, self.weight = self.a, self.a.weight
        self.register_buffer("kept", torch.ones(2))
        self.register_buffer("passing", torch.zeros(1), persistent=False)
        self.register_parameter("absent", None)
        self.plain, self.act = torch.arange(3), torch.relu

    def forward(self, x):
        return self.lstm(self.act(self.b(self.tied(x))))[0] * self.kept.sum()


def saved(model, **options):
    file = io.BytesIO()
    torch.save(model, file, **options)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize(
    "again",
    [
        saved,
        lambda m: saved(m, _use_new_zipfile_serialization=False),
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: pickle.loads(pickle.dumps(m, protocol=2)),
        copy.deepcopy,
    ],
)
def test_whole_modules_come_back(again):
    net = Net().eval()
    net.a.weight.requires_grad_(False)
    new = again(net)
    assert repr(new) == repr(net) and not new.training and list(vars(new)) == list(vars(net))
    assert new.tied is new.a and new.weight is new.a.weight and new.act is torch.relu
    assert new.absent is None and new.plain.tolist() == [0, 1, 2]
    assert "passing" in dict(new.named_buffers()) and "passing" not in new.state_dict()
    for (name, p), (other, q) in zip(net.named_parameters(), new.named_parameters(), strict=True):
        assert name == other and type(p) is type(q) and p.requires_grad == q.requires_grad
    x = torch.rand(5, 3)
    assert torch.equal(new(x), net(x))


def test_functions_stand_in_files_under_torchs_names():
    file = io.BytesIO()
    torch.save({"f": torch.relu, "g": torch.nn.functional.gelu, "m": torch.Tensor.add}, file)
    data = zipfile.ZipFile(file).read("archive/data.pkl")
    names = [
        (op.name, arg)
        for op, arg, _ in pickletools.genops(data)
        if op.name in ("GLOBAL", "BINUNICODE")
    ]
    assert ("GLOBAL", "torch._C _VariableFunctionsClass") in names and (
        "BINUNICODE",
        "relu",
    ) in names
    assert ("GLOBAL", "torch._C._nn gelu") in names and ("GLOBAL", "torch._C TensorBase") in names
    file.seek(0)
    found = torch.load(file, weights_only=False)
    assert found["f"] is torch.relu and found["g"] is torch.nn.functional.gelu
    assert found["m"](torch.ones(1), 1).item() == 2
