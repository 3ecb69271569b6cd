"""A pickle machine that runs no code but what a list of safe names allows.

It differs from pickle.Unpickler in three places: names are looked up in the list alone, nothing
but what the list calls callable is ever called, and state is only put into objects that the
list's classes made.
"""

from collections import deque
from pickle import UnpicklingError
from struct import Struct, error

_MARK = object()
_MAX_LENGTH = 1 << 62

# What operations raise when the bytes make no sense.
_DAMAGE = TypeError, IndexError, AttributeError, ValueError, OverflowError, error

_uint32_at = Struct("<I").unpack_from
_int32, _uint16, _uint32 = Struct("<i").unpack, Struct("<H").unpack, Struct("<I").unpack
_uint64, _float64 = Struct("<Q").unpack, Struct(">d").unpack


class Unpickler:
    """Reads the pickles in `data`, which is bytes or a mapping, one after the other.

    `names` answers find(module, name), call(function, args), new(cls, args, kwargs) and
    build(object, state); `persistent` gives what a persistent id stands for.
    """

    def __init__(self, data, names, persistent, encoding="utf-8"):
        self.at = 0
        self._data, self._names, self._persistent = data, names, persistent
        self._encoding = encoding
        # What `persistent` raised: a user's function may run there, its errors are not the file's.
        self._from_outside = None

    def load(self):
        """The next object; `at` moves behind it."""
        self._stack, self._memo, self._protocol = [], {}, 0
        data, operations = self._data, _OPERATIONS
        start = self.at
        try:
            while True:
                code = data[self.at]
                self.at += 1
                if code == 0x2E:  # "."
                    return self._result()
                operation = operations[code]
                if operation is None:
                    raise self._error(f"unsafe or unknown operation {bytes([code])!r}")
                operation(self)
        except _DAMAGE as problem:
            if problem is self._from_outside:
                raise
            if isinstance(problem, error) or self.at >= len(data):
                raise EOFError(f"load: the pickle ends at byte {len(data)}, too early") from None
            text = f"load: damaged pickle near byte {self.at - start}: {problem}"
            raise UnpicklingError(text) from problem
        except RecursionError:
            raise UnpicklingError("load: damaged pickle: nested too deeply") from None

    def _error(self, text):
        return UnpicklingError(f"load: {text} at byte {self.at - 1} of the pickle")

    def _result(self):
        value = self._pop()
        if self._stack:
            raise self._error("damaged pickle: a stop with objects left over")
        return value

    # ---- reading ----

    def _take(self, count):
        at = self.at
        end = at + count
        if end > len(self._data):
            raise EOFError(f"load: the pickle ends at byte {len(self._data)}, needs {end}")
        self.at = end
        return self._data[at:end]

    def _line(self):
        end = self._data.find(b"\n", self.at)
        if end < 0:
            raise EOFError("load: the pickle ends inside a line")
        line = self._data[self.at : end]
        self.at = end + 1
        return line

    def _long_size(self):
        size = _uint64(self._take(8))[0]
        if size > _MAX_LENGTH:
            raise self._error(f"damaged pickle: a length of {size}")
        return size

    def _pop(self):
        value = self._stack.pop()
        if value is _MARK:
            raise self._error("damaged pickle: a mark where an object must be")
        return value

    def _top(self):
        value = self._stack[-1]
        if value is _MARK:
            raise self._error("damaged pickle: a mark where an object must be")
        return value

    def _pop_mark(self):
        """The objects above the topmost mark."""
        stack = self._stack
        at = len(stack) - 1
        while at >= 0 and stack[at] is not _MARK:
            at -= 1
        if at < 0:
            raise self._error("damaged pickle: no mark to go back to")
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def _push(self, value):
        self._stack.append(value)

    # ---- structure ----

    def _proto(self):
        self._protocol = self._take(1)[0]
        if self._protocol > 5:
            raise self._error(f"pickle protocol {self._protocol} is not known")

    def _frame(self):
        self._long_size()

    def _mark(self):
        self._stack.append(_MARK)

    def _discard(self):
        self._stack.pop()

    def _discard_to_mark(self):
        self._pop_mark()

    def _persistent_id(self):
        pid = self._pop()
        try:
            self._push(self._persistent(pid))
        except Exception as problem:
            self._from_outside = problem
            raise

    # ---- memo ----

    def _get(self, index):
        try:
            self._push(self._memo[index])
        except KeyError:
            text = f"load: damaged pickle: nothing is stored under {index}"
            raise KeyError(text) from None

    def _bin_get(self):
        index = self._data[self.at]
        self.at += 1
        self._get(index)

    def _long_bin_get(self):
        index = _uint32_at(self._data, self.at)[0]
        self.at += 4
        self._get(index)

    def _text_get(self):
        self._get(int(self._line()))

    def _bin_put(self):
        self._memo[self._data[self.at]] = self._top()
        self.at += 1

    def _long_bin_put(self):
        self._memo[_uint32_at(self._data, self.at)[0]] = self._top()
        self.at += 4

    def _text_put(self):
        self._memo[int(self._line())] = self._top()

    def _memoize(self):
        self._memo[len(self._memo)] = self._top()

    # ---- numbers, text, bytes ----

    def _int1(self):
        self._stack.append(self._data[self.at])
        self.at += 1

    def _int2(self):
        self._push(_uint16(self._take(2))[0])

    def _int4(self):
        self._push(_int32(self._take(4))[0])

    def _text_int(self):
        line = self._line()
        self._push(line == b"01" if line in (b"00", b"01") else int(line))

    def _text_long(self):
        self._push(int(self._line().rstrip(b"L")))

    def _long1(self):
        self._push(int.from_bytes(self._take(self._take(1)[0]), "little", signed=True))

    def _long4(self):
        size = _int32(self._take(4))[0]
        if size < 0:
            raise self._error(f"damaged pickle: a number of {size} bytes")
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    def _float(self):
        self._push(_float64(self._take(8))[0])

    def _text_float(self):
        self._push(float(self._line()))

    def _unicode(self, size):
        self._push(str(self._take(size), "utf-8", "surrogatepass"))

    def _unicode1(self):
        self._unicode(self._take(1)[0])

    def _unicode4(self):
        size = _uint32_at(self._data, self.at)[0]
        self.at += 4
        self._unicode(size)

    def _unicode8(self):
        self._unicode(self._long_size())

    def _text_unicode(self):
        self._push(str(self._line(), "raw-unicode-escape"))

    def _bytes1(self):
        self._push(self._take(self._take(1)[0]))

    def _bytes4(self):
        self._push(self._take(_uint32(self._take(4))[0]))

    def _bytes8(self):
        self._push(self._take(self._long_size()))

    def _bytearray8(self):
        self._push(bytearray(self._take(self._long_size())))

    def _string(self, size):
        """Python 2's str: text if it can be read as such."""
        data = self._take(size)
        self._push(data if self._encoding == "bytes" else str(data, self._encoding, "strict"))

    def _string1(self):
        self._string(self._take(1)[0])

    def _string4(self):
        size = _int32(self._take(4))[0]
        if size < 0:
            raise self._error(f"damaged pickle: a string of {size} bytes")
        self._string(size)

    # ---- containers ----

    def _list(self):
        self._push(self._pop_mark())

    def _tuple(self):
        self._push(tuple(self._pop_mark()))

    def _tuple1(self):
        self._push((self._pop(),))

    def _tuple2(self):
        b, a = self._pop(), self._pop()
        self._push((a, b))

    def _tuple3(self):
        c, b, a = self._pop(), self._pop(), self._pop()
        self._push((a, b, c))

    def _dict(self):
        items = self._pop_mark()
        self._push(dict(zip(items[::2], items[1::2], strict=True)))

    def _frozen_set(self):
        self._push(frozenset(self._pop_mark()))

    def _target(self, *types):
        target = self._top()
        if not isinstance(target, types) and not self._names.is_trusted(target):
            raise self._error(f"damaged pickle: {type(target).__name__} cannot take items")
        return target

    def _append(self):
        value = self._pop()
        self._target(list, deque).append(value)

    def _appends(self):
        items = self._pop_mark()
        self._target(list, deque).extend(items)

    def _add_items(self):
        items = self._pop_mark()
        self._target(set).update(items)

    def _set_item(self):
        value, key = self._pop(), self._pop()
        self._target(dict)[key] = value

    def _set_items(self):
        items = self._pop_mark()
        target = self._target(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key] = value

    # ---- names and objects ----

    def _global(self):
        module, name = str(self._line(), "utf-8"), str(self._line(), "utf-8")
        self._push(self._names.find(module, name))

    def _stack_global(self):
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise self._error("damaged pickle: a name must be text")
        self._push(self._names.find(module, name))

    def _reduce(self):
        args, function = self._pop(), self._pop()
        self._push(self._names.call(function, self._arguments(args)))

    def _new(self):
        args, cls = self._pop(), self._pop()
        self._push(self._names.new(cls, self._arguments(args), {}))

    def _new_with_keywords(self):
        kwargs, args, cls = self._pop(), self._pop(), self._pop()
        if type(kwargs) is not dict:
            raise self._error("damaged pickle: keywords must be a dict")
        self._push(self._names.new(cls, self._arguments(args), kwargs))

    def _build(self):
        state = self._pop()
        self._names.build(self._top(), state)

    def _arguments(self, args):
        if type(args) is not tuple:
            raise self._error(f"damaged pickle: arguments must be a tuple, got {type(args)}")
        return args


def _pusher(make):
    return lambda self: self._stack.append(make())


def _constant(value):
    return lambda self: self._stack.append(value)


# Missing on purpose: INST, OBJ and the extension registry (names by another road), PERSID, STRING,
# out-of-band buffers, DUP.
_TABLE = {
    b"\x80": Unpickler._proto,
    b"\x95": Unpickler._frame,
    b"(": Unpickler._mark,
    b"0": Unpickler._discard,
    b"1": Unpickler._discard_to_mark,
    b"Q": Unpickler._persistent_id,
    b"h": Unpickler._bin_get,
    b"j": Unpickler._long_bin_get,
    b"g": Unpickler._text_get,
    b"q": Unpickler._bin_put,
    b"r": Unpickler._long_bin_put,
    b"p": Unpickler._text_put,
    b"\x94": Unpickler._memoize,
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"K": Unpickler._int1,
    b"M": Unpickler._int2,
    b"J": Unpickler._int4,
    b"I": Unpickler._text_int,
    b"L": Unpickler._text_long,
    b"\x8a": Unpickler._long1,
    b"\x8b": Unpickler._long4,
    b"G": Unpickler._float,
    b"F": Unpickler._text_float,
    b"\x8c": Unpickler._unicode1,
    b"X": Unpickler._unicode4,
    b"\x8d": Unpickler._unicode8,
    b"V": Unpickler._text_unicode,
    b"C": Unpickler._bytes1,
    b"B": Unpickler._bytes4,
    b"\x8e": Unpickler._bytes8,
    b"\x96": Unpickler._bytearray8,
    b"U": Unpickler._string1,
    b"T": Unpickler._string4,
    b"]": _pusher(list),
    b"}": _pusher(dict),
    b"\x8f": _pusher(set),
    b")": _constant(()),
    b"l": Unpickler._list,
    b"t": Unpickler._tuple,
    b"\x85": Unpickler._tuple1,
    b"\x86": Unpickler._tuple2,
    b"\x87": Unpickler._tuple3,
    b"d": Unpickler._dict,
    b"\x91": Unpickler._frozen_set,
    b"a": Unpickler._append,
    b"e": Unpickler._appends,
    b"\x90": Unpickler._add_items,
    b"s": Unpickler._set_item,
    b"u": Unpickler._set_items,
    b"c": Unpickler._global,
    b"\x93": Unpickler._stack_global,
    b"R": Unpickler._reduce,
    b"\x81": Unpickler._new,
    b"\x92": Unpickler._new_with_keywords,
    b"b": Unpickler._build,
}
_OPERATIONS = [_TABLE.get(bytes([code])) for code in range(256)]
