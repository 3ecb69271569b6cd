"""How pickles rebuild tensors: the functions whose names stand in every pickle.

Their arguments come out of files, so nothing is believed about them.
"""

from flambeau import _C
from flambeau.storage import TypedStorage, UntypedStorage

_LARGEST = (1 << 63) - 1


def _require(condition, text, *values):
    if not condition:
        raise RuntimeError("load: " + text.format(*values))


def _on_storage(storage, dtype, offset, size, stride):
    """A tensor on a storage's memory, if it lies inside."""
    size, stride = tuple(size), tuple(stride)
    numbers = (offset, *size, *stride)
    _require(len(size) == len(stride), "{} sizes need as many strides, got {}", size, stride)
    count, last = 1, offset
    for n, step in zip(size, stride, strict=True):
        count *= n
        last += (n - 1) * step
    _require(
        all(type(n) is int and n >= 0 for n in numbers) and count <= _LARGEST,
        "a tensor of sizes {}, strides {} and offset {} is impossible",
        size,
        stride,
        offset,
    )
    end = (last + 1 if count else 0) * dtype.itemsize
    _require(
        end <= storage.nbytes() and offset * dtype.itemsize <= _LARGEST,
        "sizes {} with strides {} at offset {} need {} bytes, the storage has {}",
        size,
        stride,
        offset,
        end,
        storage.nbytes(),
    )
    return _C._tensor_on(storage, dtype, offset, size, stride)


def _rebuild_tensor(storage, storage_offset, size, stride):
    _require(isinstance(storage, TypedStorage), "a tensor needs a storage, got {}", type(storage))
    untyped = storage._untyped_storage
    return _on_storage(untyped, storage.dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None
):
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    return _finished(tensor, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None
):
    untyped = getattr(storage, "_untyped_storage", storage)
    _require(isinstance(untyped, UntypedStorage), "a tensor needs a storage, got {}", type(storage))
    _require(isinstance(dtype, _C.dtype), "a tensor needs a dtype, got {}", type(dtype))
    tensor = _on_storage(untyped, dtype, storage_offset, size, stride)
    return _finished(tensor, requires_grad, metadata)


def _finished(tensor, requires_grad, metadata):
    if metadata:
        # The bytes are those before conj() or neg(), which torch applies when they are used.
        with _C._NoGrad():
            tensor = tensor.conj() if metadata.get("conj") else tensor
            tensor = tensor.neg() if metadata.get("neg") else tensor
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def _with_state(tensor, state):
    """Attributes go into the dict alone: a file must not reach properties such as `data`."""
    if state:
        tensor.__dict__.update((str(key), value) for key, value in state.items())
    return tensor


def _own_state(state):
    return state[0] if isinstance(state, tuple) else state


def _rebuild_parameter(data, requires_grad, backward_hooks):
    return _C.Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return _with_state(_C.Parameter(data, requires_grad), _own_state(state))


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    tensor = _C.as_tensor(data, dtype=dtype, device=device)
    return tensor.requires_grad_(bool(requires_grad))


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    return _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    tensor = _C._VariableFunctions.empty_strided(
        tuple(size), tuple(stride), dtype=dtype, device="meta"
    )
    return tensor.requires_grad_(bool(requires_grad))


def _flatten_dense_tensors(tensors):
    """The elements of all tensors as one vector."""
    return _C._VariableFunctions.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of a vector that have the shapes of the tensors."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view_as(t) for part, t in zip(parts, tensors))


def _rebuild_sparse_tensor(layout, data):
    from flambeau import sparse

    if layout is not _C.sparse_coo:
        return sparse.sparse_compressed_tensor(*data, layout=layout)
    indices, values, size, *coalesced = data
    return sparse.sparse_coo_tensor(indices, values, size, is_coalesced=any(coalesced))
