"""Modes below the tape: Python that is asked where a kernel would compute."""

import contextlib

from flambeau import _C


class TorchDispatchMode:
    """A context in which `__torch_dispatch__` is asked for every op, below autograd.

    `func` is an overload such as `flambeau.ops.aten.add.Tensor`; calling it computes. What the handler returns is
    what the op gives, and the tape records around it: inputs that require grad get their gradient as ever, and the
    ops of a backward pass come by as well. Inside of the handler the mode is off and nothing is recorded; modes
    nest, the inner one is asked first.

    Raises:
        TypeError: the handler returned NotImplemented, or not what the op gives.

    Example:
        >>> class Log(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     y = flambeau.ones(2) + 1
        aten.ones.default
        aten.add.Tensor
    """

    def __init__(self, _dispatch_key=None):
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__}: must define __torch_dispatch__")

    def __enter__(self):
        _C._push_dispatch_mode(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _C._pop_dispatch_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """A new mode, as the older spelling `with Mode.push():` makes it."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode_stack() -> list:
    """The modes that an op would ask now, the innermost last."""
    return _C._dispatch_modes()


def _get_current_dispatch_mode():
    """The innermost mode, None outside of all."""
    modes = _C._dispatch_modes()
    return modes[-1] if modes else None


def is_in_torch_dispatch_mode() -> bool:
    """Would an op ask a mode?"""
    return bool(_C._dispatch_modes())


@contextlib.contextmanager
def _pop_mode_temporarily():
    """The innermost mode steps aside for a while."""
    mode = _C._pop_dispatch_mode()
    try:
        yield mode
    finally:
        _C._push_dispatch_mode(mode)


@contextlib.contextmanager
def _disable_current_modes():
    """No mode sees what happens inside; gives the modes that it hides."""
    modes = _C._dispatch_modes()
    _C._hide_from_dispatch(True)
    try:
        yield modes
    finally:
        _C._hide_from_dispatch(False)


def is_traceable_wrapper_subclass(t) -> bool:
    """Does a tensor's class say how to take it apart and put it together?"""
    return isinstance(t, _C.Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    own = t is not _C.Tensor and issubclass(t, _C.Tensor)
    return own and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
