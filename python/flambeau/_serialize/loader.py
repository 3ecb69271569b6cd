"""Loads objects from an opened file: the zip format, the older one, by either unpickler."""

import importlib
import io
import sys

from flambeau._serialize import legacy
from flambeau._serialize.names import SafeNames, torch_module
from flambeau._serialize.storages import storage_fields, typed
from flambeau._serialize.unpickler import Unpickler
from flambeau._serialize.zip_reader import ZipReader
from flambeau.storage import UntypedStorage


def load_zip(source, options, f):
    """The object in a zip file."""
    records = ZipReader(source)
    if "constants.pkl" in records:
        return _load_script(f, options)
    if "data.pkl" not in records:
        raise RuntimeError("load: the zip file has no data.pkl; save did not write it")
    pickle = records.read("data.pkl")
    storages = _ZipStorages(records, options)
    return _next_pickle(pickle, options)(0, storages.find)[0]


def load_legacy(source, options):
    """(object, where it ends) in a file of the older format."""
    data = source.whole()
    return legacy.Reader(source, _next_pickle(data, options), options.restore).load()


def _load_script(f, options):
    if options.weights_only:
        raise RuntimeError(
            "load: the file is a TorchScript archive, which is code; "
            "load it with jit.load or weights_only=False"
        )
    return importlib.import_module("flambeau.jit").load(f)


class _ZipStorages:
    """Storages by persistent id, each made once."""

    def __init__(self, records, options):
        self._records, self._options = records, options
        self._known = {}  # key -> storage
        order = records.read("byteorder") if "byteorder" in records else b""
        if order not in (b"little", b"big", b""):
            raise RuntimeError(f"load: unknown byte order {order[:20]!r}")
        self._swap = order == b"big" or not order and options.big_endian

    def find(self, pid):
        """The typed storage that a persistent id names."""
        dtype, key, location, nbytes = storage_fields(pid, 5)
        storage = self._known.get(key)
        if storage is None:
            storage = self._options.restore(self._read(key, dtype, nbytes, location), location)
            self._known[key] = storage
        elif nbytes > storage.nbytes():
            raise RuntimeError(f"load: storage {key} has {storage.nbytes()} bytes, not {nbytes}")
        return typed(storage, dtype)

    def _read(self, key, dtype, nbytes, location):
        if location == "meta":
            return UntypedStorage(nbytes, device="meta")
        name = f"data/{key}"
        size = self._records.record(name).size
        if size != nbytes:
            raise RuntimeError(f"load: storage {key} must have {nbytes} bytes, got {size}")
        if self._options.restore.skips_data(location):
            return UntypedStorage(nbytes, device="meta")
        if self._options.skip_data:
            return UntypedStorage(nbytes, device="cpu")
        storage = self._records.storage(name)
        if self._swap and dtype is not None:
            storage = storage.clone()
            storage.byteswap(dtype)
        return storage


# ---- the two unpicklers, as next_pickle(at, persistent) -> (object, end) ----


def _next_pickle(data, options):
    if options.weights_only:
        return _safely(data, SafeNames(), options.pickle_arguments["encoding"])
    return _freely(data, options)


def _safely(data, names, encoding="utf-8"):
    def next_pickle(at, persistent):
        unpickler = Unpickler(data, names, persistent, encoding)
        unpickler.at = at
        return unpickler.load(), unpickler.at

    return next_pickle


def _freely(data, options):
    class Free(options.pickle_module.Unpickler):
        def find_class(self, module, name):
            return super().find_class(_our_module(module), name)

        def persistent_load(self, pid):
            return self.persistent(pid)

    stream = io.BytesIO(data)

    def next_pickle(at, persistent):
        stream.seek(at)
        unpickler = Free(stream, **options.pickle_arguments)
        unpickler.persistent = persistent
        return unpickler.load(), stream.tell()

    return next_pickle


def _our_module(module):
    """flambeau.nn for torch.nn, where we have it."""
    if module != "torch" and not module.startswith("torch."):
        return module
    ours = "flambeau" + module[len("torch") :]
    if ours in sys.modules:
        return ours
    try:
        importlib.import_module(ours)
    except ModuleNotFoundError as error:
        if not ours.startswith(error.name or " "):
            raise
        return module
    return ours


# ---- what would be refused ----


class _Inert:
    """Stands for every object while only names are looked at."""

    def append(self, item):
        pass

    extend = update = append

    def __setitem__(self, key, value):
        pass


class _Recorder(SafeNames):
    """Calls nothing and remembers the names that are not safe."""

    def __init__(self):
        super().__init__()
        self.refused = set()

    def find(self, module, name):
        try:
            super().find(module, name)
        except Exception:
            self.refused.add(f"{torch_module(module)}.{name}")
        return _Inert()

    def call(self, function, args):
        return _Inert()

    def new(self, cls, args, kwargs):
        return _Inert()

    def build(self, target, state):
        pass

    def is_trusted(self, target):
        return type(target) is _Inert


def unsafe_globals(source):
    """The names in a file that are not safe, sorted."""
    names = _Recorder()
    if source.read(0, min(source.size, 4)) == b"PK\x03\x04":
        pickles, data = 1, ZipReader(source).read("data.pkl")
    else:
        pickles, data = 5, source.whole()
    next_pickle, at = _safely(data, names), 0
    for _ in range(pickles):
        _, at = next_pickle(at, lambda pid: _Inert())
    return sorted(names.refused)
