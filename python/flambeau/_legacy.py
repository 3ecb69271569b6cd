"""torch.FloatTensor and its relatives: classes that construct tensors of one dtype."""

from flambeau import _C

_TYPES = {
    "Float": _C.float32,
    "Double": _C.float64,
    "Half": _C.float16,
    "BFloat16": _C.bfloat16,
    "Byte": _C.uint8,
    "Char": _C.int8,
    "Short": _C.int16,
    "Int": _C.int32,
    "Long": _C.int64,
    "Bool": _C.bool,
    "ComplexFloat": _C.complex64,
    "ComplexDouble": _C.complex128,
}


class tensortype(type):
    """The class of these classes: calling one makes a plain Tensor."""

    def __call__(cls, *args, size=None, device=None):
        args = args if size is None else (_C.Size(size),)
        return _C._legacy_new(cls.dtype, args, {} if device is None else {"device": device})

    def __instancecheck__(cls, instance):
        return isinstance(instance, _C.Tensor) and instance.dtype is cls.dtype and instance.is_cpu

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"

    def __str__(cls):
        return f"torch.{cls.__name__}"


def _make(name, dtype):
    return tensortype(
        name + "Tensor", (), {"dtype": dtype, "is_cuda": False, "__module__": "flambeau"}
    )


TENSOR_TYPES = {name + "Tensor": _make(name, dtype) for name, dtype in _TYPES.items()}
NAME_OF_DTYPE = {t.dtype: f"torch.{name}" for name, t in TENSOR_TYPES.items()}


def dtype_of(spec):
    """The dtype meant by a dtype, a typed class, its name, or one of Python's number types."""
    if isinstance(spec, tensortype):
        return spec.dtype
    if isinstance(spec, str):
        name = spec.rpartition(".")[2]
        if name == "Tensor":
            return _C.get_default_dtype()
        if name not in TENSOR_TYPES:
            raise ValueError(f"type: unknown tensor type {spec!r}")
        return TENSOR_TYPES[name].dtype
    if spec is _C.Tensor:
        return _C.get_default_dtype()
    return spec


def type_name(t):
    """What x.type() says: "torch.FloatTensor"."""
    room = "" if t.is_cpu else f"{t.device.type}."
    return NAME_OF_DTYPE.get(t.dtype, "torch.Tensor").replace("torch.", "torch." + room)


def set_default_tensor_type(t) -> None:
    """Sets the default dtype by a tensor type."""
    _C.set_default_dtype(dtype_of(t))
