"""Which names a pickle may use: the list of safe globals, and what may be done with them.

A name is either a constant (a dtype, a storage type), which is never called, or a callable. Nothing
is ever imported because a pickle says so.
"""

import codecs
import collections
import datetime
import enum
import pathlib
import sys
from pickle import UnpicklingError

from flambeau import _C, _tensor, _utils
from flambeau.storage import LEGACY, UntypedStorage

# What users added, by name: (object, ...) as `add_safe_globals` got them.
_trusted = {}


def key_of(item):
    """("module.name", object) of what add_safe_globals takes: an object, or (object, name)."""
    if isinstance(item, tuple):
        if len(item) != 2 or not isinstance(item[1], str):
            raise ValueError(f"add_safe_globals: a pair must be (object, name), got {item}")
        return item[1], item[0]
    return f"{torch_module(item.__module__)}.{item.__qualname__}", item


def torch_module(module):
    """The module's name in files: torch.nn for flambeau.nn."""
    if module == "flambeau" or module.startswith("flambeau."):
        return "torch" + module[len("flambeau") :]
    return module


def trusted():
    """What users added, changeable in place."""
    return _trusted


class SafeNames:
    """The answers of the list to the unpickler's questions."""

    def __init__(self):
        # What runs when the object of that id is called: often a narrower function.
        self._callable = {id(given): run for given, run in _CALLABLES.values()}
        self._callable.update((id(f), f) for f in _trusted.values())
        self._types = {f for f in _trusted.values() if isinstance(f, type)}
        self._records = set()

    def find(self, module, name):
        """The object of that name, or UnpicklingError."""
        key = f"{torch_module(_RENAMED.get(module, module))}.{name}"
        if key in _trusted:
            return _trusted[key]
        if key in _CALLABLES:
            return _CALLABLES[key][0]
        if key in _CONSTANTS:
            return _CONSTANTS[key]
        found = self._numpy_name(key) or self._record_class(module, name)
        if found is None:
            raise UnpicklingError(
                f"load: the file names {module}.{name}, which is not on the list of safe globals. "
                "If you trust it, allow it with flambeau.serialization.add_safe_globals"
                f"([{name.rpartition('.')[2]}]); if you trust the whole file, load it with "
                "weights_only=False, which runs whatever the file says"
            )
        return found

    def call(self, function, args):
        """function(*args) of a function that `find` gave."""
        run = self._callable.get(id(function))
        if run is None:
            raise UnpicklingError(f"load: the file calls {function!r}, which it must not")
        if run is _tensor._rebuild_from_type_v2:
            return self._rebuild_from_type(*args)
        try:
            return run(*args)
        except KeyError as error:
            raise UnpicklingError(f"load: damaged pickle: no {error} for {function}") from error

    def new(self, cls, args, kwargs):
        """cls.__new__(cls, ...) of a class that is trusted or a plain record."""
        if isinstance(cls, type):
            if cls in self._types:
                return cls.__new__(cls, *args, **kwargs)
            if cls in self._records and not args and not kwargs:
                return object.__new__(cls)
            if not kwargs:
                return self.call(cls, args)
        raise UnpicklingError(f"load: the file makes a {cls!r}, which it must not")

    def build(self, target, state):
        """Gives an object its state."""
        cls = type(target)
        if self.is_trusted(target) and hasattr(target, "__setstate__"):
            target.__setstate__(state)
        elif cls in (_C.Tensor, _C.Parameter):
            _utils._with_state(target, _utils._own_state(state))
        elif cls.__module__ == "numpy" or cls.__module__ == "numpy.dtypes":
            from flambeau._serialize import arrays

            arrays.set_state(target, state)
        elif cls is collections.OrderedDict or cls in self._records or self.is_trusted(target):
            _update_attributes(target, state)
        else:
            raise UnpicklingError(f"load: the file sets the state of a {cls}, which it must not")

    def is_trusted(self, target):
        """Is it an object of a class that a user added?"""
        return type(target) in self._types

    def _rebuild_from_type(self, function, cls, args, state):
        if not isinstance(cls, type) or not issubclass(cls, _C.Tensor):
            raise UnpicklingError(f"load: damaged pickle: a tensor of type {cls!r}")
        tensor = self.call(function, args)
        if type(tensor) is not cls:
            tensor = tensor.as_subclass(cls)
        if self.is_trusted(tensor):
            self.build(tensor, state)
        else:
            _utils._with_state(tensor, _utils._own_state(state))
        return tensor

    def _numpy_name(self, key):
        if not key.startswith("numpy."):
            return None
        try:
            from flambeau._serialize import arrays
        except ImportError:
            return None
        if key in arrays.FUNCTIONS:
            given, run = arrays.FUNCTIONS[key]
            self._callable[id(given)] = run
            return given
        return arrays.CONSTANTS.get(key)

    def _record_class(self, module, name):
        """A class that only holds data, if the program has imported it by itself."""
        cls = vars(sys.modules[module]).get(name) if module in sys.modules else None
        if not isinstance(cls, type) or (cls.__module__, cls.__qualname__) != (module, name):
            return None
        if issubclass(cls, enum.Enum):
            if any("_missing_" in vars(c) for c in cls.__mro__ if c.__module__ != "enum"):
                return None
            self._callable[id(cls)] = lambda value: cls(value)
            return cls
        if _is_record(cls):
            self._records.add(cls)
            return cls
        return None


_HOOKS = (
    "__new__ __setstate__ __reduce__ __reduce_ex__ __setattr__ __getattribute__ __del__".split()
)


def _is_record(cls):
    """A dataclass that takes no part in its own making, so filling it runs no code of its own."""
    frozen = getattr(getattr(cls, "__dataclass_params__", None), "frozen", False)
    bases = [c for c in cls.__mro__ if c is not object]
    hooks = [h for h in _HOOKS if not (frozen and h == "__setattr__")]
    return all("__dataclass_fields__" in vars(c) for c in bases) and not any(
        h in vars(c) for c in bases for h in hooks
    )


def _update_attributes(target, state):
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in (attributes, slots):
        if part is not None and not (isinstance(part, dict) and all(type(k) is str for k in part)):
            raise UnpicklingError("load: damaged pickle: state must be a dict of names")
    if attributes:
        target.__dict__.update(attributes)
    for key, value in (slots or {}).items():
        object.__setattr__(target, key, value)


# ---- callables that take less than their originals ----


def _collection(make, *kinds):
    """make(*args) of plain collections alone; a tensor of 10**12 elements is none."""

    def function(*args):
        if not all(type(a) in kinds for a in args):
            raise UnpicklingError(f"load: damaged pickle: {make.__name__} of {args!r:.80}")
        return make(*args)

    return function


_ENCODINGS = {"latin1", "latin-1", "utf-8", "utf8", "ascii"}


def _encode(text, encoding="utf-8"):
    # Other codecs unpack archives or escapes.
    if type(text) is not str or encoding not in _ENCODINGS:
        raise UnpicklingError(f"load: damaged pickle: text encoded by {encoding!r:.80}")
    return text.encode(encoding)


def _bytearray(*args):
    # bytearray(10**12) would allocate that much.
    return bytearray(_encode(*args) if args and type(args[0]) is str else b"".join(args))


def _reconstruct(cls, base, state):
    """copyreg's way to make an object in protocols 0 and 1: here of the plainest classes alone."""
    if base is not object or state is not None or cls is not collections.OrderedDict:
        raise UnpicklingError(f"load: the file makes a {cls!r}, which it must not")
    return cls()


def layout(name):
    """The layout of that name."""
    found = getattr(_C, str(name).removeprefix("torch."), None)
    if not isinstance(found, _C.layout):
        raise UnpicklingError(f"load: damaged pickle: a layout {name!r:.80}")
    return found


def _default_dict(factory=None, *args):
    if factory is not None and factory not in _PLAIN_TYPES:
        raise UnpicklingError(f"load: damaged pickle: a defaultdict of {factory!r}")
    return _collection(collections.defaultdict, type(None), type, dict)(factory, *args)


def _tensor_callables():
    """Name in files -> (the object of that name, what runs when it is called)."""
    table = {
        f"torch._utils.{name}": (function, function)
        for name, function in vars(_utils).items()
        if name.startswith("_rebuild_") and callable(function)
    }
    rebuild = _tensor._rebuild_from_type_v2
    table["torch._tensor._rebuild_from_type_v2"] = rebuild, rebuild
    table["torch.serialization._get_layout"] = layout, layout
    table["torch.Size"] = _C.Size, _collection(_C.Size, tuple, list)
    table["torch.device"] = _C.device, _C.device
    return table


def _python_callables():
    table = {
        "_codecs.encode": (codecs.encode, _encode),
        "copyreg._reconstructor": (_reconstruct, _reconstruct),
        "builtins.bytearray": (bytearray, _bytearray),
        "builtins.set": (set, _collection(set, list, tuple, set)),
        "builtins.frozenset": (frozenset, _collection(frozenset, list, tuple, set)),
        "collections.Counter": (collections.Counter, _collection(collections.Counter, dict)),
        "collections.defaultdict": (collections.defaultdict, _default_dict),
        "collections.OrderedDict": (
            collections.OrderedDict,
            _collection(collections.OrderedDict, list, dict),
        ),
        "collections.deque": (
            collections.deque,
            _collection(collections.deque, list, tuple, int, type(None)),
        ),
    }
    for cls in (complex, slice, range):
        table[f"builtins.{cls.__name__}"] = cls, cls
    table["builtins.xrange"] = table["builtins.range"]
    for name in "datetime date time timedelta timezone".split():
        table[f"datetime.{name}"] = (getattr(datetime, name),) * 2
    for name in "PurePosixPath PureWindowsPath".split():
        table[f"pathlib.{name}"] = (getattr(pathlib, name),) * 2
    for name in "Path PosixPath WindowsPath".split():
        # A path of the other system is still a path.
        table[f"pathlib.{name}"] = pathlib.Path, pathlib.Path
    return table


def _constants():
    table = {f"torch.{name}": cls for name, cls in LEGACY.items()}
    table["torch.storage.UntypedStorage"] = table["torch.UntypedStorage"] = UntypedStorage
    table["torch.Tensor"] = table["torch._tensor.Tensor"] = _C.Tensor
    table["torch.nn.parameter.Parameter"] = _C.Parameter
    for name, value in vars(_C).items():
        if isinstance(value, (_C.dtype, _C.layout, _C.memory_format)):
            table[f"torch.{name}"] = value
    for cls in _PLAIN_TYPES:
        table[f"builtins.{cls.__name__}"] = cls
    return table


_PLAIN_TYPES = (int, float, str, bool, list, dict, tuple, bytes, object)
# What Python 2 and pickle's protocol 2 call them.
_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_CALLABLES = {**_tensor_callables(), **_python_callables()}
_CONSTANTS = _constants()
