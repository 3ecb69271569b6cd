"""Pickles an object for a file: storages become persistent ids that hold only what is reachable.

A first pass takes every storage whole and notes which part of it tensors reach. If that is less
than the whole for some storage, a second pass writes the pickle again with the parts.
"""

import io
import pickletools
from collections import OrderedDict
from types import BuiltinFunctionType, FunctionType

from flambeau import _C, _tensor, _utils
from flambeau._serialize.names import torch_module
from flambeau._serialize.storages import kind_of, location_tag, moved
from flambeau.storage import TypedStorage, UntypedStorage

_FUNCTIONS = _C._VariableFunctions  # in torch's pickles its functions are attributes of a class
_CONSTANTS = (_C.dtype, _C.layout, _C.memory_format)
_ALIGNMENT = 16  # of the largest element, complex128


class Part:
    """A storage as it stands in a file: bytes `low` to `high` of it under `key`."""

    __slots__ = ("storage", "key", "dtype", "kind", "location", "low", "high", "reach", "views")

    def __init__(self, storage, key, dtype, low, high):
        self.storage, self.key, self.dtype = storage, key, dtype
        self.kind, self.location = kind_of(dtype), location_tag(storage)
        self.low, self.high = low, high
        self.reach = None  # the bytes that tensors reach; all if a storage itself is saved
        self.views = False  # is it seen as elements of several dtypes?

    def itemsize(self):
        return 1 if self.kind is UntypedStorage else self.dtype.itemsize

    def numel(self):
        return (self.high - self.low) // self.itemsize()

    def data(self):
        """The bytes to write."""
        storage = self.storage
        if storage.device.type == "meta":
            return b""
        if storage.device.type != "cpu":
            storage = moved(storage, _C.device("cpu"))
        return memoryview(storage)[self.low : self.high]

    def include(self, low, high):
        if self.reach is None:
            self.reach = low, high
        elif low < high:
            a, b = self.reach
            self.reach = (low, high) if a == b else (min(a, low), max(b, high))

    def needed(self):
        """The bytes to save, cut at whole elements of every dtype that looks at them."""
        low, high = self.reach
        unit = _ALIGNMENT if self.views else self.itemsize()
        low -= low % unit
        return low, min(high + -high % unit, self.storage.nbytes())


class Plan:
    """The storages met while pickling, and what is saved of each."""

    def __init__(self, ranges=()):
        self._ranges = dict(ranges)  # address -> (low, high), from the pass before
        self.parts = {}  # address -> Part, which keeps the storage and so its address

    def part_of(self, storage, dtype):
        """The storage's part, made when it is first met."""
        address = storage._cdata
        part = self.parts.get(address)
        if part is None:
            low, high = self._ranges.get(address, (0, storage.nbytes()))
            part = Part(storage, str(len(self.parts)), dtype, low, high)
            self.parts[address] = part
        elif part.dtype is not dtype:
            part.views = True
        return part

    def place(self, tensor, storage):
        """(part, offset into it in elements) of a tensor."""
        dtype, offset = tensor.dtype, tensor.storage_offset()
        part, item = self.part_of(storage, dtype), dtype.itemsize
        sizes = tensor.shape
        if 0 in sizes:
            low = high = min(offset * item, part.high)
        else:
            last = sum((n - 1) * s for n, s in zip(sizes, tensor.stride(), strict=True))
            low, high = offset * item, (offset + last + 1) * item
        part.include(low, high)
        return part, max(offset - part.low // item, 0)

    def next_ranges(self):
        """What the next pass must save of each storage, or None if this pass was right."""
        ranges = {address: part.needed() for address, part in self.parts.items()}
        saved = {address: (part.low, part.high) for address, part in self.parts.items()}
        return None if ranges == saved else ranges

    def covers(self, ranges):
        """Does this pass save at least these bytes?"""
        return all(
            part.low <= ranges[address][0] and ranges[address][1] <= part.high
            for address, part in self.parts.items()
        )


def saver_class(base, protocol):
    """A pickler that derives from a pickle module's and places storages by a plan."""

    class Saver(base):
        def __init__(self, out, plan, persistent_id):
            super().__init__(out, protocol=protocol)
            self.names = set()  # (module, name) of our own globals that stand in the pickle
            self._plan, self._persistent_id = plan, persistent_id

        def persistent_id(self, obj):
            if type(obj) is Part:
                return self._persistent_id(obj)
            if isinstance(obj, (TypedStorage, UntypedStorage)):
                return self._persistent_id(_whole(self._plan, obj))
            return None

        def reducer_override(self, obj):
            if isinstance(obj, _C.Tensor):
                return _reduce_tensor(self._plan, obj, protocol)
            if type(obj) is OrderedDict:
                return NotImplemented if obj or obj.__dict__ else (OrderedDict, ())
            if isinstance(obj, _CONSTANTS):
                self.names.add(("flambeau", str(obj).removeprefix("torch.")))
            elif isinstance(obj, (type, FunctionType, BuiltinFunctionType)):
                module = obj.__module__ or ""
                if module == _FUNCTIONS.__name__ and protocol < 4:
                    return getattr, (_FUNCTIONS, obj.__name__)
                if module.partition(".")[0] == "flambeau":
                    self.names.add((module, obj.__qualname__))
            elif obj is _FUNCTIONS:
                self.names.add(("flambeau._C", "_VariableFunctionsClass"))
                return "_VariableFunctionsClass"
            inherited = getattr(super(), "reducer_override", None)
            return inherited(obj) if inherited else NotImplemented

    return Saver


def _whole(plan, storage):
    untyped = getattr(storage, "_untyped_storage", storage)
    part = plan.part_of(untyped, getattr(storage, "dtype", None))
    if part.views:
        raise RuntimeError(
            f"save: a storage is saved as {getattr(storage, 'dtype', 'bytes')} and as {part.dtype}; "
            "save the tensors on it instead"
        )
    part.include(0, untyped.nbytes())
    return part


def _reduce_tensor(plan, tensor, protocol):
    """tensor.__reduce_ex__, with the storage replaced by its part."""
    if type(tensor) is _C.Tensor and not tensor.is_meta and not tensor.__dict__:
        if tensor.layout is _C.strided:
            return _placed(plan, tensor)
    reduced = tensor.__reduce_ex__(protocol)
    function, args = reduced[0], reduced[1]
    if function is _tensor._rebuild_from_type_v2 and args[0] in _OF_STORAGE:
        inner = _placed(plan, tensor)
        return (function, (inner[0], args[1], inner[1], *args[3:]), *reduced[2:])
    return reduced


_OF_STORAGE = (_utils._rebuild_tensor_v2, _utils._rebuild_tensor_v3)


def _placed(plan, tensor):
    part, offset = plan.place(tensor, tensor.untyped_storage())
    place = part, offset, tuple(tensor.shape), tensor.stride(), tensor.requires_grad, OrderedDict()
    if part.kind is not UntypedStorage and part.dtype is tensor.dtype:
        return _utils._rebuild_tensor_v2, place
    return _utils._rebuild_tensor_v3, (*place, tensor.dtype)


def pickled(obj, pickle_module, protocol, persistent_id):
    """(pickle, parts) of an object; persistent_id(part) gives the id of a storage."""
    saver = saver_class(pickle_module.Pickler, protocol)
    plans, ranges = [], ()
    while True:
        # Plans are kept because a storage's address stands for it in the next pass.
        plans.append(Plan(ranges))
        out = io.BytesIO()
        pickler = saver(out, plans[-1], persistent_id)
        pickler.dump(obj)
        ranges = plans[-1].next_ranges()
        if ranges is None or len(plans) > 1 and plans[-1].covers(ranges):
            break
        # An object that makes other tensors each time it is pickled gets whole storages.
        if len(plans) == 2:
            ranges = ()
    data = out.getvalue()
    if protocol < 4:
        data = _with_torch_names(data, pickler.names)
    return data, plans[-1].parts.values()


def _with_torch_names(data, names):
    """The pickle with torch's modules in place of ours, so that torch reads it too."""
    for module, name in names:
        ours = f"c{module}\n{name}\n".encode()
        theirs = f"c{torch_module(module)}\n{name}\n".encode()
        count = data.count(ours)
        if count == 1:
            data = data.replace(ours, theirs)
        elif count:
            data = _renamed_slowly(data, f"{module} {name}", ours, theirs)
    return data


def _renamed_slowly(data, name, ours, theirs):
    """Replaces a global where text in the pickle looks like it."""
    places = [at for op, arg, at in pickletools.genops(data) if op.name == "GLOBAL" and arg == name]
    for at in reversed(places):
        data = data[:at] + theirs + data[at + len(ours) :]
    return data
