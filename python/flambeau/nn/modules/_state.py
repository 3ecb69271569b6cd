"""Saving and loading a module's parameters and buffers by name."""

import warnings
from collections import OrderedDict, namedtuple

import flambeau
from flambeau import _C
from flambeau.nn.modules._hooks import RemovableHandle, _WrappedHook
from flambeau.nn.parameter import Parameter, is_lazy

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` found missing and left over."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _add_hook(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class StateMethods:
    """The part of Module about state dicts."""

    __slots__ = ()

    def get_extra_state(self):
        """Override to save further state beside parameters and buffers."""
        raise RuntimeError(
            f"{type(self).__name__}.get_extra_state: must be overridden to save extra state"
        )

    def set_extra_state(self, state) -> None:
        """Override, with `get_extra_state`, to take that state back."""
        raise RuntimeError(
            f"{type(self).__name__}.set_extra_state: must be overridden to load extra state"
        )

    def _has_extra_state(self, method) -> bool:
        return getattr(type(self), method) is not getattr(StateMethods, method)

    def _register_state_dict_hook(self, hook):
        """`hook(module, state_dict, prefix, local_metadata)` after saving; may return a new dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "_register_state_dict_hook: the hook was already given to "
                "register_state_dict_post_hook"
            )
        return _add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Calls `hook(module, state_dict, prefix, local_metadata)` after saving this module."""
        hook._from_public_api = True
        return _add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        """Calls `hook(module, prefix, keep_vars)` before saving this module."""
        return _add_hook(self._state_dict_pre_hooks, hook)

    def _save_to_state_dict(self, destination, prefix, keep_vars) -> None:
        """Writes this module's own parameters and buffers, not its children's."""
        _C._save_own_state(self, destination, prefix, keep_vars)

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by dotted name, detached unless `keep_vars`."""
        if args:
            warnings.warn(
                "state_dict: positional arguments are deprecated, use keywords",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        return _C._save_state(self, destination, prefix, keep_vars)

    def _before_state_dict(self, prefix, keep_vars) -> None:
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)

    def _after_state_dict(self, destination, prefix, local_metadata):
        for hook in self._state_dict_hooks.values():
            new = hook(self, destination, prefix, local_metadata)
            if not getattr(hook, "_from_public_api", False):
                destination = destination if new is None else new
            elif new is not None:
                raise RuntimeError("state_dict post-hook: must return None")
        return destination

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        """`hook` takes the arguments of `_load_from_state_dict`, after the module if asked for."""
        return _add_hook(
            self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None)
        )

    def register_load_state_dict_pre_hook(self, hook):
        """Calls `hook(module, state_dict, prefix, ...)` before this module takes its values."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """Calls `hook(module, incompatible_keys)`, which may edit the lists, after loading."""
        return _add_hook(self._load_state_dict_post_hooks, hook)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        """Takes this module's own values; reports problems through the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        skipped = self._non_persistent_buffers_set
        own = {k: v for k, v in self._parameters.items() if v is not None}
        own.update((k, v) for k, v in self._buffers.items() if v is not None and k not in skipped)
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, param in own.items():
            key = prefix + name
            if key in state_dict:
                error = _load_tensor(self, name, key, param, state_dict[key], assign)
                if error:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if self._has_extra_state("set_extra_state"):
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            modules = self._modules
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    head, dot, _ = key[len(prefix) :].partition(".")
                    if head not in (modules if dot else own):
                        unexpected_keys.append(key)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies (or with `assign` takes over) values by name into this module and its children.

        Returns (missing_keys, unexpected_keys). Raises RuntimeError if shapes differ, or with
        `strict` if names do.
        """
        if not _is_mapping(state_dict):
            raise TypeError(f"load_state_dict: expected a mapping, got {type(state_dict)}")
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        missing, unexpected, errors = [], [], []
        _load_tree(self, state_dict, "", metadata, strict, assign, (missing, unexpected, errors))
        if strict and unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        if strict and missing:
            errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            text = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {self._get_name()}:\n\t{text}")
        return _IncompatibleKeys(missing, unexpected)


def _is_mapping(x) -> bool:
    if isinstance(x, dict):
        return True
    from collections.abc import Mapping

    return isinstance(x, Mapping)


def _quoted(keys) -> str:
    return ", ".join(f'"{k}"' for k in keys)


def _load_tree(module, state_dict, prefix, metadata, strict, assign, lists) -> None:
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(state_dict, prefix, local_metadata, True, *lists)
    # Each child sees its own keys only, so its hooks may add and remove without side effects.
    for name, child in module._modules.items():
        if child is not None:
            start = prefix + name + "."
            part = {k: v for k, v in state_dict.items() if k.startswith(start)}
            _load_tree(child, part, start, metadata, strict, assign, lists)
    missing, unexpected, _ = lists
    keys = _IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise RuntimeError(
                "load_state_dict post-hook: must return None; change the key lists in place"
            )


def _load_tensor(module, name, key, param, value, assign):
    """Puts `value` into `param`, or in its place; returns what went wrong, if anything."""
    if not isinstance(value, flambeau.Tensor) and not hasattr(type(value), "__torch_function__"):
        return (
            f'While copying the parameter named "{key}": expected a tensor in the state_dict, '
            f"got {type(value)}"
        )
    lazy = is_lazy(param)
    if not lazy and param.dim() == 0 and value.dim() == 1:
        value = value[0]  # very old files keep scalars as one element
    if not lazy and value.shape != param.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
            f"the shape in current model is {param.shape}."
        )
    if not lazy and param.is_meta and not value.is_meta and not assign:
        warnings.warn(
            f"load_state_dict: {key} is on the meta device, so copying into it does nothing; "
            "pass assign=True or call to_empty(device=...) first",
            stacklevel=2,
        )
    try:
        with flambeau.no_grad():
            if assign:
                _assign(module, name, param, value)
            else:
                param.copy_(value)
    except Exception as e:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{param.size()} and whose dimensions in the checkpoint are {value.size()}, "
            f"an exception occurred: {e.args}."
        )
    return None


def _assign(module, name, param, value) -> None:
    if isinstance(param, Parameter):
        if isinstance(value, Parameter):
            value.requires_grad_(param.requires_grad)
        else:
            value = Parameter(value, requires_grad=param.requires_grad)
    setattr(module, name, value)
