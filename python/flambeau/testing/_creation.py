"""make_tensor: random tensors of any dtype."""

import flambeau

_BOUNDS = {"float": (-9.0, 9.0), "int": (-9, 10), "uint8": (0, 10), "bool": (0, 2)}


def _bounds(dtype, low, high):
    kind = "bool" if dtype is flambeau.bool else "uint8" if not dtype.is_signed else "int"
    if dtype.is_floating_point or dtype.is_complex:
        kind = "float"
    default = _BOUNDS[kind]
    low = default[0] if low is None else low
    high = default[1] if high is None else high
    if not low < high and not (kind == "float" and low == high):
        raise ValueError(f"make_tensor: low must be below high, got {low} and {high}")
    if low != low or high != high:
        raise ValueError(f"make_tensor: low and high must be numbers, got {low} and {high}")
    return low, high


def make_tensor(
    *shape,
    dtype,
    device="cpu",
    low=None,
    high=None,
    requires_grad=False,
    noncontiguous=False,
    exclude_zero=False,
    memory_format=None,
):
    """A tensor of random values in [low, high).

    Without bounds: [-9, 9) for floating and complex dtypes (both parts), -9 to 9 for integers, 0 to 9 for unsigned
    ones, both values of bool. `exclude_zero` puts the smallest positive number (1 for integers) where zero was drawn;
    `noncontiguous` leaves gaps between the elements.

    Raises:  ValueError for bounds in the wrong order, noncontiguous with memory_format, or requires_grad of integers.
    Example:
        >>> flambeau.testing.make_tensor(2, 3, dtype=flambeau.float32).shape
        torch.Size([2, 3])
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: noncontiguous and memory_format exclude each other")
    inexact = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not inexact:
        raise ValueError(
            f"make_tensor: requires_grad needs a floating or complex dtype, got {dtype}"
        )
    low, high = _bounds(dtype, low, high)
    drawn = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape else shape
    if dtype.is_complex:
        parts = flambeau.empty(*drawn, 2, dtype=dtype.to_real(), device=device).uniform_(low, high)
        result = flambeau.view_as_complex(parts)
    elif inexact:
        result = flambeau.empty(drawn, dtype=dtype, device=device).uniform_(low, high)
    else:
        result = flambeau.randint(low, high, drawn, device=device).to(dtype)
    if noncontiguous and shape:
        result = result[..., ::2]
    if memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = flambeau.finfo(dtype).tiny if inexact else 1
    return result.requires_grad_() if requires_grad else result
