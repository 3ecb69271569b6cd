"""Weights split into length and direction by a hook: the old interface.

The new one is parametrizations.weight_norm.
"""

import warnings

from flambeau.nn.parameter import Parameter, is_lazy

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def norm_except_dim(v, dim):
    """The Euclidean norm over all dimensions but `dim` (-1: over all), which stay as ones."""
    if dim == -1:
        return v.norm()
    dims = [i for i in range(v.dim()) if i != dim % v.dim()]
    return v.norm(2, dims, keepdim=True) if dims else v.abs()


class WeightNorm:
    """The forward pre-hook: weight = weight_g * weight_v / |weight_v| (Salimans & Kingma 2016)."""

    def __init__(self, name, dim) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module):
        """The weight from its two parameters."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, self.dim))

    @staticmethod
    def apply(module, name, dim):
        """Splits the parameter `name` and registers the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"weight_norm: parameter {name} already has a weight norm hook")
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                f"weight_norm: {name} is uninitialized; run a forward pass of the lazy module first"
            )
        del module._parameters[name]
        length = norm_except_dim(weight.data, fn.dim)
        module.register_parameter(name + "_g", Parameter(length))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module) -> None:
        """Makes the weight one parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module, inputs) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module, name="weight", dim=0):
    """Splits the parameter `name` of `module` into a length per index of `dim` and a direction."""
    warnings.warn(
        "nn.utils.weight_norm is deprecated in favor of nn.utils.parametrizations.weight_norm",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module, name="weight"):
    """Undoes `weight_norm`."""
    for k, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[k]
            return module
    raise ValueError(f"remove_weight_norm: {name} of {module} has no weight norm")
