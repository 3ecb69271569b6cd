"""Cutting nested arguments into one part per device, and joining results."""

import flambeau

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _chunks(tensor, devices, dim):
    return [c.to(d, non_blocking=True) for c, d in zip(tensor.chunk(len(devices), dim), devices)]


def _is_namedtuple(obj) -> bool:
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs, target_gpus, dim=0):
    """One copy of the nested `inputs` per device: tensors are cut along `dim`, the rest shared."""

    def spread(obj):
        if isinstance(obj, flambeau.Tensor):
            return _chunks(obj, target_gpus, dim)
        if _is_namedtuple(obj):
            return [type(obj)(*part) for part in zip(*map(spread, obj))]
        if isinstance(obj, tuple) and obj:
            return list(zip(*map(spread, obj)))
        if isinstance(obj, list) and obj:
            return [list(part) for part in zip(*map(spread, obj))]
        if isinstance(obj, dict) and obj:
            return [type(obj)(part) for part in zip(*map(spread, obj.items()))]
        return [obj for _ in target_gpus]

    return spread(inputs)


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """`scatter` of positional and keyword arguments, as two tuples of equal length."""
    args = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    n = max(len(args), len(named))
    args += [()] * (n - len(args))
    named += [{}] * (n - len(named))
    return tuple(args), tuple(named)


def gather(outputs, target_device, dim=0):
    """Joins results of the same structure: tensors along `dim`, on `target_device`."""
    first = outputs[0]
    if isinstance(first, flambeau.Tensor):
        parts = [o.to(target_device) for o in outputs]
        if all(p.dim() == 0 for p in parts) and dim == 0:
            return flambeau.stack(parts)
        return flambeau.cat(parts, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(o) != len(first) for o in outputs):
            raise ValueError("gather: all dicts must have the same number of keys")
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
    if _is_namedtuple(first):
        return type(first)._make(gather(list(part), target_device, dim) for part in zip(*outputs))
    return type(first)(gather(list(part), target_device, dim) for part in zip(*outputs))
