"""Layers, losses and what builds them. Names load on first use."""

import importlib

from flambeau.nn.modules import _HOMES

_PARAMETERS = ("Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter")
_SUBMODULES = (
    "attention",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
)

__all__ = [*_HOMES, *_PARAMETERS, "DataParallel", "factory_kwargs"]


def factory_kwargs(kwargs):
    """The `device`, `dtype` and `memory_format` among `kwargs`, those of "factory_kwargs" in."""
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    expected = simple | {"factory_kwargs"}
    if not kwargs.keys() <= expected:
        raise TypeError(f"unexpected kwargs {kwargs.keys() - expected}")
    out = dict(kwargs.get("factory_kwargs", {}))
    for key in simple & kwargs.keys():
        if key in out:
            raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
        out[key] = kwargs[key]
    return out


def __getattr__(name):
    if name in _HOMES:
        value = getattr(importlib.import_module("flambeau.nn.modules." + _HOMES[name]), name)
    elif name in _PARAMETERS:
        value = getattr(importlib.import_module("flambeau.nn.parameter"), name)
    elif name == "DataParallel":
        value = importlib.import_module("flambeau.nn.parallel").DataParallel
    elif name in _SUBMODULES:
        value = importlib.import_module("flambeau.nn." + name)
    else:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_SUBMODULES})
