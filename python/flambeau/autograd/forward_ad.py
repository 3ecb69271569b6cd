"""Forward mode: tensors with a tangent, which ops carry on."""

from collections import namedtuple

from flambeau import _C

__all__ = [
    "UnpackedDualTensor",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
    "dual_level",
]


class UnpackedDualTensor(namedtuple("UnpackedDualTensor", ["primal", "tangent"])):
    """A tensor and its tangent, None if it has none."""

    __slots__ = ()


def enter_dual_level():
    """Begins a level: dual tensors can be made until it ends."""
    return _C._enter_dual_level()


def exit_dual_level(*, level=None):
    """Ends the level; its tensors lose their tangents."""
    _C._exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """A view of `tensor` that carries `tangent`."""
    return _C._make_dual(tensor, tangent)


def unpack_dual(tensor, *, level=None):
    """(primal, tangent) of a tensor; of one that is not dual the tangent is None."""
    return UnpackedDualTensor(*_C._unpack_dual(tensor))


class dual_level:
    """A level for the length of a `with` block, or of a decorated function."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *args):
        exit_dual_level()

    def __call__(self, func):
        from flambeau.utils._contextlib import context_decorator

        return context_decorator(self, func)
