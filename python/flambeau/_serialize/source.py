"""Random access to what is loaded from: a path or a file object, read or mapped."""

import io
import mmap
import os

from flambeau import _C
from flambeau.storage import UntypedStorage

# Below this a file is read at one go: cheaper than a mapping and its page faults.
_SMALL = 16 << 20

# MAP_PRIVATE: writing to a loaded tensor never reaches the file.
mapping_flags = mmap.MAP_PRIVATE


class Source:
    """The bytes of a file from where it stands to its end."""

    def __init__(self, file, map_it=None):
        self._file, self._start = file, file.tell()
        self.size = max(file.seek(0, io.SEEK_END) - self._start, 0)
        file.seek(self._start)
        if map_it is None:
            map_it = self.size > _SMALL and _is_plain(file)
        self._mapped = bool(map_it and self.size)
        # The whole file, if it is in memory, and where in it this source begins.
        self._data, self._base = None, 0
        if self._mapped:
            self._data = mmap.mmap(file.fileno(), 0, flags=mapping_flags)
            self._base = self._start
        elif self.size <= _SMALL:
            self._data = file.read()
            self.size = len(self._data)

    def read(self, offset, count):
        """Exactly `count` bytes."""
        self._check(offset, count)
        if self._data is not None:
            at = self._base + offset
            return self._data[at : at + count]
        self._file.seek(self._start + offset)
        data = self._file.read(count)
        if len(data) != count:
            raise EOFError(f"load: the file ends after {offset + len(data)} of {self.size} bytes")
        return data

    def storage(self, offset, count, alignment=16):
        """`count` bytes as a storage: a part of the mapping if there is one, else a copy.

        Memory that is not aligned for its elements cannot be computed on in place, so it is copied.
        """
        self._check(offset, count)
        at = self._base + offset
        if self._mapped and count and at % alignment == 0:
            part = _C.frombuffer(self._data, dtype=_C.uint8, count=count, offset=at)
            return part.untyped_storage()
        storage = UntypedStorage(count, device="cpu")
        self.read_into(offset, storage)
        return storage

    def whole(self):
        """All bytes: what is in memory already, or a mapping, or a copy."""
        if self._data is None:
            self._data, self._base = self.read(0, self.size), 0
        return self._data if self._base == 0 else self._data[self._base :]

    def read_into(self, offset, storage):
        """Fills a storage with the bytes from `offset` on."""
        self._check(offset, storage.nbytes())
        if storage.nbytes():
            self._read_into(offset, memoryview(storage))

    def move_to(self, offset):
        """Leaves a file object where the next object begins."""
        self._file.seek(self._start + offset)

    def _read_into(self, offset, memory):
        if self._data is not None:
            at = self._base + offset
            memory[:] = memoryview(self._data)[at : at + len(memory)]
            return
        if not hasattr(self._file, "readinto"):
            memory[:] = self.read(offset, len(memory))
            return
        self._file.seek(self._start + offset)
        done = 0
        while done < len(memory):
            got = self._file.readinto(memory[done:])
            if not got:
                raise EOFError(f"load: the file ends after {offset + done} of {self.size} bytes")
            done += got

    def _check(self, offset, count):
        if offset < 0 or count < 0 or offset + count > self.size:
            raise RuntimeError(
                f"load: bytes {offset} to {offset + count} lie outside the file's {self.size}"
            )


def _is_plain(file):
    """Is it an ordinary file on disk, opened by us or the user for reading bytes?"""
    return isinstance(file, (io.BufferedReader, io.FileIO)) and os.path.isfile(file.fileno())
