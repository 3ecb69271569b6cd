"""Functions of the torch namespace whose Python form is not the operator's: mostly those that take
any number of tensors.
"""

import itertools

from flambeau import _C

_ops = _C._VariableFunctions

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "meshgrid",
    "unique",
    "unique_consecutive",
    "unravel_index",
]


def _listed(tensors):
    """f(a, b) and f([a, b]) mean the same."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return list(tensors[0])
    return list(tensors)


def meshgrid(*tensors, indexing=None):
    """Coordinates of a grid: the i-th result holds vector i along dim i ("xy" swaps the first two)."""
    if indexing is None:
        return tuple(_ops.meshgrid(_listed(tensors)))
    return tuple(_ops.meshgrid(_listed(tensors), indexing=indexing))


def cartesian_prod(*tensors):
    """All combinations with one element of each vector, one a row."""
    return _ops.cartesian_prod(_listed(tensors))


def block_diag(*tensors):
    """A matrix with the given ones along its diagonal."""
    return _ops.block_diag(_listed(tensors))


def _at_least(op, tensors):
    if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
        return op(tensors[0])
    return tuple(op(t) for t in _listed(tensors))


def atleast_1d(*tensors):
    """Tensors with at least one dim."""
    return _at_least(_ops.atleast_1d, tensors)


def atleast_2d(*tensors):
    """Tensors with at least two dims; new ones come first."""
    return _at_least(_ops.atleast_2d, tensors)


def atleast_3d(*tensors):
    """Tensors with at least three dims."""
    return _at_least(_ops.atleast_3d, tensors)


def broadcast_shapes(*shapes):
    """The shape that all the given ones broadcast to."""
    whole = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    for shape in whole:
        if any(n < 0 for n in shape):
            raise RuntimeError(f"broadcast_shapes: sizes must not be negative, got {shape}")
    result = []
    for sizes in itertools.zip_longest(*(reversed(s) for s in whole), fillvalue=1):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            shown = " and ".join(map(str, whole))
            raise RuntimeError(f"broadcast_shapes: shapes must broadcast, got {shown}")
        result.append(wide.pop() if wide else 1)
    return _C.Size(reversed(result))


def broadcast_tensors(*tensors):
    """Views of the tensors, all with the shape that they broadcast to."""
    tensors = _listed(tensors)
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


def _chosen(values, inverse, counts, return_inverse, return_counts):
    """Only what was asked for; a tensor by itself if that is all."""
    found = [values] + [inverse] * bool(return_inverse) + [counts] * bool(return_counts)
    return tuple(found) if len(found) > 1 else values


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, or slices along dim; with the place of each element among them and
    how often each occurs, if asked for.
    """
    if dim is None:
        found = _ops._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = _ops.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _chosen(*found, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements, or slices along dim, without those equal to the one before them."""
    found = _ops.unique_consecutive(input, return_inverse, return_counts, dim)
    return _chosen(*found, return_inverse, return_counts)


def unravel_index(indices, shape):
    """Row-major positions as one index tensor a dim."""
    if not isinstance(indices, _C.Tensor):
        raise TypeError(f"unravel_index: indices must be a Tensor, got {type(indices).__name__}")
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype == _C.bool:
        raise TypeError(f"unravel_index: indices must be integers, got {indices.dtype}")
    if not isinstance(shape, (int, list, tuple)):
        raise TypeError(f"unravel_index: shape must be sizes, got {type(shape).__name__}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: sizes must not be negative, got {sizes}")
    steps = list(itertools.accumulate(reversed(sizes[1:]), lambda a, b: a * b, initial=1))
    return tuple(
        indices.div(step, rounding_mode="floor") % n for step, n in zip(reversed(steps), sizes)
    )
