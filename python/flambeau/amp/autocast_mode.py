"""torch.autocast and what asks for its state."""

import functools
import warnings

from flambeau import _C
from flambeau.utils._contextlib import context_decorator

_HALF = (_C.bfloat16, _C.float16)
# Types of devices that scripts name: the dtype they would use. Only the CPU's can be on.
_dtypes = {"cuda": _C.float16, "xpu": _C.float16, "mps": _C.float16, "fake": _C.bfloat16}
_cache = {"enabled": True}
_depth = {"nesting": 0}


def _type_of(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"autocast: device_type must be a str, got {type(device_type).__name__}")
    return device_type.partition(":")[0]


def is_autocast_available(device_type) -> bool:
    """Can autocast be on for this type of device?"""
    return _type_of(device_type) == "cpu"


def is_autocast_enabled(device_type="cuda") -> bool:
    """Is autocast on for this type of device?"""
    return _type_of(device_type) == "cpu" and _C._autocast_is_on()


def set_autocast_enabled(device_type, enabled=None) -> None:
    """Turns autocast of a type of device on or off; of cuda, if only a bool is given."""
    device_type, enabled = ("cuda", device_type) if enabled is None else (device_type, enabled)
    if _type_of(device_type) == "cpu":
        _C._set_autocast(enabled, _C._autocast_dtype())


def get_autocast_dtype(device_type):
    """The lower type that autocast uses on this type of device."""
    device_type = _type_of(device_type)
    return _C._autocast_dtype() if device_type == "cpu" else _dtypes.get(device_type, _C.float16)


def set_autocast_dtype(device_type, dtype) -> None:
    if _type_of(device_type) == "cpu":
        _C._set_autocast(_C._autocast_is_on(), dtype)
    else:
        _dtypes[_type_of(device_type)] = dtype


def is_autocast_cpu_enabled() -> bool:
    return _C._autocast_is_on()


def set_autocast_cpu_enabled(enabled) -> None:
    set_autocast_enabled("cpu", enabled)


def get_autocast_gpu_dtype():
    return _dtypes["cuda"]


def set_autocast_gpu_dtype(dtype) -> None:
    _dtypes["cuda"] = dtype


def get_autocast_cpu_dtype():
    return _C._autocast_dtype()


def set_autocast_cpu_dtype(dtype) -> None:
    set_autocast_dtype("cpu", dtype)


def is_autocast_cache_enabled() -> bool:
    return _cache["enabled"]


def set_autocast_cache_enabled(enabled) -> None:
    """Weights are cast anew each time here, so there is nothing to keep."""
    _cache["enabled"] = bool(enabled)


def clear_autocast_cache() -> None:
    """Nothing is kept between ops."""


def autocast_increment_nesting() -> int:
    _depth["nesting"] += 1
    return _depth["nesting"]


def autocast_decrement_nesting() -> int:
    _depth["nesting"] -= 1
    return _depth["nesting"]


class autocast:
    """Inside, products run in a half type and losses in float32; as a decorator, in the function.

    dtype: bfloat16 on the CPU unless given, float16 on CUDA.
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self.device = _type_of(device_type)
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = _cache["enabled"] if cache_enabled is None else cache_enabled
        if not isinstance(enabled, (bool, int)):
            raise TypeError(f"autocast: enabled must be bool, got {type(enabled).__name__}")
        if enabled and self.device != "cpu":
            warnings.warn(
                f"autocast: device type {self.device!r} is not available; autocast stays off",
                stacklevel=2,
            )
            enabled = False
        if enabled and self.fast_dtype not in _HALF:
            warnings.warn(
                f"autocast: the CPU's lower types are bfloat16 and float16, got {self.fast_dtype}; "
                "autocast stays off",
                stacklevel=2,
            )
            enabled = False
        self._enabled = bool(enabled)

    def __enter__(self):
        self._before = _C._autocast_is_on(), _C._autocast_dtype(), _cache["enabled"]
        autocast_increment_nesting()
        if self.device == "cpu":
            _C._set_autocast(self._enabled, self.fast_dtype if self._enabled else self._before[1])
        set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        autocast_decrement_nesting()
        if self.device == "cpu":
            _C._set_autocast(*self._before[:2])
        set_autocast_cache_enabled(self._before[2])
        return False

    def clone(self):
        """The same context again, for a decorated function that runs in several threads at once."""
        fresh = object.__new__(type(self))
        fresh.__dict__.update(self.__dict__)
        return fresh

    def __call__(self, func):
        return context_decorator(self, func)


def autocast_decorator(autocast_instance, func):
    """`func`, run inside a fresh copy of the context."""
    return context_decorator(autocast_instance, func)


def _cast(value, device_type, dtype):
    if isinstance(value, _C.Tensor):
        fits = value.is_floating_point() and value.device.type == device_type
        return value.to(dtype) if fits and value.dtype is not _C.float64 else value
    if isinstance(value, dict):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        parts = [_cast(v, device_type, dtype) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """For the forward of a custom Function: backward runs under the same autocast state.

    cast_inputs: floating arguments are cast to this type first, and autocast is off inside.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def run(*args, **kwargs):
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = is_autocast_enabled(device_type)
        if cast_inputs is None or not args[0]._fwd_used_autocast:
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(
                *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs)
            )

    return run


def custom_bwd(bwd=None, *, device_type):
    """For the backward of a custom Function: runs under the autocast state of its forward."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def run(*args, **kwargs):
        enabled = args[0]._fwd_used_autocast
        with autocast(device_type, enabled=enabled, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return run
