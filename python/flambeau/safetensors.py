"""Tensors by name in safetensors files: a JSON header, then their bytes; no code, no references."""

import json
import math
from struct import unpack

from flambeau import _C
from flambeau._serialize.destination import output
from flambeau._serialize.source import Source
from flambeau._serialize.storages import moved

__all__ = ["load", "load_file", "safe_open", "save", "save_file"]

_MAX_HEADER = 100 << 20

_NAMES = {
    _C.bool: "BOOL",
    _C.uint8: "U8",
    _C.int8: "I8",
    _C.float8_e5m2: "F8_E5M2",
    _C.float8_e4m3fn: "F8_E4M3",
    _C.int16: "I16",
    _C.uint16: "U16",
    _C.float16: "F16",
    _C.bfloat16: "BF16",
    _C.int32: "I32",
    _C.uint32: "U32",
    _C.float32: "F32",
    _C.float64: "F64",
    _C.int64: "I64",
    _C.uint64: "U64",
    _C.complex64: "C64",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


# ---- reading ----


def load_file(filename, device="cpu"):
    """All tensors of a file by name. Large files are mapped into memory instead of read."""
    with open(filename, "rb") as file:
        return _File(Source(file)).tensors(device)


def load(data):
    """All tensors of a file whose bytes these are."""
    import io

    return _File(Source(io.BytesIO(data))).tensors("cpu")


class safe_open:
    """A file opened to read some of its tensors."""

    def __init__(self, filename, framework="pt", device="cpu"):
        if framework not in ("pt", "torch", "pytorch", "flambeau"):
            raise ValueError(f"safe_open: framework must be 'pt', got {framework!r}")
        self._device, self._opened = device, open(filename, "rb")
        try:
            self._file = _File(Source(self._opened))
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, type, value, tb):
        self._opened.close()

    def keys(self):
        """The names of the tensors."""
        return list(self._file.entries)

    def metadata(self):
        """The text beside the tensors, or None."""
        return self._file.metadata

    def get_tensor(self, name):
        """One tensor."""
        return self._file.tensor(name, self._device)


class _File:
    """The header of a file, every number in it checked against the file's size."""

    def __init__(self, source):
        self._source = source
        _require(source.size >= 8, "it has {} bytes, its header's size takes 8", source.size)
        (size,) = unpack("<Q", source.read(0, 8))
        _require(
            size <= min(source.size - 8, _MAX_HEADER),
            "a header of {} bytes in {}",
            size,
            source.size,
        )
        self._start = 8 + size
        header = _parsed(source.read(8, size))
        self.metadata = header.pop("__metadata__", None)
        _require(self._is_metadata(), "__metadata__ must map names to text")
        self.entries = {name: _entry(name, value) for name, value in header.items()}
        at = 0
        for name, (_, _, begin, end) in sorted(self.entries.items(), key=lambda e: e[1][2:]):
            _require(begin == at, "{!r} must begin at byte {}, got {}", name, at, begin)
            at = end
        rest = source.size - self._start
        _require(at == rest, "the tensors take {} bytes, {} follow the header", at, rest)

    def _is_metadata(self):
        return self.metadata is None or (
            isinstance(self.metadata, dict)
            and all(isinstance(v, str) for v in self.metadata.values())
        )

    def tensor(self, name, device):
        """One tensor on a device."""
        if name not in self.entries:
            raise KeyError(f"safetensors: the file has no tensor {name!r}")
        dtype, shape, begin, end = self.entries[name]
        storage = self._source.storage(self._start + begin, end - begin, dtype.itemsize)
        strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        tensor = _C._tensor_on(storage, dtype, 0, tuple(shape), tuple(strides))
        return tensor if str(device) == "cpu" else tensor.to(device)

    def tensors(self, device):
        """All tensors by name."""
        return {name: self.tensor(name, device) for name in self.entries}


def _require(condition, text, *values):
    if not condition:
        raise ValueError("safetensors: damaged file: " + text.format(*values))


def _parsed(data):
    def unique(pairs):
        _require(len({key for key, _ in pairs}) == len(pairs), "a name stands twice in the header")
        return dict(pairs)

    try:
        header = json.loads(data.decode(), object_pairs_hook=unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"safetensors: damaged file: the header is no JSON: {error}") from None
    _require(isinstance(header, dict), "the header must be an object")
    return header


def _entry(name, value):
    """(dtype, shape, begin, end) of a tensor."""
    _require(
        isinstance(value, dict) and value.keys() == {"dtype", "shape", "data_offsets"},
        "{!r} must have dtype, shape and data_offsets",
        name,
    )
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    _require(isinstance(dtype, str) and dtype in _DTYPES, "{!r} has dtype {!r}", name, dtype)
    _require(_are_sizes(shape), "{!r} has shape {!r}", name, shape)
    _require(_are_sizes(offsets) and len(offsets) == 2, "{!r} lies at {!r}", name, offsets)
    (begin, end), nbytes = offsets, math.prod(shape) * _DTYPES[dtype].itemsize
    _require(
        end - begin == nbytes,
        "{!r} of shape {} needs {} bytes, lies at {}",
        name,
        shape,
        nbytes,
        offsets,
    )
    return _DTYPES[dtype], shape, begin, end


def _are_sizes(numbers):
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in numbers)


# ---- writing ----


def save_file(tensors, filename, metadata=None) -> None:
    """Writes tensors by name; an existing file is replaced at one go."""
    with output(filename) as out:
        for part in _parts(tensors, metadata):
            out.write(part)


def save(tensors, metadata=None) -> bytes:
    """The bytes of a file with these tensors."""
    return b"".join(_parts(tensors, metadata))


def _parts(tensors, metadata):
    """The header and the bytes of each tensor, the widest elements first: all lie aligned."""
    items = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = dict(metadata)
    for name, tensor in items:
        if tensor.dtype not in _NAMES:
            raise TypeError(
                f"safetensors: {name!r} has dtype {tensor.dtype}, which has no name there"
            )
        end = at + tensor.numel() * tensor.dtype.itemsize
        entry = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape)}
        header[name] = {**entry, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in items:
        yield _bytes_of(tensor.detach())


def _bytes_of(tensor):
    tensor = tensor.contiguous()
    storage = tensor.untyped_storage()
    if storage.device.type != "cpu":
        storage = moved(storage, _C.device("cpu"))
    item = tensor.dtype.itemsize
    begin = tensor.storage_offset() * item
    return memoryview(storage)[begin : begin + tensor.numel() * item]
