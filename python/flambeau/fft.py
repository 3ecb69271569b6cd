"""Discrete Fourier transforms."""

from flambeau import _C

_PREFIX = "fft_"
globals().update(
    (name.removeprefix(_PREFIX), function)
    for name, function in vars(_C._fft).items()
    if not name.startswith("__")
)
__all__ = sorted(name.removeprefix(_PREFIX) for name in vars(_C._fft) if not name.startswith("__"))
