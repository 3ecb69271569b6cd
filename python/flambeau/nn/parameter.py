"""Parameter and Buffer: tensors that a module registers by themselves, and their lazy forms."""

import flambeau
from flambeau import _C, Tensor

Parameter = _C.Parameter


class _BufferMeta(type(Tensor)):
    def __instancecheck__(cls, instance):
        if cls is Buffer:
            return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)
        return type.__instancecheck__(cls, instance)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that becomes a buffer of the module it is assigned to.

    The object is a plain Tensor with a mark; `persistent=False` keeps it out of the state dict.
    """

    def __new__(cls, data=None, *, persistent=True):
        data = flambeau.empty(0) if data is None else data
        t = data.detach().requires_grad_(data.requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t


class UninitializedTensorMixin:
    """What lazy parameters and buffers share: no shape and no operators until `materialize`."""

    _allowed = frozenset(
        "__hash__ __get__ __set__ __delete__ size copy_ is_complex is_floating_point half float "
        "double char short int long cuda cpu to get_device _has_compatible_shallow_copy_type "
        "numel dim __init__ __repr__ type detach requires_grad_".split()
    )

    def materialize(self, shape, device=None, dtype=None) -> None:
        """Gives the tensor `shape` with undefined values and turns it into the ordinary class."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = flambeau.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError("uninitialized parameter: has no shape until a first forward call")

    def share_memory_(self):
        raise RuntimeError("uninitialized parameter: cannot be shared before a first forward call")

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, proto):
        return (type(self), (self.requires_grad,))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", None)
        wrapper = type(func).__name__ in ("method-wrapper", "getset_descriptor")
        if name in cls._allowed or wrapper:
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(
            f"{name}: the parameter is uninitialized; run a forward pass of the lazy module first"
        )


def is_lazy(param) -> bool:
    """Whether `param` still waits for its shape."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape the first forward call of its module decides."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        data = flambeau.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        new = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        memo[id(self)] = new
        return new


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape the first forward call of its module decides."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        data = flambeau.empty(0, device=device, dtype=dtype)
        t = Tensor._make_subclass(cls, data, requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t
