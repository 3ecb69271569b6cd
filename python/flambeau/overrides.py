"""__torch_function__: helpers for classes that override torch's functions."""

import contextlib
import functools
import importlib

import flambeau
from flambeau import _C, _overridable


class TorchFunctionMode:
    """A context in which every call of torch goes through `__torch_function__` first."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__}: must define __torch_function__")

    def __enter__(self):
        _C._push_mode(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _C._pop_mode()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_function_mode_stack() -> list:
    """The active modes, the innermost last."""
    return _C._function_modes()


def _get_current_function_mode():
    """The innermost mode, None outside of all."""
    modes = _C._function_modes()
    return modes[-1] if modes else None


@contextlib.contextmanager
def _pop_mode_temporarily():
    """The innermost mode steps aside for a while."""
    mode = _C._pop_mode()
    try:
        yield mode
    finally:
        _C._push_mode(mode)


def has_torch_function(relevant_args) -> bool:
    """Does any of these objects override torch's functions?"""
    return _C._has_torch_function(tuple(relevant_args))


def has_torch_function_unary(arg) -> bool:
    return _C._has_torch_function((arg,))


def has_torch_function_variadic(*args) -> bool:
    return _C._has_torch_function(args)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Asks the overriding objects, subclasses first, to do the call."""
    return _C._handle_torch_function(public_api, tuple(relevant_args), *args, **kwargs)


def is_tensor_like(inp) -> bool:
    """A Tensor, or an object that overrides torch's functions."""
    return isinstance(inp, _C.Tensor) or hasattr(type(inp), "__torch_function__")


def wrap_torch_function(dispatcher):
    """Makes a function overridable: `dispatcher`, called alike, gives the arguments that may answer.

    Example:
        >>> @wrap_torch_function(lambda x: (x,))
        ... def twice(x):
        ...     return x + x
        >>> twice(flambeau.ones(2))
        tensor([2., 2.])
    """

    def decorate(function):
        @functools.wraps(function)
        def asking(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(asking, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return asking

    return decorate


def get_default_nowrap_functions() -> set:
    """Attributes whose values stay what they are when a subclass reads them."""
    names = "_base grad _grad".split()
    return {getattr(flambeau.Tensor, name).__get__ for name in names}


def enable_reentrant_dispatch():
    """Inside of `__torch_dispatch__`: a context in which the tape records as it does outside."""
    return flambeau.set_grad_enabled(_C._tape_outside())


# The rooms whose functions ask, by their names under `flambeau`.
_ROOMS = (
    "functional",
    "nn.functional",
    "",
    "linalg",
    "fft",
    "special",
    "nn.init",
    "autograd",
    "Tensor",
)


def _room(name: str):
    if name == "Tensor":
        return flambeau.Tensor
    return importlib.import_module(f"flambeau.{name}" if name else "flambeau")


def _public(room) -> dict:
    """The functions, methods and attributes of a room by name."""
    names = getattr(room, "__all__", None) or dir(room)
    found = {}
    for name in names:
        value = getattr(room, name)
        if name.startswith("_") and not (room is flambeau.Tensor and name in _SPECIAL):
            continue
        if isinstance(value, type) or type(value).__name__ in ("module", "dtype", "layout"):
            continue
        if callable(value):
            found[name] = value
        elif hasattr(value, "__get__"):
            found[name] = value.__get__
    return found


_SPECIAL = set(
    """_version _base _backward_hooks __getitem__ __setitem__ __len__ __bool__ __float__ __int__ __index__ __complex__ __contains__
    __repr__ __format__ __floordiv__ __rfloordiv__ __pow__ __rpow__ __rsub__ __rtruediv__ __rmod__ __eq__ __and__
    __or__ __xor__ __lshift__ __rshift__ __rlshift__ __rrshift__ __invert__ __deepcopy__ __reduce_ex__""".split()
)


@functools.cache
def _sorted_out() -> tuple[dict, set]:
    """The functions that ask, by room, and those that do not."""
    _C._activate_overrides()
    asking, ignored = {}, set()
    for name in _ROOMS:
        room = _room(name)
        for value in _public(room).values():
            if _overridable.asks(value):
                asking.setdefault(room, []).append(value)
            else:
                ignored.add(value)
    return asking, ignored


def get_overridable_functions() -> dict:
    """What modes and classes can answer: functions by module, methods and attributes under Tensor."""
    return {room: list(functions) for room, functions in _sorted_out()[0].items()}


def get_ignored_functions() -> set:
    """Public functions that neither modes nor classes see."""
    return set(_sorted_out()[1])


@functools.cache
def _names() -> dict:
    """The dotted name of every function that asks."""
    found = {}
    for name in _ROOMS:
        prefix = f"torch.{name}." if name else "torch."
        for key, value in _public(_room(name)).items():
            dotted = f"{prefix}{key}" if key == value.__name__ or callable(value) else prefix + key
            if value.__name__ == "__get__":
                attribute = getattr(flambeau.Tensor, key)
                for part in ("__get__", "__set__", "__delete__"):
                    found[getattr(attribute, part)] = f"{dotted}.{part}"
            else:
                found.setdefault(value, dotted)
    return found


def is_tensor_method_or_property(func) -> bool:
    """Is it a method of Tensor, or an access to one of its attributes?"""
    name = _names().get(func, "")
    return name.startswith("torch.Tensor.")


def resolve_name(f):
    """The name under which a function is known: "torch.add", "torch.Tensor.add", "torch.Tensor.grad.__get__"."""
    return _names().get(f) or getattr(f, "__name__", None) or repr(f)
