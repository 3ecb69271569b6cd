"""__torch_function__: helpers for classes that override torch's functions."""

from flambeau import _C


class TorchFunctionMode:
    """A context in which every call of torch goes through `__torch_function__` first."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__}: must define __torch_function__")

    def __enter__(self):
        _C._push_mode(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _C._pop_mode()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def has_torch_function(relevant_args) -> bool:
    """Does any of these objects override torch's functions?"""
    return _C._has_torch_function(tuple(relevant_args))


def has_torch_function_unary(arg) -> bool:
    return _C._has_torch_function((arg,))


def has_torch_function_variadic(*args) -> bool:
    return _C._has_torch_function(args)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Asks the overriding objects, subclasses first, to do the call."""
    return _C._handle_torch_function(public_api, tuple(relevant_args), *args, **kwargs)


def is_tensor_like(inp) -> bool:
    """A Tensor, or an object that overrides torch's functions."""
    return isinstance(inp, _C.Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func) -> bool:
    return getattr(_C.Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f):
    """The name under which a function is known: "torch.add", "torch.Tensor.add"."""
    name = getattr(f, "__name__", None)
    if name is None:
        return repr(f)
    return f"torch.Tensor.{name}" if is_tensor_method_or_property(f) else f"torch.{name}"
