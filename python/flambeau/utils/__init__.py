"""Helpers around tensors and modules. Submodules load when they are first asked for."""

import importlib
import os

# Where CMake finds the package for C++ programs: find_package(flambeau).
cmake_prefix_path = os.path.dirname(os.path.dirname(__file__))


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    full = f"{__name__}.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
