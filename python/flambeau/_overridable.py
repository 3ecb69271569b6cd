"""Functions written in Python that modes and classes with `__torch_function__` answer.

A check in each of them would cost every call. So nothing is checked until somebody overrides anything; then the
functions are told to ask first. They stay the objects they are, which callers hold and handlers compare with: what
changes is their code.
"""

import importlib
from types import FunctionType

import flambeau
from flambeau import _C

# These look at no tensor, or hand all their arguments on to one that asks.
_LEFT_ALONE = {
    "broadcast_shapes",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
    "sigmoid",
    "tanh",
}


# Those that ask.
functions: set = set()


def _asking(*args, **kwargs):
    ask, function, original = "each function gets these three in the place of this text"
    return ask(function, original, args, kwargs)


def _make_ask(function: FunctionType) -> None:
    code = function.__code__
    if function.__closure__ or hasattr(function, "__wrapped__"):
        return
    original = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    original.__qualname__, original.__doc__ = function.__qualname__, function.__doc__
    original.__annotations__ = function.__annotations__
    function.__wrapped__ = original  # inspect.signature looks there
    three = (_C._call_overridable, function, original)
    consts = tuple(three if isinstance(c, str) else c for c in _asking.__code__.co_consts)
    function.__code__ = _asking.__code__.replace(co_consts=consts, co_name=code.co_name)


# Where functions are written in Python, and which of them ask: all public ones where none is named.
_ROOMS = {
    "functional": "",
    "fft": "",
    "nn.functional": "",
    "nn.init": "uniform_ normal_ constant_ kaiming_uniform_",
    "autograd": "grad",
}
_METHODS = {"__repr__", "__format__", "__deepcopy__", "__reduce_ex__"}


def _written(name: str, chosen: str):
    room = importlib.import_module(f"flambeau.{name}")
    public = getattr(room, "__all__", None) or [n for n in vars(room) if not n.startswith("_")]
    for key in chosen.split() or public:
        value = getattr(room, key)
        if isinstance(value, FunctionType) and value.__module__ == room.__name__:
            if key not in _LEFT_ALONE:
                yield value


def activate() -> None:
    """Makes the functions ask from now on."""
    found = [f for room, chosen in _ROOMS.items() for f in _written(room, chosen)]
    for name, value in vars(flambeau.Tensor).items():
        if isinstance(value, FunctionType) and (name[0] != "_" or name in _METHODS):
            found.append(value)
    for function in found:
        _make_ask(function)
        functions.add(function)
    rooms = _C._VariableFunctions, _C._nn, _C._linalg, _C._fft, _C._special, _C._sparse
    functions.update(f for room in rooms for f in vars(room).values() if callable(f))
    functions.update(getattr(flambeau, name) for name in _C._overridable_functions())


def asks(value) -> bool:
    """Do modes and classes see a function, a method or an access to an attribute?"""
    if type(value).__name__ == "method_descriptor":
        return value.__name__ != "as_subclass" and not value.__name__.startswith("_make")
    return type(value).__name__ in ("method-wrapper", "wrapper_descriptor") or value in functions
