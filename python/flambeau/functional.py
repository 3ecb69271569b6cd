"""Functions of the torch namespace whose Python form is not the operator's: mostly those that take
any number of tensors.
"""

import functools
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
    "cdist",
    "chain_matmul",
    "einsum",
    "meshgrid",
    "nonzero",
    "norm",
    "split",
    "tensordot",
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


def nonzero(input, *, out=None, as_tuple=False):
    """Indices of the elements that are not zero: one row each, or with as_tuple one tensor a dim."""
    if as_tuple:
        return _ops.nonzero_numpy(input)
    return _ops.nonzero(input, out=out) if out is not None else _ops.nonzero(input)


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
    indices = indices.to(_C.int64)
    return tuple(indices // step % n for step, n in zip(reversed(steps), sizes))


def chain_matmul(*matrices, out=None):
    """The product of several matrices."""
    result = functools.reduce(_ops.matmul, _listed(matrices))
    return result if out is None else out.copy_(result)


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _term(sublist):
    return "".join("..." if s is Ellipsis else _LETTERS[s] for s in sublist)


def einsum(*args):
    """Sums of products in Einstein's notation: einsum("ij,jk->ik", a, b) is a @ b.

    Labels that the output does not name are summed; "..." stands for any leading dims. Instead of an
    equation, each operand may be followed by the list of its labels, and the output's come last.
    """
    if len(args) < 2:
        raise ValueError("einsum: needs an equation and at least one operand")
    if isinstance(args[0], str):
        return _ops.einsum(args[0], _listed(args[1:]))
    operands, labels = list(args[0::2]), [_term(sublist) for sublist in args[1::2]]
    equation = ",".join(labels)
    if len(args) % 2:
        equation += "->" + _term(operands.pop())
    return _ops.einsum(equation, operands)


def tensordot(a, b, dims=2, out=None):
    """Sums products over `dims`: the last of a with the first of b, or two lists of dims."""
    if isinstance(dims, _C.Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot: dims must not be negative, got {dims}")
        if dims > min(_C.Tensor.dim(a), _C.Tensor.dim(b)):
            shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
            raise RuntimeError(f"tensordot: {dims} dims are more than shapes {shapes} have")
        dims = list(range(-dims, 0)), list(range(dims))
    left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    if out is None:
        return _ops.tensordot(a, b, left, right)
    return _ops.tensordot(a, b, left, right, out=out)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """A norm of all entries or along `dim`; p may be "fro", or "nuc" for matrices."""
    if p == "nuc":
        from flambeau import linalg

        result = linalg.matrix_norm(
            input, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim, dtype=dtype
        )
        return result if out is None else out.copy_(result)
    p = 2 if p in ("fro", None) else p
    if isinstance(p, str):
        raise RuntimeError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
    options = {k: v for k, v in (("dtype", dtype), ("out", out)) if v is not None}
    if dim is None and not keepdim and out is None:
        return _ops.norm(input, p, **options)
    dims = list(range(input.dim())) if dim is None else dim
    return _ops.norm(input, p, dims, keepdim, **options)


_C.Tensor.norm = lambda self, p="fro", dim=None, keepdim=False, dtype=None: norm(
    self, p, dim, keepdim, dtype=dtype
)


def split(tensor, split_size_or_sections, dim=0):
    """The tensor in pieces of one size along `dim`, or of the sizes in a list."""
    return _C.Tensor.split(tensor, split_size_or_sections, dim)


_C.Tensor.unique, _C.Tensor.unique_consecutive = unique, unique_consecutive


_DISTANCE_MODES = [
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
]


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The p-norm of the difference of each row of x1 and each row of x2."""
    if compute_mode not in _DISTANCE_MODES:
        raise ValueError(
            f"cdist: compute_mode must be one of {_DISTANCE_MODES}, got {compute_mode}"
        )
    return _ops.cdist(x1, x2, p, _DISTANCE_MODES.index(compute_mode) or None)
