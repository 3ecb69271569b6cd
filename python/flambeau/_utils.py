"""How pickles rebuild tensors: the functions whose names stand in every pickle."""

from flambeau import _C
from flambeau.storage import TypedStorage


def _untyped(storage):
    return storage._untyped_storage if isinstance(storage, TypedStorage) else storage


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _C._tensor_on(
        _untyped(storage), storage.dtype, storage_offset, tuple(size), tuple(stride)
    )


def _with_state(tensor, state):
    for key, value in (state or {}).items():
        setattr(tensor, key, value)
    return tensor


def _rebuild_tensor_v2(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None
):
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_tensor_v3(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None
):
    tensor = _C._tensor_on(_untyped(storage), dtype, storage_offset, tuple(size), tuple(stride))
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_parameter(data, requires_grad, backward_hooks):
    return _C.Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return _with_state(_C.Parameter(data, requires_grad), _own_state(state))


def _own_state(state):
    return state[0] if isinstance(state, tuple) else state


def _rebuild_device_tensor(array, dtype, device, requires_grad):
    tensor = _C.as_tensor(array, dtype=dtype, device=device)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    tensor = _C._VariableFunctions.empty_strided(
        tuple(size), tuple(stride), dtype=dtype, device="meta"
    )
    return tensor.requires_grad_(requires_grad)
