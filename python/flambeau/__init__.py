"""Flambeau: PyTorch's model of computing. `import flambeau as torch` runs a torch program.

Names that ops, dtypes and types define are here at once; everything below a submodule loads on
first use.
"""

import importlib
import math as _math

from flambeau import _C

globals().update((k, v) for k, v in vars(_C).items() if not k.startswith("_"))
globals().update((k, v) for k, v in vars(_C._VariableFunctions).items() if not k.startswith("__"))
_C._VariableFunctionsClass = _C._VariableFunctions  # torch's name for it in pickles
# torch has them elsewhere: torch.nn.Parameter, torch.UntypedStorage.
del globals()["Parameter"], globals()["StorageBase"], globals()["TensorBase"]

from flambeau import _legacy, _tensor, storage
from flambeau._settings import *
from flambeau._tensor_str import set_printoptions
from flambeau._type_info import finfo, iinfo
from flambeau.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from flambeau.functional import *
from flambeau.random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from flambeau.storage import TypedStorage, UntypedStorage
from flambeau.version import __version__

globals().update(_legacy.TENSOR_TYPES)
globals().update(storage.LEGACY)
set_default_tensor_type = _legacy.set_default_tensor_type
Storage = storage.LEGACY["FloatStorage"]

e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None

# What the argument parser of every op takes by keyword besides a parameter's own name.
_keyword_aliases = {
    "dim": ["axis"],
    "keepdim": ["keepdims"],
    "input": ["x", "a", "x1"],
    "other": ["x2"],
}


def _schema(name):
    """The schemas of an op by its name, such as "add" or "torch.Tensor.add".

    None for what is written in Python, whose own signature says what it takes, and for anything else. A mark
    "(a -> *)", views in a list, reads "(a)" here: an arrow separates arguments from results.
    """
    found, obj = _C._schema(name), importlib.import_module("flambeau")
    for part in name.split(".")[1:]:
        obj = getattr(obj, part, None)
    if found is None or isinstance(obj, type(_schema)):
        return None
    return [text.replace("(a -> *)", "(a)") for text in found]


def _metadata_function(name):
    method = getattr(Tensor, name)

    def function(input, *args, **kwargs):
        return method(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    return function


for _name in (
    "is_floating_point is_complex is_signed is_nonzero is_inference is_conj is_neg is_distributed "
    "is_same_size numel get_device"
).split():
    globals().setdefault(_name, _metadata_function(_name))
del _name


def is_tensor(obj, /) -> bool:
    """Is it a Tensor?"""
    return isinstance(obj, Tensor)


def is_storage(obj, /) -> bool:
    """Is it a storage, typed or not?"""
    return isinstance(obj, (TypedStorage, UntypedStorage))


def typename(obj, /) -> str:
    """The name of an object's type, with its module; of a tensor, what x.type() says."""
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", "") or ""
    name = getattr(obj, "__qualname__", None) or type(obj).__qualname__
    if not module and not hasattr(obj, "__qualname__"):
        module = type(obj).__module__
    if module.partition(".")[0] == "flambeau":
        module = "torch" + module.removeprefix("flambeau")
    return name if module in ("", "builtins") else f"{module}.{name}"


def _assert(condition, message):
    """assert as a function."""
    if not condition:
        raise AssertionError(message)


def _check(cond, message=None):
    """Raises RuntimeError unless `cond` holds; `message` is called for the text."""
    if not cond:
        raise RuntimeError(message() if message else "_check: the condition must hold")


def get_device_module(device=None):
    """The module of a device's type, such as torch.cuda."""
    name = _C.device(device).type if device is not None else "cpu"
    return getattr(importlib.import_module("flambeau"), name)


# Functions whose modules load when they are first asked for.
_LATE = {
    "sparse_coo_tensor": "sparse",
    "sparse_compressed_tensor": "sparse",
    "sparse_csc_tensor": "sparse",
    "sparse_csr_tensor": "sparse",
    "save": "serialization",
    "load": "serialization",
    "vmap": "func",
    "_record": "_recording",
    "ops": "_ops",
}


# Names that live in submodules nobody needs at once.
_ELSEWHERE = {"GradScaler": "amp", "autocast": "amp"}


def __getattr__(name):
    """Submodules load when they are first asked for."""
    if name.startswith("__") and name != "__config__":
        raise AttributeError(f"module 'flambeau' has no attribute {name!r}")
    home = "amp.autocast_mode" if "autocast_" in name else _ELSEWHERE.get(name)
    if home:
        globals()[name] = getattr(importlib.import_module(f"flambeau.{home}"), name)
        return globals()[name]
    if name == "torch":  # as in torch, whose functions import it
        return importlib.import_module("flambeau")
    if name.startswith("_foreach_"):
        return getattr(importlib.import_module("flambeau._foreach"), name)
    if name in _LATE:
        globals()[name] = getattr(importlib.import_module(f"flambeau.{_LATE[name]}"), name)
        return globals()[name]
    full = f"flambeau.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
    raise AttributeError(f"module 'flambeau' has no attribute {name!r}")
