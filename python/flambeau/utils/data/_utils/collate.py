"""How samples become a batch: tensors are stacked, numbers become tensors, containers are entered."""

import collections.abc
import copy
import re
import sys

import flambeau
from flambeau import Tensor

np_str_obj_array_pattern = re.compile(r"[SaUO]")

default_collate_err_msg_format = (
    "default_collate: samples must be tensors, NumPy arrays, numbers, strings, dicts, tuples or "
    "lists, got {}"
)


def _is_numpy(value):
    # NumPy stays unloaded unless somebody else has loaded it.
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return False
    return not isinstance(value, (str, bytes))


def _rebuilt(template, keep, values):
    """A container like `template` with other values; `keep` is what stands in where it cannot be."""
    try:
        if isinstance(template, collections.abc.MutableMapping):
            clone = copy.copy(template)
            clone.update(values)
            return clone
        if isinstance(template, collections.abc.MutableSequence):
            clone = copy.copy(template)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(template)(values)
    except TypeError:
        return keep(values)


def default_convert(data):
    """NumPy arrays and numbers of a sample become tensors; everything else stays."""
    if isinstance(data, Tensor):
        return data
    if _is_numpy(data):
        if data.shape and np_str_obj_array_pattern.search(data.dtype.str):
            return data
        return flambeau.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt(data, dict, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        values = [default_convert(value) for value in data]
        return type(data)(*values) if hasattr(data, "_fields") else values
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt(data, list, [default_convert(value) for value in data])
    return data


def collate(batch, *, collate_fn_map=None):
    """default_collate with functions of one's own for some types of samples."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for types in collate_fn_map:
            if isinstance(first, types):
                return collate_fn_map[types](batch, collate_fn_map=collate_fn_map)

    def inner(samples):
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, collections.abc.Mapping):
        return _rebuilt(first, dict, {key: inner([d[key] for d in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(inner(samples) for samples in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        sizes = {len(sample) for sample in batch}
        if len(sizes) > 1:
            raise RuntimeError(
                f"default_collate: lists in a batch must be of equal size, got {sorted(sizes)}"
            )
        columns = [inner(samples) for samples in zip(*batch)]
        # Tuples become lists, as in torch.
        return columns if isinstance(first, tuple) else _rebuilt(first, list, columns)
    raise TypeError(default_collate_err_msg_format.format(kind))


place = None  # in a worker: makes room for a tensor where the batch will travel
_LARGE = 1 << 14  # bytes of a sample from which a copy of its own pays


def _stack_in_place(batch):
    """A large stack made where it will travel, None if that is not possible."""
    first = batch[0]
    if first.numel() * first.element_size() < _LARGE:
        return None
    for t in batch:
        plain = type(t) is Tensor and t.device.type == "cpu" and not t.requires_grad
        if not plain or t.shape != first.shape or t.dtype != first.dtype:
            return None
    out = place((len(batch), *first.shape), first.dtype)
    if out is not None:
        for row, sample in zip(out.unbind(0), batch):
            row.copy_(sample)
    return out


def collate_tensor_fn(batch, *, collate_fn_map=None):
    out = _stack_in_place(batch) if place else None
    return flambeau.stack(batch, 0) if out is None else out


def collate_numpy_fn(batch, *, collate_fn_map=None):
    first = batch[0]
    if first.shape == ():
        return flambeau.as_tensor(batch)
    if np_str_obj_array_pattern.search(first.dtype.str):
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    tensors = [flambeau.as_tensor(array) for array in batch]
    return collate(tensors, collate_fn_map=collate_fn_map)


def collate_float_fn(batch, *, collate_fn_map=None):
    return flambeau.tensor(batch, dtype=flambeau.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    return flambeau.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    return batch


default_collate_fn_map = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch):
    """A batch of samples: tensors and arrays stacked along a new first dim, numbers as a tensor,
    strings as a list, dicts, tuples and lists entered.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return collate_tensor_fn(batch)
    return collate(batch, collate_fn_map=_maps())


def _maps():
    numpy = sys.modules.get("numpy")
    if numpy is not None and numpy.ndarray not in default_collate_fn_map:
        numbers = (numpy.bool_, numpy.number, numpy.object_)
        # Before float, which numpy.float64 is a subclass of.
        ours = dict(default_collate_fn_map)
        default_collate_fn_map.clear()
        default_collate_fn_map[numpy.ndarray] = collate_numpy_fn
        default_collate_fn_map[numbers] = collate_numpy_fn
        default_collate_fn_map.update(ours)
    return default_collate_fn_map
