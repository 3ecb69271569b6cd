"""Methods of Tensor that are written in Python: copying, pickling, printing, type conversion."""

import copy
import math
from collections import OrderedDict

from flambeau import _C, _legacy, _utils, functional
from flambeau._tensor_str import _str

Tensor, Parameter = _C.Tensor, _C.Parameter


def _method(function, name=None):
    name = name or function.__name__
    function.__name__, function.__qualname__ = name, "Tensor." + name
    setattr(Tensor, name, function)
    return function


@_method
def __repr__(self, *, tensor_contents=None):
    return _str(self, tensor_contents=tensor_contents)


@_method
def __format__(self, format_spec):
    if self.dim() == 0 and not self.is_meta and isinstance(self, Tensor):
        return self.item().__format__(format_spec)
    return object.__format__(self, format_spec)


@_method
def __dir__(self):
    return sorted(set(dir(type(self))) | set(self.__dict__))


# ---- copies ----


def _copied_storage(self, memo):
    storage = self.untyped_storage().__deepcopy__(memo)
    return _C._tensor_on(
        storage, self.dtype, self.storage_offset(), tuple(self.shape), tuple(self.stride())
    )


@_method
def __deepcopy__(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "deepcopy: only leaves can be copied with their history, got a result of "
            f"{type(self.grad_fn).__name__}; use x.detach().clone()"
        )
    with _C._NoGrad():
        whole = (
            self.is_meta or self.layout is not _C.strided or _C._vmap_values(self)
        )  # these have no storage to copy
        fresh = self.clone() if whole else _copied_storage(self, memo)
        if type(self) is Parameter:
            fresh = Parameter(fresh, self.requires_grad)
        elif type(self) is not Tensor:
            fresh = fresh.as_subclass(type(self))
    memo[id(self)] = fresh
    if fresh.requires_grad != self.requires_grad:
        fresh.requires_grad_(self.requires_grad)
    if self.grad is not None:
        fresh.grad = self.grad.__deepcopy__(memo)
    fresh.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return fresh


# ---- pickling: the functions that pickles name are in flambeau/_utils.py ----


def _rebuild_from_type_v2(func, new_type, args, state):
    tensor = func(*args)
    if type(tensor) is not new_type:
        tensor = tensor.as_subclass(new_type)
    if new_type.__setstate__ is not Tensor.__setstate__:
        tensor.__setstate__(state)
    else:
        _utils._with_state(tensor, _utils._own_state(state))
    return tensor


def _sparse_data(self):
    if self.is_sparse:
        return self._indices(), self._values(), tuple(self.shape), self.is_coalesced()
    rows = self.layout is _C.sparse_csr
    lines = self.crow_indices() if rows else self.ccol_indices()
    others = self.col_indices() if rows else self.row_indices()
    return lines, others, self.values(), tuple(self.shape)


def _rebuild_arguments(self):
    if self.layout is not _C.strided:
        return _utils._rebuild_sparse_tensor, (self.layout, _sparse_data(self))
    if self.is_meta:
        args = (self.dtype, tuple(self.size()), self.stride(), self.requires_grad)
        return _utils._rebuild_meta_tensor_no_storage, args
    place = self.storage_offset(), tuple(self.size()), self.stride()
    args = (self.untyped_storage(), *place, self.requires_grad, OrderedDict())
    if self.dtype not in _utils.TypedStorage.NAMES:
        return _utils._rebuild_tensor_v3, (*args, self.dtype)
    storage = _utils.TypedStorage(wrap_storage=args[0], dtype=self.dtype)
    return _utils._rebuild_tensor_v2, (storage, *args[1:])


@_method
def __reduce_ex__(self, proto):
    func, args = _rebuild_arguments(self)
    state = dict(self.__dict__) or None
    if type(self) is Tensor and not state:
        return func, args
    return _rebuild_from_type_v2, (func, type(self), args, state)


@_method
def __setstate__(self, state):
    self.__dict__.update(_utils._own_state(state) or {})


def _reduce_parameter(self, proto):
    data, state = self.detach(), dict(self.__dict__)
    if not state:
        return _utils._rebuild_parameter, (data, self.requires_grad, OrderedDict())
    args = (data, self.requires_grad, OrderedDict(), state)
    return _utils._rebuild_parameter_with_state, args


def _copy_parameter(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    return Tensor.__deepcopy__(self, memo)


Parameter.__reduce_ex__ = _reduce_parameter
Parameter.__deepcopy__ = _copy_parameter
Parameter.__repr__ = lambda self: "Parameter containing:\n" + Tensor.__repr__(self)


# ---- ops whose Python form is not the operator's ----


@_method
def nonzero(self, *, as_tuple=False):
    """Indices of the elements that are not zero: one row each, or with as_tuple one tensor a dim."""
    return functional.nonzero(self, as_tuple=as_tuple)


@_method
def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, or slices along dim (see torch.unique)."""
    return functional.unique(self, sorted, return_inverse, return_counts, dim)


@_method
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """The elements, or slices along dim, without those equal to the one before them."""
    return functional.unique_consecutive(self, return_inverse, return_counts, dim)


@_method
def lu(self, pivot=True, get_infos=False):
    """Packed factors and row exchanges of A = P L U (see torch.lu)."""
    return functional.lu(self, pivot, get_infos)


Tensor.solve, Tensor.eig = functional.solve, functional.eig


@_method
def stft(self, *args, **kwargs):
    """The Fourier transform of windowed frames (see torch.stft)."""
    return functional.stft(self, *args, **kwargs)


@_method
def istft(self, *args, **kwargs):
    """The signal whose stft this is (see torch.istft)."""
    return functional.istft(self, *args, **kwargs)


# Python 2's names of the division operators.
Tensor.__div__, Tensor.__rdiv__ = Tensor.__truediv__, Tensor.__rtruediv__
Tensor.__idiv__ = Tensor.__itruediv__


@_method
def float_power_(self, exponent):
    """self ** exponent in place; self must be float64 or complex128."""
    result = self.float_power(exponent)
    if result.dtype != self.dtype:
        raise RuntimeError(f"float_power_: the result is {result.dtype}, the tensor {self.dtype}")
    return self.copy_(result)


@_method
def polygamma(self, n):
    """The n-th derivative of digamma (see torch.polygamma)."""
    return _C._VariableFunctions.polygamma(n, self)


@_method
def polygamma_(self, n):
    """polygamma in place."""
    return self.copy_(self.polygamma(n))


# ---- layouts ----


@_method
def to_sparse_coo(self):
    """The elements that are not zero as a sparse_coo tensor."""
    return self.to_sparse()


@_method
def record_stream(self, stream):
    """Tells the allocator that a stream of a device uses the memory; ops on the CPU run in order."""
    if self.is_cuda:
        raise NotImplementedError(f"record_stream: not supported on {self.device}")


@_method
def resize(self, *sizes):
    """The elements in another shape of as many; the old form of reshape."""
    sizes = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if math.prod(sizes) != self.numel():
        raise RuntimeError(
            f"resize: {tuple(sizes)} does not hold the {self.numel()} elements of {tuple(self.shape)}"
        )
    return self.contiguous().view(sizes)


@_method
def resize_as(self, tensor):
    """resize to the shape of another tensor."""
    return self.resize(*tensor.shape)


# ---- types and storages ----


def _type(self, dtype=None, non_blocking=False, **kwargs):
    """The name of the tensor's type, or the tensor in another one."""
    if dtype is None:
        return _legacy.type_name(self)
    return self.to(_legacy.dtype_of(dtype), non_blocking=non_blocking)


_method(_type, "type")


@_method
def new(self, *args, **kwargs):
    """A tensor of the same dtype on the same device, from sizes or data."""
    kwargs.setdefault("device", self.device)
    return _C._legacy_new(self.dtype, args, kwargs)


@_method
def storage(self):
    """The memory as elements of the tensor's dtype."""
    return _utils.TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


Tensor._typed_storage = storage


@_method
def storage_type(self):
    return _utils.TypedStorage


@_method
def type_as(self, other):
    """The tensor in the dtype and on the device of another one."""
    return self.to(other.device, other.dtype)


@_method
def pin_memory(self, device="cuda"):
    """Memory that a device can read directly; without a device there is nothing to pin."""
    return self


@_method
def is_shared(self):
    """Is the memory shared with other processes?"""
    return self.is_cuda or self.untyped_storage().is_shared()


@_method
def apply_(self, callable):
    """Replaces every element by callable(element); slow, for small tensors."""
    return _mapped(self, callable)


@_method
def map_(self, other, callable):
    """Replaces every element by callable(element, the other's element)."""
    return _mapped(self, callable, other.expand_as(self))


def _mapped(self, function, *others):
    if self.requires_grad:
        raise RuntimeError(
            "apply_: a tensor that requires grad cannot be changed element by element"
        )
    columns = [t.reshape(-1).tolist() for t in (self, *others)]
    values = [function(*row) for row in zip(*columns)]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


@_method
def module_load(self, other, assign=False):
    """What a module does with the entry `other` of a state dict for this parameter."""
    if assign:
        return (
            Parameter(other, other.requires_grad) if isinstance(self, Parameter) else other.detach()
        )
    return self.copy_(other).detach()


del float_power_, polygamma, polygamma_, to_sparse_coo, record_stream, resize, resize_as
del storage, new, apply_, map_, module_load, is_shared, storage_type, type_as, pin_memory
