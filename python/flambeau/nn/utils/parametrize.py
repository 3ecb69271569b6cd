"""Parameters computed from other parameters: `module.weight` becomes a property.

The class of a parametrized module is replaced by one made for it, which holds the properties.
"""

import copy
from contextlib import contextmanager

import flambeau
from flambeau.nn.modules.container import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = [
    "cached",
    "ParametrizationList",
    "register_parametrization",
    "is_parametrized",
    "remove_parametrizations",
    "type_before_parametrizations",
    "transfer_parametrizations_and_params",
]

_cache_enabled = 0
_cache = {}


@contextmanager
def cached():
    """Within the block every parametrized tensor is computed once."""
    global _cache_enabled, _cache
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _register_parameter_or_buffer(module, name, value) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order, with the tensor or tensors they start from.

    Those are `original`, or `original0`, `original1`, ... if the last `right_inverse` gave several.
    """

    def __init__(self, modules, original, unsafe=False) -> None:
        modules = list(modules)
        if not modules:
            raise ValueError("ParametrizationList: needs at least one parametrization")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new = _inverse(self, original)
        if not isinstance(new, flambeau.Tensor) and not isinstance(new, (list, tuple)):
            raise ValueError(
                "right_inverse: must return a tensor or a sequence of tensors, "
                f"got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, flambeau.Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._keep_single(original, new)
        else:
            self._keep_several(original, new)
        if not self.unsafe:
            self._check_result(original, shape, dtype)

    def _keep_single(self, original, new) -> None:
        if original.dtype != new.dtype:
            raise ValueError(
                f"right_inverse: dtype must stay {original.dtype} unless unsafe=True, got "
                f"{new.dtype}"
            )
        if original.device != new.device:
            raise ValueError(f"right_inverse: device must stay {original.device}, got {new.device}")
        original.data = new
        _register_parameter_or_buffer(self, "original", original)

    def _keep_several(self, original, new) -> None:
        for i, t in enumerate(new):
            if not isinstance(t, flambeau.Tensor):
                raise ValueError(
                    f"right_inverse: element {i} must be a tensor, got {type(t).__name__}"
                )
            if isinstance(original, Parameter):
                t = Parameter(t, original.requires_grad)
            t.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{i}", t)

    def _check_result(self, original, shape, dtype) -> None:
        result = self()
        if not isinstance(result, flambeau.Tensor):
            raise ValueError(f"parametrization: must return a tensor, got {type(result).__name__}")
        if result.dtype != dtype:
            raise ValueError(
                f"parametrization: dtype must stay {dtype} unless unsafe=True, got {result.dtype}"
            )
        if result.shape != shape:
            raise ValueError(
                f"parametrization: shape must stay {tuple(shape)} unless unsafe=True, got "
                f"{tuple(result.shape)}"
            )

    def right_inverse(self, value) -> None:
        """Changes the originals so that the parametrized tensor becomes `value`."""
        with flambeau.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} has no right_inverse, so the "
                        "tensor cannot be assigned"
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, flambeau.Tensor):
                    raise ValueError(
                        f"right_inverse: must return a tensor, got {type(value).__name__}"
                    )
                _check_kind(self.original, value)
                self.original.data = value
                return
            if len(value) != self.ntensors:
                raise ValueError(
                    f"right_inverse: must return {self.ntensors} tensors, got {len(value)}"
                )
            for i, t in enumerate(value):
                _check_kind(getattr(self, f"original{i}"), t)
                getattr(self, f"original{i}").data = t

    def forward(self):
        if self.is_tensor:
            x = self[0](self.original)
        else:
            x = self[0](*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for i in range(1, len(self)):
            x = self[i](x)
        return x


def _check_kind(original, value) -> None:
    if value.dtype != original.dtype:
        raise ValueError(f"right_inverse: dtype must be {original.dtype}, got {value.dtype}")


def _inverse(modules, value):
    """`right_inverse` of all modules, the last one first; those without one leave the value."""
    with flambeau.no_grad():
        for module in reversed(list(modules)):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    pass
    return value


def _inject_new_class(module) -> None:
    """Replaces the module's class by a subclass of its own."""
    cls = type(module)

    def default_deepcopy(self, memo):
        done = memo.get(id(self), None)
        if done is not None:
            return done
        new = self.__new__(type(self))
        memo[id(self)] = new
        state = Module.__getstate__(self)
        Module.__setstate__(new, copy.deepcopy(dict(state), memo))
        return new

    def getstate(self):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict()"
        )

    members = {"__getstate__": getstate}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = default_deepcopy
    param_cls = type(f"Parametrized{cls.__name__}", (cls,), members)
    param_cls.__module__ = __name__
    module.__class__ = param_cls


def _inject_property(module, tensor_name) -> None:
    """Makes `tensor_name` a property of the module's own class."""

    def compute(self):
        return self.parametrizations[tensor_name]()

    def get(self):
        if not _cache_enabled:
            return compute(self)
        key = (id(self), tensor_name)
        value = _cache.get(key)
        if value is None:
            value = _cache[key] = compute(self)
        return value

    def set_original(self, value):
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, set_original))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Makes `module.<tensor_name>` the result of `parametrization(original)`.

    If the parametrization has a `right_inverse(tensor)`, it finds the original, and the tensor can
    be assigned. `unsafe` allows shape and dtype to change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _add_parametrization(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"register_parametrization: {module._get_name()} has no parameter, buffer or "
            f"parametrized tensor '{tensor_name}'"
        )
    return module


def _add_parametrization(module, tensor_name, parametrization, unsafe) -> None:
    current = module.parametrizations[tensor_name]
    if not unsafe:
        with flambeau.no_grad():
            y = getattr(module, tensor_name)
            x = parametrization(y)
        if x.dtype != y.dtype or x.shape != y.shape:
            raise ValueError(
                f"parametrization: shape and dtype must stay {tuple(y.shape)}, {y.dtype} unless "
                f"unsafe=True, got {tuple(x.shape)}, {x.dtype}"
            )
        if hasattr(parametrization, "right_inverse"):
            with flambeau.no_grad():
                z = parametrization.right_inverse(x)
            if not isinstance(z, flambeau.Tensor):
                raise ValueError(f"right_inverse: must return a tensor, got {type(z).__name__}")
            if z.dtype != x.dtype or z.shape != x.shape:
                raise ValueError(
                    f"right_inverse: shape and dtype must stay {tuple(x.shape)}, {x.dtype}, got "
                    f"{tuple(z.shape)}, {z.dtype}"
                )
    current.append(parametrization)
    current.unsafe |= unsafe


def is_parametrized(module, tensor_name=None) -> bool:
    """Whether any tensor of `module`, or the one named, is parametrized."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes the tensor a plain one again: its computed value, or the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {module._get_name()} has no parametrization of {tensor_name}"
        )
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with flambeau.no_grad():
                original.data = getattr(module, tensor_name)
    else:
        if not leave_parametrized:
            raise ValueError(
                "remove_parametrizations: leave_parametrized=False needs a single original tensor"
            )
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class of a module, without the one that parametrization made."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives `to_module` the parametrizations and originals of `from_module`."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not is_parametrized(to_module, name) and not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(getattr(from_module, name)))
        for parametrization in from_module.parametrizations[name]:
            register_parametrization(to_module, name, parametrization)
        source, target = from_module.parametrizations[name], to_module.parametrizations[name]
        if source.is_tensor:
            target.original = source.original
        else:
            for i in range(source.ntensors):
                setattr(target, f"original{i}", getattr(source, f"original{i}"))
    return to_module
