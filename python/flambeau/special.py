"""Special functions."""

from flambeau import _C

_PREFIX = "special_"
globals().update(
    (name.removeprefix(_PREFIX), function)
    for name, function in vars(_C._special).items()
    if not name.startswith("__")
)
__all__ = sorted(
    name.removeprefix(_PREFIX) for name in vars(_C._special) if not name.startswith("__")
)
