"""The named tuples that ops with several results return; each is made when it is first asked for."""

from flambeau import _C


def __getattr__(name):
    found = _C._return_type(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def __dir__():
    return sorted(name for name in _C._op_names() if _C._return_type(name))
