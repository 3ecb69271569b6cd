"""Writes zip files of uncompressed records whose bytes begin at multiples of 64, as torch.save does."""

import hashlib
from struct import pack

from flambeau import _C

ALIGNMENT = 64

_UTF8_AND_DESCRIPTOR = 0x0808
_LARGE = 0xFFFFFFFF  # the mark for "see the 64-bit field", and the first number that needs one


class ZipWriter:
    """Records one after the other; `write` takes the bytes of the file in order."""

    def __init__(self, write, root, checksums=True):
        self._write, self._root, self._checksums = write, root, checksums
        self._at, self._entries = 0, []

    def add(self, name, data):
        """A record with the bytes of `data`, which is anything with a buffer."""
        data = memoryview(data).cast("B") if len(data) else b""
        name = f"{self._root}/{name}".encode()
        size, offset = len(data), self._at
        crc = _C._crc32(data) if self._checksums else 0
        large = size >= _LARGE
        extra = pack("<HHQQ", 1, 16, size, size) if large else b""
        padding = -(offset + 30 + len(name) + len(extra) + 4) % ALIGNMENT
        extra += pack("<2sH", b"FB", padding) + b"Z" * padding
        # Sizes and checksum follow the bytes, so the bytes are never read twice.
        sizes = (_LARGE, _LARGE) if large else (0, 0)
        fields = (0, _UTF8_AND_DESCRIPTOR, 0, 0, 0, 0, *sizes, len(name), len(extra))
        self._put(b"PK\x03\x04" + pack("<HHHHHIIIHH", *fields) + name + extra)
        self._put(data)
        self._put(b"PK\x07\x08" + pack("<IQQ" if large else "<III", crc, size, size))
        self._entries.append((name, crc, size, offset))

    def finish(self):
        """Writes the directory of the records."""
        start = self._at
        for entry in self._entries:
            self._put(_directory_entry(*entry))
        size, count, end = self._at - start, len(self._entries), self._at
        fields = (44, 0x031E, 45, 0, 0, count, count, size, start)
        self._put(b"PK\x06\x06" + pack("<QHHIIQQQQ", *fields))
        self._put(b"PK\x06\x07" + pack("<IQI", 0, end, 1))
        short = min(count, 0xFFFF)
        fields = (0, 0, short, short, min(size, _LARGE), min(start, _LARGE), 0)
        self._put(b"PK\x05\x06" + pack("<HHHHIIH", *fields))

    def content_id(self):
        """40 digits that two files with equal records share."""
        text = repr([entry[:3] for entry in self._entries]).encode()
        number = int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")
        return f"{number:040d}"

    def _put(self, data):
        self._write(data)
        self._at += len(data)


def _directory_entry(name, crc, size, offset):
    wide = [n for n in (size, size, offset) if n >= _LARGE]
    extra = pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    size, offset = min(size, _LARGE), min(offset, _LARGE)
    fields = (0, 0, _UTF8_AND_DESCRIPTOR, 0, 0, 0, crc, size, size)
    fields += (len(name), len(extra), 0, 0, 0, 0, offset)
    return b"PK\x01\x02" + pack("<HHHHHHIIIHHHHHII", *fields) + name + extra
