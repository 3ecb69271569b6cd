"""Variable, the name of tensors with gradients before torch 0.4."""

from flambeau import Tensor

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """Variable(tensor, requires_grad) is the tensor itself, detached."""

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if data is None:
            import flambeau

            data = flambeau.empty(0)
        result = data.detach() if data.requires_grad else data.view_as(data)
        return result.requires_grad_(requires_grad)
