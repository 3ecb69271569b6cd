"""The file format before PyTorch 1.6: pickles one after the other, then the bytes of each storage."""

import pickle
from pickle import UnpicklingError

from flambeau._serialize import saver, storages
from flambeau._serialize.storages import storage_fields, typed

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


def save(obj, out, pickle_module, pickle_protocol):
    """Writes an object with `out.write`."""

    def persistent_id(part):
        return ("storage", part.kind, part.key, part.location, part.numel(), None)

    data, parts = saver.pickled(obj, pickle_module, pickle_protocol, persistent_id)
    system = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for header in (MAGIC_NUMBER, PROTOCOL_VERSION, system):
        out.write(pickle.dumps(header, pickle_protocol))
    out.write(data)
    out.write(pickle.dumps([part.key for part in parts], pickle_protocol))
    for part in parts:
        out.write(part.numel().to_bytes(8, "little"))
        out.write(part.data())


class Reader:
    """Reads one object; `next_pickle(at, persistent)` gives (object, where the next one begins)."""

    def __init__(self, source, next_pickle, restore):
        self._source, self._next, self._restore = source, next_pickle, restore
        self._storages = {}  # key -> (storage, itemsize)
        self._views = {}
        self._pending = []  # (key, storage on the CPU) whose bytes follow

    def load(self):
        """(object, end of it in the source)."""
        at = self._header()
        value, at = self._next(at, self._persistent)
        keys, at = self._next(at, _refuse)
        if not isinstance(keys, list) or not all(isinstance(k, str) for k in keys):
            raise UnpicklingError("load: damaged file: the list of storages is none")
        for key in keys:
            if key not in self._storages:
                raise RuntimeError(f"load: the bytes of an unknown storage {key!r:.80} follow")
            at = self._read(key, at)
        missing = self._storages.keys() - set(keys)
        if missing:
            raise RuntimeError(f"load: the file lacks the bytes of the storages {sorted(missing)}")
        return value, at

    def _header(self):
        magic, at = self._next(0, _refuse)
        if magic != MAGIC_NUMBER:
            raise RuntimeError("load: the file was not written by save: its magic number is wrong")
        version, at = self._next(at, _refuse)
        if version != PROTOCOL_VERSION:
            raise RuntimeError(f"load: file format {version!r:.40} is not known")
        system, at = self._next(at, _refuse)
        if not isinstance(system, dict) or not system.get("little_endian", True):
            raise RuntimeError("load: files of big-endian machines are not read in this format")
        return at

    def _persistent(self, pid):
        if isinstance(pid, tuple) and pid[:1] == ("module",):
            return pid[1]  # a class whose source text once stood beside it
        view = pid[5] if isinstance(pid, tuple) and len(pid) == 6 else None
        dtype, key, location, nbytes = storage_fields(pid, 6)
        if key not in self._storages:
            if nbytes > self._source.size:
                raise RuntimeError(f"load: a storage of {nbytes} bytes in {self._source.size}")
            fresh = storages.UntypedStorage(nbytes, device="cpu")
            placed = self._restore(fresh, location)
            self._storages[key] = fresh, placed, dtype.itemsize if dtype else 1
        placed = self._storages[key][1]
        return typed(placed if view is None else self._view(placed, dtype, view), dtype)

    def _view(self, storage, dtype, view):
        """A part of a storage, which once was a storage of its own."""
        if not (isinstance(view, tuple) and len(view) == 3):
            raise UnpicklingError(f"load: damaged pickle: a part of a storage {view!r:.80}")
        key, offset, size = view
        item = dtype.itemsize if dtype else 1
        begin, end = int(offset) * item, (int(offset) + int(size)) * item
        if not 0 <= begin <= end <= storage.nbytes():
            raise RuntimeError(f"load: bytes {begin} to {end} of a storage of {storage.nbytes()}")
        if key not in self._views:
            self._views[key] = storage[begin:end]
        return self._views[key]

    def _read(self, key, at):
        fresh, placed, item = self._storages[key]
        numel = int.from_bytes(self._source.read(at, 8), "little", signed=True)
        if numel * item != fresh.nbytes():
            raise RuntimeError(
                f"load: storage {key!r:.80} must have {fresh.nbytes()} bytes, got {numel} elements"
            )
        self._source.read_into(at + 8, fresh)
        if placed is not fresh:
            placed.copy_(storages.moved(fresh, placed.device))
        return at + 8 + fresh.nbytes()


def _refuse(pid):
    raise UnpicklingError(f"load: damaged file: a persistent id {pid!r:.80} in the header")
