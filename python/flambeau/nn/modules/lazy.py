"""What turns a module into one that takes its sizes from the first input."""

import warnings

from flambeau.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Waits for the first call, then fills its parameters and becomes `cls_to_become`.

    Subclasses define `initialize_parameters(*args, **kwargs)`, given the arguments of the call.
    """

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )
        warnings.warn(
            "Lazy modules are a new feature under heavy development; their interface may change",
            stacklevel=2,
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars) -> None:
        # An uninitialised parameter cannot be detached, so it is saved as it is.
        for name, param in self._parameters.items():
            if param is not None:
                plain = not (is_lazy(param) or keep_vars)
                destination[prefix + name] = param.detach() if plain else param
        for name, buf in self._buffers.items():
            if buf is not None and name not in self._non_persistent_buffers_set:
                plain = not (is_lazy(buf) or keep_vars)
                destination[prefix + name] = buf.detach() if plain else buf

    def _lazy_load_hook(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        """Takes shapes from a state dict that is loaded before the first call."""
        import flambeau

        for name, param in (*self._parameters.items(), *self._buffers.items()):
            value = state_dict.get(prefix + name)
            if value is not None and param is not None and is_lazy(param) and not is_lazy(value):
                with flambeau.no_grad():
                    param.materialize(value.shape)

    def initialize_parameters(self, *args, **kwargs):
        """To be defined by every lazy module."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still has no shape."""
        return any(is_lazy(p) for p in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        """The pre-hook of the first call."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"{module._get_name()}: parameters are still uninitialized after "
                "initialize_parameters"
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
