"""NumPy's numbers and arrays out of pickles, without the object arrays that could hold anything."""

import math
import re
from pickle import UnpicklingError

import numpy as np

_PLAIN = re.compile(r"[<>|=]?([biufc]\d{1,2}|\?|b1|[SUV]\d{1,9})")


def _require(condition, text):
    if not condition:
        raise UnpicklingError(f"load: damaged or unsafe NumPy data: {text}")


def _is_plain(dtype):
    return isinstance(dtype, np.dtype) and not dtype.hasobject and dtype.fields is None


def _scalar(dtype, data):
    _require(_is_plain(dtype) and type(data) is bytes, f"a number of type {dtype!r:.80}")
    _require(len(data) == dtype.itemsize, f"{len(data)} bytes for a {dtype}")
    return np.frombuffer(data, dtype, 1)[0]


def _dtype(text, align=False, copy=False):
    _require(type(text) is str and _PLAIN.fullmatch(text), f"a dtype {text!r:.80}")
    # A copy, because its byte order is set afterwards.
    return np.dtype(text, copy=True)


def _reconstruct(cls, shape, code):
    _require(cls is np.ndarray and shape == (0,), f"an array of class {cls!r}")
    return np.empty(0, np.int8)


def set_state(target, state):
    """What BUILD does to an array or a dtype that the functions above made."""
    _require(type(state) is tuple, f"the state of a {type(target)}")
    if isinstance(target, np.dtype):
        version, order, *rest = state
        _require(version == 3 and order in ("<", ">", "|", "="), f"a dtype of state {state!r:.80}")
        _require(_is_plain(target) and rest == [None, None, None, -1, -1, 0], "a dtype of parts")
        target.__setstate__(state)
        return
    _require(type(target) is np.ndarray and len(state) == 5, f"the state of a {type(target)}")
    version, shape, dtype, fortran, data = state
    _require(version == 1 and type(shape) is tuple and type(data) is bytes, "an array's state")
    _require(all(type(n) is int and n >= 0 for n in shape), f"an array of shape {shape!r:.80}")
    _require(_is_plain(dtype), f"an array of dtype {dtype!r:.80}")
    _require(len(data) == math.prod(shape) * dtype.itemsize, f"{len(data)} bytes for {shape}")
    target.__setstate__((version, shape, dtype, bool(fortran), data))


# Name in files -> (the object of that name, what runs when it is called).
FUNCTIONS = {"numpy.dtype": (np.dtype, _dtype)}
for _core in ("numpy.core.multiarray", "numpy._core.multiarray"):
    FUNCTIONS[f"{_core}.scalar"] = _scalar, _scalar
    FUNCTIONS[f"{_core}._reconstruct"] = _reconstruct, _reconstruct
CONSTANTS = {"numpy.ndarray": np.ndarray}
