"""Page-locked copies of what a batch holds."""

import collections.abc

from flambeau import Tensor


def pin_memory(data, device=None):
    """Pins every tensor in a batch; objects may have a pin_memory method of their own."""
    if isinstance(data, Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, collections.abc.Mapping):
        return type(data)({key: pin_memory(value, device) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, collections.abc.Sequence):
        return [pin_memory(value, device) for value in data]
    return data
