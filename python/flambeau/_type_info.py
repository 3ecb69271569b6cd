"""finfo and iinfo: the limits of number types."""

from flambeau import _C

# bits, eps, max, smallest_normal, resolution
_FLOATS = {
    _C.float16: (16, 2.0**-10, 65504.0, 2.0**-14, 1e-3),
    _C.bfloat16: (16, 2.0**-7, 2.0**127 * (2 - 2.0**-7), 2.0**-126, 1e-2),
    _C.float32: (32, 2.0**-23, 2.0**127 * (2 - 2.0**-23), 2.0**-126, 1e-6),
    _C.float64: (64, 2.0**-52, 2.0**1023 * (2 - 2.0**-52), 2.0**-1022, 1e-15),
}
_REAL = {_C.complex64: _C.float32, _C.complex128: _C.float64}


class _Info:
    __slots__ = ("_type",)

    def __eq__(self, other):
        return type(self) is type(other) and self._type is other._type

    def __hash__(self):
        return hash((type(self), self._type))

    @property
    def dtype(self):
        return str(self._type).removeprefix("torch.")


class finfo(_Info):
    """Limits of a floating dtype: eps, max, min, tiny, resolution."""

    __slots__ = ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution")

    def __init__(self, type=None):
        type = _C.get_default_dtype() if type is None else type
        if not isinstance(type, _C.dtype):
            raise TypeError(f"finfo: type must be dtype, got {type.__class__.__name__}")
        self._type = _REAL.get(type, type)
        if self._type not in _FLOATS:
            raise TypeError(f"finfo: type must be a floating dtype, got {type}")
        self.bits, self.eps, self.max, self.tiny, self.resolution = _FLOATS[self._type]
        self.min, self.smallest_normal = -self.max, self.tiny

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_Info):
    """Limits of an integer dtype: bits, max, min."""

    __slots__ = ("bits", "max", "min")

    def __init__(self, type):
        if not isinstance(type, _C.dtype):
            raise TypeError(f"iinfo: type must be dtype, got {type.__class__.__name__}")
        if type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(f"iinfo: type must be an integer dtype, got {type}")
        self._type = type
        self.bits = 8 * type.itemsize
        self.max = 2 ** (self.bits - type.is_signed) - 1
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
