"""Storages: the bytes behind tensors, and the same bytes seen as elements of one dtype."""

import io
import os

from flambeau import _C


class _Storage:
    """What both kinds of storages answer."""

    is_sparse = is_sparse_csr = is_hpu = False
    filename = None

    def to(self, *, device, non_blocking=False):
        """The storage on another device."""
        device = _C.device(device)
        if device == self.device:
            return self
        return self._like(self._tensor().to(device, non_blocking=non_blocking).untyped_storage())

    def cuda(self, device=None, non_blocking=False):
        """The storage on a GPU."""
        device = "cuda" if device is None else device
        device = _C.device("cuda", device) if isinstance(device, int) else device
        return self.to(device=device, non_blocking=non_blocking)

    def cpu(self):
        return self.to(device="cpu")

    def is_pinned(self, device="cuda"):
        return False


class UntypedStorage(_Storage, _C.StorageBase):
    """Bytes that tensors share."""

    def __repr__(self):
        text = "".join(f" {b}\n" for b in self.tolist())
        return text + f"[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"

    def __iter__(self):
        return iter(self.tolist())

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self._cdata == other._cdata

    __hash__ = object.__hash__

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        known = memo.setdefault("torch", {})
        if self._cdata not in known:
            known[self._cdata] = self.clone()
        return known[self._cdata]

    def __reduce__(self):
        return _load_from_bytes, (_saved(self),)

    def untyped(self):
        return self

    def get_device(self):
        return self.device.index if self.device.index is not None else -1

    def is_shared(self):
        return False

    def new(self):
        """An empty storage on the same device."""
        return type(self)(0, device=self.device)

    def type(self, dtype=None, non_blocking=False):
        """The name of the type, or the bytes as elements of another one."""
        return "torch.storage.UntypedStorage" if dtype is None else self._tensor().type(dtype)

    def _tensor(self):
        return _C._tensor_on(self, _C.uint8, 0, (len(self),), (1,))

    def _like(self, untyped):
        return untyped

    def byteswap(self, dtype):
        """Reverses the bytes of every element in place."""
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        data = memoryview(self).cast("B")
        for i in range(size // 2):
            data[i::size], data[size - 1 - i :: size] = (
                bytes(data[size - 1 - i :: size]),
                bytes(data[i::size]),
            )

    @classmethod
    def from_buffer(cls, buffer, byte_order=None, dtype=_C.uint8, count=-1, offset=0):
        """A copy of a buffer's bytes."""
        data = memoryview(buffer).cast("B")[offset:]
        storage = cls(bytes(data if count < 0 else data[: count * dtype.itemsize]))
        if byte_order == "big" and dtype.itemsize > 1:
            storage.byteswap(dtype)
        return storage

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """A file's bytes as memory: `shared` writes changes back and lets the file grow."""
        import mmap

        flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
        with open(os.open(filename, flags, 0o666), "r+b" if shared else "rb") as f:
            size = os.fstat(f.fileno()).st_size
            if shared and size < nbytes:
                os.ftruncate(f.fileno(), nbytes)
            elif size < nbytes:
                raise RuntimeError(f"from_file: {filename} has {size} bytes, not {nbytes}")
            if nbytes == 0:
                return cls(0)
            flags = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
            memory = mmap.mmap(f.fileno(), nbytes, flags=flags)
        storage = _C.frombuffer(memory, dtype=_C.uint8).untyped_storage()
        storage.filename = os.fspath(filename)
        return storage


_C._set_storage_type(UntypedStorage)


def _saved(storage):
    """The bytes of a storage's own pickle, in torch.save's format."""
    from flambeau.serialization import save

    out = io.BytesIO()
    save(storage, out, _use_new_zipfile_serialization=False)
    return out.getvalue()


def _load_from_bytes(data):
    from flambeau.serialization import load

    return load(io.BytesIO(data), weights_only=False)


class TypedStorage(_Storage):
    """A storage seen as elements of one dtype."""

    dtype = None

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        self.dtype = dtype or type(self).dtype or _C.get_default_dtype()
        if wrap_storage is not None:
            self._untyped_storage = getattr(wrap_storage, "_untyped_storage", wrap_storage)
        elif not args:
            self._untyped_storage = UntypedStorage(0, device=device)
        elif isinstance(args[0], (UntypedStorage, TypedStorage)):
            self._untyped_storage = getattr(args[0], "_untyped_storage", args[0])
        elif isinstance(args[0], int):
            self._untyped_storage = UntypedStorage(args[0] * self.dtype.itemsize, device=device)
        else:
            values = _C.tensor(list(args[0]), dtype=self.dtype, device=device)
            self._untyped_storage = values.untyped_storage()

    def _tensor(self):
        count = self.nbytes() // self.dtype.itemsize
        return _C._tensor_on(self._untyped_storage, self.dtype, 0, (count,), (1,))

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def is_cuda(self):
        return self._untyped_storage.is_cuda

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    def untyped(self):
        return self._untyped_storage

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def size(self):
        return len(self)

    def __len__(self):
        return self.nbytes() // self.dtype.itemsize

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def tolist(self):
        return self._tensor().tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise NotImplementedError("storage: slices are only supported of untyped storages")
        return self._tensor()[index].item()

    def __setitem__(self, index, value):
        self._tensor()[index] = value

    def fill_(self, value):
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        self._tensor().copy_(source._tensor())
        return self

    def resize_(self, size):
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def clone(self):
        return self._with(self._untyped_storage.clone())

    def _with(self, untyped, dtype=None):
        return TypedStorage(wrap_storage=untyped, dtype=dtype or self.dtype)

    def to_dtype(self, dtype):
        return self._with(self._tensor().to(dtype).untyped_storage(), dtype)

    _like = _with

    @classmethod
    def from_buffer(cls, buffer, byte_order=None, count=-1, offset=0, dtype=None):
        """A copy of a buffer's elements."""
        dtype = dtype or cls.dtype or _C.get_default_dtype()
        untyped = UntypedStorage.from_buffer(buffer, byte_order, dtype, count, offset)
        return cls(wrap_storage=untyped, dtype=dtype)

    @classmethod
    def from_file(cls, filename, shared=False, size=0):
        """A file's bytes as memory for `size` elements; see UntypedStorage.from_file."""
        dtype = cls.dtype or _C.get_default_dtype()
        untyped = UntypedStorage.from_file(filename, shared, size * dtype.itemsize)
        return cls(wrap_storage=untyped, dtype=dtype)

    @property
    def filename(self):
        return self._untyped_storage.filename

    def resizable(self):
        return self._untyped_storage.resizable()

    def is_shared(self):
        return self._untyped_storage.is_shared()

    def get_device(self):
        return self._untyped_storage.get_device()

    def pickle_storage_type(self):
        return _NAMES[self.dtype]

    _pickle_storage_type = pickle_storage_type

    def type(self, dtype=None):
        return "torch." + _NAMES[self.dtype] if dtype is None else self.to_dtype(dtype)

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self._cdata == other._cdata

    __hash__ = object.__hash__

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        return self._with(self._untyped_storage.__deepcopy__(memo))

    def __reduce__(self):
        return _load_from_bytes, (_saved(self),)

    def __repr__(self):
        text = "".join(f" {v}\n" for v in self.tolist())
        return (
            text
            + f"[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"
        )


_NAMES = {
    _C.float32: "FloatStorage",
    _C.float64: "DoubleStorage",
    _C.float16: "HalfStorage",
    _C.bfloat16: "BFloat16Storage",
    _C.uint8: "ByteStorage",
    _C.int8: "CharStorage",
    _C.int16: "ShortStorage",
    _C.int32: "IntStorage",
    _C.int64: "LongStorage",
    _C.bool: "BoolStorage",
    _C.complex64: "ComplexFloatStorage",
    _C.complex128: "ComplexDoubleStorage",
}


class _LegacyStorage(TypedStorage):
    """torch.FloatStorage and its relatives: typed storages of one dtype."""


def _cast(dtype):
    return lambda self: self._tensor().to(dtype)._typed_storage()


# A dtype whose storages have no type of that name is pickled with its bytes alone.
TypedStorage.NAMES = _NAMES
LEGACY = {
    name: type(name, (_LegacyStorage,), {"dtype": dtype, "__module__": "flambeau"})
    for dtype, name in _NAMES.items()
}
for _dtype, _name in _NAMES.items():
    _short = {"ComplexFloatStorage": "complex_float", "ComplexDoubleStorage": "complex_double"}
    _method = _short.get(_name, _name.removesuffix("Storage").lower())
    setattr(TypedStorage, _method, _cast(_dtype))
    setattr(UntypedStorage, _method, _cast(_dtype))
