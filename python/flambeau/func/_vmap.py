"""vmap by running the function once per element of the batch and stacking the results.

The results are those of a map; the cost is that of a loop.
"""

import functools

import flambeau
from flambeau import Tensor
from flambeau.utils._pytree import tree_flatten, tree_unflatten


def _dims_of(in_dims, args, name):
    """One dim (or None) for every leaf of the arguments."""
    if isinstance(in_dims, int) or in_dims is None:
        return [in_dims] * len(tree_flatten(args)[0])
    if isinstance(in_dims, dict):
        return [d for key in args for d in _dims_of(in_dims[key], args[key], name)]
    if not isinstance(in_dims, (tuple, list)) or len(in_dims) != len(args):
        raise ValueError(f"vmap({name}): in_dims {in_dims} does not fit the {len(args)} arguments")
    return [d for dims, arg in zip(in_dims, args) for d in _dims_of(dims, arg, name)]


def _batch_size(leaves, dims, name):
    sizes = set()
    for x, d in zip(leaves, dims):
        if d is None:
            continue
        if not isinstance(x, Tensor):
            raise ValueError(
                f"vmap({name}): in_dim {d} belongs to {type(x).__name__}; only tensors have dims"
            )
        if not -x.dim() <= d < x.dim():
            raise ValueError(
                f"vmap({name}): in_dim {d} is out of range for a tensor of {x.dim()} dims"
            )
        sizes.add(x.size(d))
    if not sizes:
        raise ValueError(f"vmap({name}): at least one in_dim must not be None")
    if len(sizes) > 1:
        raise ValueError(f"vmap({name}): the sizes of the mapped dims differ: {sorted(sizes)}")
    return sizes.pop()


def _stacked(columns, spec, out_dims, name):
    count = len(columns)
    dims = [out_dims] * count if isinstance(out_dims, int) or out_dims is None else out_dims
    if not isinstance(dims, (tuple, list)):
        raise ValueError(f"vmap({name}): out_dims must be an int or a tuple, got {out_dims}")
    if len(dims) != count:
        raise ValueError(f"vmap({name}): out_dims {out_dims} does not fit {count} outputs")
    results = []
    for column, dim in zip(columns, dims):
        if not isinstance(column[0], Tensor):
            raise ValueError(
                f"vmap({name}): the function must return tensors, got {type(column[0]).__name__}"
            )
        results.append(column[0] if dim is None else flambeau.stack(column, dim))
    return tree_unflatten(results, spec)


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that maps `func` over the dims `in_dims` of its arguments.

    `randomness="same"` gives every element the same random numbers.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("vmap: `chunk_size` should be None or greater than 0.")
    name = getattr(func, "__name__", repr(func))

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        leaves, spec = tree_flatten(args)
        dims = _dims_of(in_dims, args, name)
        count = _batch_size(leaves, dims, name)
        if count == 0:
            raise ValueError(f"vmap({name}): the mapped dim must not be empty")
        state = flambeau.get_rng_state() if randomness == "same" else None
        rows, out_spec = [], None
        for i in range(count):
            if state is not None:
                flambeau.set_rng_state(state)
            slices = [x if d is None else x.select(d, i) for x, d in zip(leaves, dims)]
            mapped = {k: v[i] if isinstance(v, Tensor) else v for k, v in kwargs.items()}
            row, out_spec = tree_flatten(func(*tree_unflatten(slices, spec), **mapped))
            rows.append(row)
        return _stacked(list(zip(*rows)), out_spec, out_dims, name)

    return wrapper
