"""Modules and parameters in sequences and dictionaries."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, islice

import flambeau
from flambeau import _C
from flambeau.nn.modules.module import Module, _addindent
from flambeau.nn.parameter import Parameter

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


def _position(idx, length, what) -> int:
    """`idx` as an index into `length` items, negative ones counted from the end."""
    idx = operator.index(idx)
    if not -length <= idx < length:
        raise IndexError(f"{what}: index must be in [{-length}, {length - 1}], got {idx}")
    return idx % length if length else idx


class Container(Module):
    """The base class of old containers: a module with keyword submodules."""

    def __init__(self, **kwargs) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Module):
    """Calls its modules in order, each with the result of the one before.

    Takes modules, or one OrderedDict of names and modules.
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    @_C._native_forward
    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def _get_item_by_idx(self, iterator, idx):
        idx = _position(idx, len(self), "Sequential")
        return next(islice(iterator, idx, None))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._get_item_by_idx(self._modules.values(), idx)

    def __setitem__(self, idx, module) -> None:
        setattr(self, self._get_item_by_idx(self._modules.keys(), idx), module)

    def __delitem__(self, idx) -> None:
        names = list(self._modules)
        for name in names[idx] if isinstance(idx, slice) else [names[_at(self, idx)]]:
            delattr(self, name)
        _renumber(self, self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: can only add a Sequential, got {type(other)}")
        return Sequential(*self, *other)

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: can only add a Sequential, got {type(other)}")
        return self.extend(other)

    def __mul__(self, other):
        _check_repeat(other)
        return Sequential(*list(self) * other)

    def __rmul__(self, other):
        return self.__mul__(other)

    def __imul__(self, other):
        _check_repeat(other)
        return self.extend(list(self) * (other - 1))

    def pop(self, key):
        """Removes and returns the module at `key`."""
        module = self[key]
        del self[key]
        return module

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        """Adds a module before position `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"Sequential.insert: expected a Module, got {type(module)}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Sequential.insert: index must be in [{-n}, {n}], got {index}")
        modules = list(self)
        modules.insert(index, module)
        _renumber(self, modules)
        return self

    def extend(self, sequential):
        """Adds all modules of an iterable at the end."""
        for module in list(sequential):
            self.append(module)
        return self


def _at(container, idx) -> int:
    return _position(idx, len(container), type(container).__name__)


def _check_repeat(count) -> None:
    if not isinstance(count, int):
        raise TypeError(f"Sequential: can only be multiplied by an int, got {type(count)}")
    if count <= 0:
        raise ValueError(f"Sequential: must be repeated at least once, got {count}")


def _renumber(container, modules) -> None:
    """Makes "0", "1", ... the names of `modules`, in that order."""
    modules = list(modules)
    container._modules.clear()
    for i, module in enumerate(modules):
        container._modules[str(i)] = module


class ModuleList(Module):
    """A list of modules. It has no forward of its own."""

    def __init__(self, modules=None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _get_abs_string_index(self, idx) -> str:
        return str(_position(idx, len(self), type(self).__name__))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __setitem__(self, idx, module) -> None:
        setattr(self, self._get_abs_string_index(idx), module)

    def __delitem__(self, idx) -> None:
        picked = range(len(self))[idx] if isinstance(idx, slice) else [_at(self, idx)]
        for i in picked:
            delattr(self, str(i))
        _renumber(self, self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __contains__(self, module) -> bool:
        return any(m is module for m in self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return type(self)(chain(self, other))

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def insert(self, index, module) -> None:
        """Adds a module before position `index`."""
        modules = list(self)
        modules.insert(index, module)
        _renumber(self, modules)

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Removes and returns the module at `key`."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules):
        """Adds all modules of an iterable at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend: expected an iterable, got {type(modules)}")
        start = len(self)
        for i, module in enumerate(list(modules)):
            self.add_module(str(start + i), module)
        return self

    def __repr__(self) -> str:
        """Runs of equal entries are shown once: (0-2): 3 x ReLU()."""
        texts = [repr(module) for module in self]
        if not texts:
            return self._get_name() + "()"
        runs = []
        for i, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = [
            _addindent(f"({a}): {t}" if a == b else f"({a}-{b}): {b - a + 1} x {t}", 2)
            for a, b, t in runs
        ]
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules, in insertion order. It has no forward of its own."""

    def __init__(self, modules=None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key):
        """Removes and returns the module under `key`."""
        module = self[key]
        del self[key]
        return module

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules) -> None:
        """Adds the modules of a mapping or of an iterable of pairs."""
        for key, module in _pairs(modules, "ModuleDict.update"):
            self[key] = module


def _pairs(entries, what):
    """(key, value) pairs of a mapping or of an iterable of pairs, checked."""
    if isinstance(entries, (Mapping, ModuleDict, ParameterDict)):
        return list(entries.items())
    if not isinstance(entries, Iterable):
        raise TypeError(f"{what}: expected a mapping or an iterable of pairs, got {type(entries)}")
    pairs = list(entries)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{what}: element {i} must be a pair, got {type(pair)}")
        if len(pair) != 2:
            raise ValueError(f"{what}: element {i} must have length 2, got {len(pair)}")
    return pairs


def _as_parameter(value):
    """Plain tensors become parameters; anything else stays."""
    if isinstance(value, flambeau.Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _describe(key, value, of) -> str:
    """One line of the text of ParameterList and ParameterDict; `of` names what it holds."""
    if not isinstance(value, flambeau.Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.size())
    device = "" if value.device.type == "cpu" else f" ({value.device})"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({key}): {kind} containing: [{of(value)} of size {size}{device}]"


class ParameterList(Module):
    """A list of parameters; other values are kept as plain attributes."""

    def __init__(self, values=None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _get_abs_string_index(self, idx) -> str:
        return str(_position(idx, len(self), type(self).__name__))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            out = type(self)()
            for i in range(*idx.indices(len(self))):
                out.append(self[i])
            return out
        return getattr(self, self._get_abs_string_index(idx))

    def __setitem__(self, idx, param) -> None:
        setattr(self, self._get_abs_string_index(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value):
        """Adds a value at the end; a tensor becomes a parameter."""
        index = len(self)
        self._size += 1
        self[index] = value
        return self

    def extend(self, values):
        """Adds all values of an iterable at the end."""
        if not isinstance(values, Iterable) or isinstance(values, flambeau.Tensor):
            raise TypeError(f"ParameterList.extend: expected an iterable, got {type(values)}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_describe(i, p, lambda t: t.dtype) for i, p in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList: is no layer and cannot be called")


class ParameterDict(Module):
    """A dictionary of parameters, in insertion order; other values are kept as attributes."""

    def __init__(self, parameters=None) -> None:
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: keys must be strings, got {type(key).__name__}")
        return key

    def __getitem__(self, key):
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key, value) -> None:
        attr = self._key_to_attr(key)
        self._keys[key] = None
        setattr(self, attr, _as_parameter(value))

    def __delitem__(self, key) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key) -> bool:
        return key in self._keys

    def copy(self):
        """A new ParameterDict with the same parameters."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key, default=None):
        """The value under `key`, which is set to `default` first if absent."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Removes all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        """Removes and returns the value under `key`."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Removes and returns the last (key, value)."""
        key, _ = self._keys.popitem()
        value = self[key]
        delattr(self, self._key_to_attr(key))
        return key, value

    def get(self, key, default=None):
        """The value under `key`, or `default`."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """A new ParameterDict with `default` under each of `keys`."""
        return ParameterDict((k, default) for k in keys)

    def keys(self):
        return self._keys.keys()

    def items(self):
        return ((k, self[k]) for k in self._keys)

    def values(self):
        return (self[k] for k in self._keys)

    def update(self, parameters) -> None:
        """Adds the values of a mapping (sorted if it is a plain dict) or of pairs."""
        pairs = _pairs(parameters, "ParameterDict.update")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs)
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_describe(k, p, lambda t: t.type()) for k, p in self.items())

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterDict: is no layer and cannot be called")

    def __or__(self, other):
        copy = self.copy()
        copy.update(other)
        return copy

    def __ror__(self, other):
        copy = other.copy()
        copy.update(self)
        return copy

    def __ior__(self, other):
        self.update(other)
        return self
