"""Saving and loading objects in PyTorch's file formats: torch.save and torch.load.

A file is a zip archive with one pickle and the bytes of every storage. Loading runs no code that
the file brings along unless weights_only=False allows it.
"""

import enum
import mmap as _mmap
import os
import pickle
import tempfile
from collections.abc import Callable
from contextlib import contextmanager

import flambeau
from flambeau._serialize import legacy, names, source
from flambeau._serialize.destination import is_path, output
from flambeau._serialize.loader import load_legacy, load_zip, unsafe_globals
from flambeau._serialize.saver import pickled
from flambeau._serialize.storages import (
    Restorer,
    default_restore_location,
    location_tag,
    register_package,
    validate_cuda_device,
)
from flambeau._serialize.zip_writer import ALIGNMENT, ZipWriter

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "validate_cuda_device",
]

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER, PROTOCOL_VERSION = legacy.MAGIC_NUMBER, legacy.PROTOCOL_VERSION


MAP_LOCATION = Callable | flambeau.device | str | dict | None


class SourceChangeWarning(Warning):
    """The source of a class differs from the one that a file was written with."""


class LoadEndianness(enum.Enum):
    """The byte order of files that do not name theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Options:
    endianness = None
    checksums = True
    skip_data = False


# ---- saving ----


def save(
    obj,
    f,
    pickle_module=pickle,
    pickle_protocol=DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
) -> None:
    """Saves an object to a path or a file object.

    Of every storage only the part that the object's tensors reach is written; tensors that share
    memory share it again when loaded. An existing file is replaced at one go when everything is
    written, so a mapping of the old one stays valid and a crash leaves one of the two.
    """
    root = _archive_name(f)
    if _use_new_zipfile_serialization:
        with output(f) as out:
            _save_zip(obj, out, root, pickle_module, pickle_protocol, _disable_byteorder_record)
    else:
        with output(f) as out:
            legacy.save(obj, out, pickle_module, pickle_protocol)


def _save_zip(obj, out, root, pickle_module, protocol, no_byteorder):
    def persistent_id(part):
        return ("storage", part.kind, part.key, part.location, part.numel())

    data, parts = pickled(obj, pickle_module, protocol, persistent_id)
    writer = ZipWriter(out.write, root, _Options.checksums)
    writer.add("data.pkl", data)
    writer.add(".format_version", b"1")
    writer.add(".storage_alignment", b"%d" % ALIGNMENT)
    if not no_byteorder:
        writer.add("byteorder", b"little")
    for part in parts:
        empty = _Options.skip_data and part.location != "meta"
        writer.add(f"data/{part.key}", bytes(part.high - part.low) if empty else part.data())
    writer.add("version", b"3\n")
    writer.add(".data/serialization_id", writer.content_id().encode())
    writer.finish()


def _archive_name(f):
    stem = os.path.splitext(os.path.basename(os.fspath(f)))[0] if is_path(f) else ""
    return stem if stem and stem.isascii() else "archive"


# ---- loading ----


def load(
    f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args
):
    """What `save` wrote, from a path or a file object.

    Only names on a list of safe ones may stand in the file: tensors, containers, numbers, text,
    dates, paths, NumPy's numbers and arrays, dataclasses and enumerations that the program has
    imported. `weights_only=False` lifts that and runs whatever the file says. `map_location` moves
    storages: a device for all, a dict of devices, or function(storage, location). Large files are
    mapped into memory instead of read; `mmap` forces or forbids that.
    """
    weights_only = _decide_weights_only(weights_only, pickle_module)
    options = _LoadOptions(
        Restorer(map_location), weights_only, pickle_module or pickle, pickle_load_args
    )
    with _input(f) as file:
        data = source.Source(file, mmap)
        if data.size == 0:
            raise EOFError("load: the file is empty")
        magic = data.read(0, min(data.size, 4))
        if magic == b"PK\x03\x04":
            return load_zip(data, options, f)
        if magic[:2] == b"\x1f\x8b" or magic == b"PK\x05\x06":
            raise RuntimeError("load: the file is compressed or an empty archive")
        value, end = load_legacy(data, options)
        if not is_path(f):
            data.move_to(end)
        return value


class _LoadOptions:
    def __init__(self, restore, weights_only, pickle_module, pickle_arguments):
        self.restore, self.weights_only = restore, weights_only
        self.pickle_module = pickle_module
        self.pickle_arguments = {"encoding": "utf-8", **pickle_arguments}
        self.skip_data, self.big_endian = (
            _Options.skip_data,
            _Options.endianness is LoadEndianness.BIG,
        )


def _decide_weights_only(weights_only, pickle_module):
    if weights_only is None:
        if _flag("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD") or pickle_module is not None:
            return _flag("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
        return True
    if _flag("TORCH_FORCE_WEIGHTS_ONLY_LOAD"):
        weights_only = True
    if weights_only and pickle_module is not None:
        raise RuntimeError("load: pickle_module cannot be given with weights_only=True")
    return bool(weights_only)


def _flag(name):
    return os.environ.get(name, "0").lower() in ("1", "y", "yes", "true")


@contextmanager
def _input(f):
    if is_path(f):
        with open(f, "rb") as file:
            yield file
        return
    for method in ("read", "seek", "tell"):
        if not hasattr(f, method):
            raise AttributeError(
                f"load: f must be a path or have {method}(), got {type(f).__name__}"
            )
    yield f


# ---- the list of safe names ----


def add_safe_globals(safe_globals) -> None:
    """Lets `load` use these classes and functions, or (object, "module.name") pairs."""
    names.trusted().update(names.key_of(item) for item in safe_globals)


def get_safe_globals():
    """What was added to the list of safe names."""
    return list(names.trusted().values())


def clear_safe_globals() -> None:
    """Takes everything added off the list again."""
    names.trusted().clear()


class safe_globals:
    """Context in which `load` may use these classes and functions as well."""

    def __init__(self, safe_globals):
        self.safe_globals = safe_globals

    def __enter__(self):
        self._before = dict(names.trusted())
        add_safe_globals(self.safe_globals)

    def __exit__(self, type, value, tb):
        names.trusted().clear()
        names.trusted().update(self._before)


def get_unsafe_globals_in_checkpoint(f):
    """The names in a file that `load` would refuse; nothing of it is run."""
    with _input(f) as file:
        return unsafe_globals(source.Source(file, False))


# ---- options ----


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether `save` computes checksums; without them other zip programs complain."""
    _Options.checksums = compute_crc32


def get_crc32_options() -> bool:
    """Does `save` compute checksums?"""
    return _Options.checksums


def set_default_load_endianness(endianness) -> None:
    """The byte order of files that do not name theirs."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("set_default_load_endianness: endianness must be LoadEndianness or None")
    _Options.endianness = endianness


def get_default_load_endianness():
    """The byte order of files that do not name theirs."""
    return _Options.endianness


class set_default_mmap_options:
    """Sets the flags of mappings, mmap.MAP_PRIVATE or MAP_SHARED; as a context for its time only."""

    def __init__(self, flags: int):
        if flags not in (_mmap.MAP_PRIVATE, _mmap.MAP_SHARED):
            raise ValueError(
                "set_default_mmap_options: flags must be mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"got {flags}"
            )
        self.prev, source.mapping_flags = source.mapping_flags, flags

    def __enter__(self):
        return None

    def __exit__(self, exc_type, exc_value, traceback):
        source.mapping_flags = self.prev


def get_default_mmap_options() -> int:
    """The flags of mappings."""
    return source.mapping_flags


class skip_data:
    """Context in which `save` writes zeros for the bytes of storages and `load` reads none."""

    def __init__(self, materialize_fake_tensors: bool = False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self._before, _Options.skip_data = _Options.skip_data, True

    def __exit__(self, type, value, tb):
        _Options.skip_data = self._before


# ---- names that pickles and old programs use ----


class StorageType:
    """A storage type by its name."""

    def __init__(self, name: str):
        self._dtype = getattr(flambeau, name).dtype

    @property
    def dtype(self):
        return self._dtype

    def __str__(self):
        return f"StorageType(dtype={self.dtype})"


def normalize_storage_type(storage_type):
    """The storage class of main memory for any storage class."""
    return getattr(flambeau, storage_type.__name__)


def storage_to_tensor_type(storage):
    """The tensor class that belongs to a typed storage."""
    return getattr(flambeau, type(storage).__name__.replace("Storage", "Tensor"))


def mkdtemp():
    """Context with a new folder that is removed at its end."""
    return tempfile.TemporaryDirectory()


def _get_layout(name):
    return names.layout(name)
