"""vmap: the function runs once, on tensors that stand for one example and hold all of them.

The rules of the ops are in flambeau/autograd/batch*.cpp (docs/design/003-vmap.md).
"""

import functools
from typing import NamedTuple

import flambeau
from flambeau import _C, Tensor
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


def _out_dims_of(out_dims, spec, count, name):
    """One dim (or None) for every output."""
    if isinstance(out_dims, int) or out_dims is None:
        return [out_dims] * count
    if not isinstance(out_dims, (tuple, list)):
        raise ValueError(f"vmap({name}): out_dims must be an int or a tuple, got {out_dims}")
    if len(out_dims) == 1 and count > 1 and isinstance(out_dims[0], int):
        return list(out_dims) * count
    dims = [d for part in out_dims for d in (part if isinstance(part, (tuple, list)) else (part,))]
    if len(dims) != count:
        raise ValueError(f"vmap({name}): out_dims {out_dims} does not fit {count} outputs")
    return dims


def _run(func, name, mapped, size, out_dims, randomness):
    """One call on all examples; `mapped()` makes the arguments inside the level."""
    _C._vmap_enter(size, randomness)
    try:
        args, kwargs = mapped()
        outputs, spec = tree_flatten(func(*args, **kwargs))
        dims = _out_dims_of(out_dims, spec, len(outputs), name)
        for x in outputs:
            if not isinstance(x, Tensor):
                raise ValueError(
                    f"vmap({name}): the function must return tensors, got {type(x).__name__}"
                )
        return [_C._vmap_unwrap(x, d) for x, d in zip(outputs, dims)], dims, spec
    finally:
        _C._vmap_exit()


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that maps `func` over the dims `in_dims` of its positional arguments.

    `randomness` says what ops that draw random numbers do: "error", the "same" for all examples or
    "different". `chunk_size` bounds how many examples run at once.
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
        size = _batch_size(leaves, dims, name)
        if size == 0:
            raise ValueError(f"vmap({name}): the mapped dim must not be empty")

        def run(start, count):
            def mapped():
                inside = [
                    x if d is None else _C._vmap_wrap(_part(x, d, start, count, size), d)
                    for x, d in zip(leaves, dims)
                ]
                return tree_unflatten(inside, spec), kwargs

            return _run(func, name, mapped, count, out_dims, randomness)

        if chunk_size is None or chunk_size >= size:
            outputs, _, out_spec = run(0, size)
            return tree_unflatten(outputs, out_spec)
        state = flambeau.get_rng_state() if randomness == "same" else None
        parts = []
        for start in range(0, size, chunk_size):
            if state is not None:
                flambeau.set_rng_state(state)
            parts.append(run(start, min(chunk_size, size - start)))
        _, found_dims, out_spec = parts[0]
        joined = [
            column[0] if d is None else flambeau.cat(column, d)
            for column, d in zip(zip(*(p[0] for p in parts)), found_dims)
        ]
        return tree_unflatten(joined, out_spec)

    return wrapper


def _part(x, dim, start, count, size):
    return x if count == size else x.narrow(dim, start, count)


class VmapInfo(NamedTuple):
    """What the vmap of an autograd Function is told of the map."""

    batch_size: int
    randomness: str


def apply_function(cls, args, has_rule):
    """cls.apply(*args) for an autograd Function and arguments that may be batched."""
    found = [_C._vmap_values(x) if isinstance(x, Tensor) else None for x in args]
    number, size, randomness = _C._vmap_suspend()
    try:
        mine = [f is not None and f[1] == number for f in found]
        values = [f[0] if m else x for f, m, x in zip(found, mine, args)]
        if not any(mine):
            return cls.apply(*args)
        if has_rule:
            in_dims = tuple(0 if m else None for m in mine)
            result, dims = cls.vmap(VmapInfo(size, randomness), in_dims, *values)
        else:
            rows = [
                cls.apply(*[v.select(0, i) if m else v for v, m in zip(values, mine)])
                for i in range(size)
            ]
            single = isinstance(rows[0], Tensor)
            result = flambeau.stack(rows) if single else tuple(map(flambeau.stack, zip(*rows)))
            dims = 0
    finally:
        _C._vmap_resume()
    results, spec = tree_flatten(result)
    dims = [dims] * len(results) if isinstance(dims, int) or dims is None else list(dims)
    wrapped = [x if d is None else _C._vmap_wrap(x, d) for x, d in zip(results, dims)]
    return tree_unflatten(wrapped, spec)
