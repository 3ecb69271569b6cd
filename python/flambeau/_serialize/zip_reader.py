"""Reads the directory of a zip file and refuses files that contradict themselves.

Only what torch.save and its relatives write is read: one root folder, records that are stored or
deflated, no encryption, one disk.
"""

import zlib
from struct import unpack

from flambeau import _C

_LARGE = 0xFFFFFFFF
_STORED, _DEFLATED = 0, 8


def _damaged(text):
    return RuntimeError(f"load: damaged zip file: {text}")


class Record:
    """Where a record's bytes lie."""

    __slots__ = ("name", "offset", "packed", "size", "crc", "method", "header")

    def __init__(self, name, offset, packed, size, crc, method, header):
        self.name, self.offset, self.packed, self.size = name, offset, packed, size
        self.crc, self.method, self.header = crc, method, header


class ZipReader:
    """The records of a zip file by name, without the root folder."""

    def __init__(self, source):
        self._source = source
        start, size, count = _end_of_directory(source)
        records = list(_directory(source, start, size, count))
        for record in records:
            _find_bytes(source, record, start)
        _refuse_overlap(records, start)
        self.root = records[0].name.partition("/")[0] if records else ""
        self.records = {}
        for record in records:
            root, _, name = record.name.partition("/")
            if root != self.root or not name:
                raise _damaged(f"record {record.name!r} lies outside the folder {self.root!r}")
            if name in self.records:
                raise _damaged(f"two records are named {record.name!r}")
            self.records[name] = record

    def __contains__(self, name):
        return name in self.records

    def record(self, name):
        """The place of a record."""
        try:
            return self.records[name]
        except KeyError:
            raise RuntimeError(f"load: the file has no record {self.root}/{name}") from None

    def read(self, name):
        """The bytes of a record, checked against its checksum."""
        record = self.record(name)
        data = self._source.read(record.offset, record.packed)
        if record.method == _DEFLATED:
            data = _inflated(data, record)
        # 0 stands where the writer computed no checksums.
        if record.crc and _C._crc32(data) != record.crc:
            raise _damaged(f"the checksum of {record.name} is wrong")
        return data

    def storage(self, name):
        """The bytes of a record as a storage."""
        record = self.record(name)
        if record.method == _STORED:
            return self._source.storage(record.offset, record.size)
        from flambeau.storage import UntypedStorage

        return UntypedStorage(self.read(name))


def _inflated(data, record):
    try:
        # One byte more than promised shows a record that unpacks to more.
        out = zlib.decompressobj(-15).decompress(data, record.size + 1)
    except zlib.error as error:
        raise _damaged(f"{record.name}: {error}") from None
    if len(out) != record.size:
        raise _damaged(f"{record.name} must unpack to {record.size} bytes")
    return out


def _end_of_directory(source):
    """(start, size, count) of the directory."""
    tail = source.read(max(source.size - 65557, 0), min(source.size, 65557))
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 22:
        raise _damaged("it has no directory; is it complete?")
    disk, first, here, count, size, start, comment = unpack("<HHHHIIH", tail[at + 4 : at + 22])
    if disk or first or here != count or at + 22 + comment != len(tail):
        raise _damaged("its end record is wrong")
    end = source.size - len(tail) + at
    locator = tail[at - 20 : at] if at >= 20 else b""
    if locator[:4] == b"PK\x06\x07":
        end = unpack("<IQI", locator[4:])[1]
        if end + 56 > source.size:
            raise _damaged("its 64-bit end record lies outside the file")
        long = source.read(end, 56)
        if long[:4] != b"PK\x06\x06":
            raise _damaged("its 64-bit end record is missing")
        wide = unpack("<QQQQ", long[24:56])[1:]
        for short, value, mark in zip(
            (count, size, start), wide, (0xFFFF, _LARGE, _LARGE), strict=True
        ):
            if short not in (value, mark):
                raise _damaged(f"its end records disagree, {short} and {value}")
        count, size, start = wide
    if start + size != end:
        raise _damaged(f"its directory must end at byte {end}, got {start} + {size}")
    return start, size, count


def _directory(source, start, size, count):
    data, at = source.read(start, size), 0
    for _ in range(count):
        if data[at : at + 4] != b"PK\x01\x02" or at + 46 > size:
            raise _damaged(f"its directory must hold {count} records")
        fields = unpack("<HHHHHHIIIHHHHHII", data[at + 4 : at + 46])
        flags, method, crc, packed, plain, n, extra, comment = (
            *fields[2:4],
            *fields[6:12],
        )
        name, header = data[at + 46 : at + 46 + n], fields[15]
        wide = _wide_fields(data[at + 46 + n : at + 46 + n + extra], (plain, packed, header))
        plain, packed, header = wide
        at += 46 + n + extra + comment
        if at > size or flags & 1 or method not in (_STORED, _DEFLATED):
            raise _damaged(f"record {name!r} is encrypted, of method {method}, or cut off")
        if method == _STORED and packed != plain:
            raise _damaged(f"record {name!r} is stored, but {plain} bytes take {packed}")
        try:
            yield Record(name.decode(), 0, packed, plain, crc, method, header)
        except UnicodeDecodeError:
            raise _damaged(f"record {name!r} has no readable name") from None
    if at != size:
        raise _damaged(f"its directory has {size - at} bytes too many")


def _wide_fields(extra, values):
    """The values, those that are marked replaced by the entry's 64-bit field."""
    if _LARGE not in values:
        return values
    at = 0
    while at + 4 <= len(extra):
        kind, n = unpack("<HH", extra[at : at + 4])
        if kind == 1 and at + 4 + n <= len(extra):
            marked = values.count(_LARGE)
            if n < 8 * marked:
                break
            wide = iter(unpack(f"<{marked}Q", extra[at + 4 : at + 4 + 8 * marked]))
            return tuple(next(wide) if v == _LARGE else v for v in values)
        at += 4 + n
    raise _damaged("a 64-bit size is missing")


def _find_bytes(source, record, directory):
    """Sets where the record's bytes begin, from its own header."""
    at, name = record.header, record.name.encode()
    if at + 30 + len(name) > directory:
        raise _damaged(f"the header of {record.name} lies outside the records")
    header = source.read(at, 30 + len(name))
    if header[:4] != b"PK\x03\x04":
        raise _damaged(f"byte {at} must begin the header of {record.name}")
    n, extra = unpack("<HH", header[26:30])
    if header[30:] != name or n != len(name):
        raise _damaged(f"byte {at} begins another record than {record.name}")
    record.offset = at + 30 + n + extra
    if record.offset + record.packed > directory:
        raise _damaged(
            f"{record.name} must end before byte {directory}, got {record.offset} + {record.packed}"
        )


def _refuse_overlap(records, directory):
    end, last = 0, None
    for record in sorted(records, key=lambda r: r.header):
        if record.header < end:
            raise _damaged(f"{record.name} begins inside {last}")
        end, last = record.offset + record.packed, record.name
