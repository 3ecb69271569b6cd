"""Versions: `__version__` is the torch release whose interface is followed, `flambeau` our own."""

from flambeau._runner import TORCH_VERSION

__version__ = TORCH_VERSION
debug = False
cuda = None
hip = None
xpu = None
git_version = "Unknown"


def __getattr__(name):
    if name == "flambeau":
        from flambeau._version import version

        return version
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
