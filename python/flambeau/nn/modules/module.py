"""Module, the base of all layers: what it holds, how to walk it and how to move it.

The storage of parameters, buffers and submodules and the call itself are in C (ModuleBase);
hooks are in _hooks.py, state dicts in _state.py.
"""

import warnings

import flambeau
from flambeau import _C
from flambeau.nn.modules import _hooks
from flambeau.nn.modules._hooks import (  # noqa: F401
    HookMethods,
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    _has_any_global_hook,
    _WrappedHook,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from flambeau.nn.modules._state import (  # noqa: F401
    _EXTRA_STATE_KEY_SUFFIX,
    StateMethods,
    _IncompatibleKeys,
)
from flambeau.nn.parameter import Buffer, Parameter  # noqa: F401
from flambeau.utils.hooks import BackwardHook, RemovableHandle  # noqa: F401

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_ModuleBase = _C.ModuleBase

for _f in (_IncompatibleKeys, _WrappedHook, *(getattr(_hooks, n) for n in __all__[1:])):
    _f.__module__ = __name__  # their public home, which pickles and messages name


def _addindent(text, spaces) -> str:
    """Indents all lines but the first."""
    return text.replace("\n", "\n" + " " * spaces)


def _check_name(name, kind) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{kind}: name must be a string, got {type(name).__name__}")
    if "." in name:
        raise KeyError(f'{kind}: name must not contain ".", got "{name}"')
    if name == "":
        raise KeyError(f'{kind}: name must not be empty, got ""')


class Module(StateMethods, HookMethods, _ModuleBase):
    """Base of all layers and models.

    Parameters, buffers and modules assigned as attributes are registered by name. Subclasses call
    `super().__init__()` first and define `forward`; calling the module calls `forward` and hooks.
    """

    dump_patches = False
    _version = 1
    call_super_init = False
    _is_replica = False
    _compiled_call_impl = None
    T_destination = dict

    def __init__(self, *args, **kwargs) -> None:
        if (args or kwargs) and not self.call_super_init:
            given = next(iter(kwargs), None)
            what = f"a keyword argument '{given}'" if given else f"{len(args)} positional ones"
            raise TypeError(
                f"{type(self).__name__}.__init__: Module takes no arguments, got {what}"
            )
        _ModuleBase.__init__(self)
        if self.call_super_init:
            super(_ModuleBase, self).__init__(*args, **kwargs)

    def forward(self, *input):
        """To be defined by every subclass."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # ---- registration ----

    def register_buffer(self, name, tensor, persistent=True) -> None:
        """Adds a tensor that is no parameter; `persistent=False` keeps it out of state dicts."""
        if not hasattr(self, "training"):
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        _check_name(name, "register_buffer")
        if name not in self._buffers and hasattr(self, name):
            raise KeyError(f"register_buffer: attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, flambeau.Tensor):
            raise TypeError(
                f"register_buffer: '{name}' must be a Tensor or None, got {type(tensor).__name__}"
            )
        for hook in _global_buffer_registration_hooks.values():
            new = hook(self, name, tensor)
            tensor = tensor if new is None else new
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param) -> None:
        """Adds a parameter, or None to reserve its name."""
        if not hasattr(self, "training"):
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        _check_name(name, "register_parameter")
        if name not in self._parameters and hasattr(self, name):
            raise KeyError(f"register_parameter: attribute '{name}' already exists")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"register_parameter: '{name}' must be a Parameter or None, "
                    f"got {type(param).__name__}"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"register_parameter: '{name}' must be a leaf, got a result of "
                    f"{type(param.grad_fn).__name__}"
                )
            for hook in _global_parameter_registration_hooks.values():
                new = hook(self, name, param)
                param = param if new is None else new
        self._parameters[name] = param

    def add_module(self, name, module) -> None:
        """Adds a submodule, or None to reserve its name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"add_module: '{name}' must be a Module, got {type(module).__name__}")
        if not isinstance(name, str):
            raise TypeError(f"add_module: name must be a string, got {type(name).__name__}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"add_module: attribute '{name}' already exists")
        _check_name(name, "add_module")
        for hook in _global_module_registration_hooks.values():
            new = hook(self, name, module)
            module = module if new is None else new
        self._modules[name] = module

    def register_module(self, name, module) -> None:
        """Another name of `add_module`."""
        self.add_module(name, module)

    # ---- access by dotted name ----

    def get_submodule(self, target):
        """The module at a dotted path such as "encoder.0"; "" is this one."""
        module = self
        for item in target.split(".") if target else ():
            if not hasattr(module, item):
                raise AttributeError(
                    f"get_submodule: {module._get_name()} has no attribute `{item}`"
                )
            module = getattr(module, item)
            if not isinstance(module, Module):
                raise AttributeError(f"get_submodule: `{item}` is not a Module")
        return module

    def set_submodule(self, target, module, strict=False) -> None:
        """Puts `module` at a dotted path; with `strict` something must be there already."""
        if target == "":
            raise ValueError("set_submodule: target must not be empty")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: expected a Module, got {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path) if path else self
        if strict and not hasattr(parent, name):
            raise AttributeError(f"set_submodule: {parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"set_submodule: `{name}` is not a Module")
        setattr(parent, name, module)

    def get_parameter(self, target):
        """The parameter at a dotted path."""
        return self._get_member(target, Parameter, "Parameter")

    def get_buffer(self, target):
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"get_buffer: {module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"get_buffer: `{name}` is not a buffer")
        return module._buffers[name]

    def _get_member(self, target, kind, what):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        value = getattr(module, name)
        if not isinstance(value, kind):
            raise AttributeError(f"`{name}` is not a {what}")
        return value

    # ---- conversion ----

    def _apply(self, fn, recurse=True):
        """Runs `fn` on every parameter, gradient and buffer; parameters keep their identity."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                self._apply_to_parameter(name, param, fn)
        for name, buf in self._buffers.items():
            if buf is not None:
                self._buffers[name] = fn(buf)
        return self

    def _apply_to_parameter(self, name, param, fn) -> None:
        grad = param.grad
        with flambeau.no_grad():
            new = fn(param)
        kept = new is param
        if not kept:
            # A parameter off the meta device gets real storage, so it cannot stay the same object.
            if param.is_meta == new.is_meta and not _overwrite_parameters():
                param.data = new
                kept = True
            else:
                self._parameters[name] = param = Parameter(new, param.requires_grad)
        if grad is not None:
            with flambeau.no_grad():
                new_grad = fn(grad)
            if kept and new_grad is not grad and grad.is_meta == new_grad.is_meta:
                param.grad.data = new_grad
            else:
                param.grad = new_grad.requires_grad_(grad.requires_grad)

    def apply(self, fn):
        """Calls `fn` on every submodule, children first, then on this module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def cuda(self, device=None):
        """Moves parameters and buffers to a CUDA device, in place."""
        return self._apply(lambda t: t.cuda(device))

    def cpu(self):
        """Moves parameters and buffers to the CPU, in place."""
        return self._apply(lambda t: t.cpu())

    def xpu(self, device=None):
        """Moves parameters and buffers to an XPU device, in place."""
        return self._apply(lambda t: t.xpu(device))

    def ipu(self, device=None):
        """Moves parameters and buffers to an IPU device, in place."""
        return self._apply(lambda t: t.ipu(device))

    def mtia(self, device=None):
        """Moves parameters and buffers to an MTIA device, in place."""
        return self._apply(lambda t: t.mtia(device))

    def type(self, dst_type):
        """Casts parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        """Casts floating parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        """Casts floating parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        """Casts floating parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        """Casts floating parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def to_empty(self, *, device, recurse=True):
        """Moves parameters and buffers to `device` without their values."""
        return self._apply(lambda t: flambeau.empty_like(t, device=device), recurse=recurse)

    def to(self, device=None, dtype=None, non_blocking=False, *, tensor=None, memory_format=None):
        """Moves and casts parameters and buffers in place: (device, dtype), (dtype) or (tensor).

        Only floating and complex ones are cast; `memory_format` applies to 4-d and 5-d ones.
        """
        if isinstance(device, (flambeau.Tensor, flambeau.dtype)):
            # The other two forms: their second argument is non_blocking.
            non_blocking = non_blocking if dtype is None else dtype
            if isinstance(device, flambeau.dtype):
                device, dtype = None, device
            else:
                tensor = device
        if tensor is not None:
            device, dtype = tensor.device, tensor.dtype
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to: dtype must be floating or complex, got {dtype}")
        move = {"non_blocking": non_blocking}
        if device is not None:
            move["device"] = flambeau.device(device)
        cast = move if dtype is None else {**move, "dtype": dtype}

        def convert(t):
            options = cast if t.is_floating_point() or t.is_complex() else move
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(**options, memory_format=memory_format)
            return t.to(**options) if len(options) > 1 else t

        return self._apply(convert)

    def share_memory(self):
        """Moves parameters and buffers into shared memory."""
        return self._apply(lambda t: t.share_memory_())

    # ---- walking ----

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        """Yields (dotted name, member) of this module and, with `recurse`, of all below it."""
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for start, module in modules:
            start = start + "." if start else ""
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield start + name, value

    def parameters(self, recurse=True):
        """Yields the parameters, each once."""
        found = self._parameter_list() if recurse else None
        if found is not None:
            yield from found
            return
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def _parameter_list(self):
        """All parameters at once; None where a class walks in a way of its own."""
        cls = type(self)
        if (
            cls.named_parameters is Module.named_parameters
            and cls._named_members is Module._named_members
            and cls.modules is Module.modules
        ):
            return _C._parameters_below(self, Module.named_modules)
        return None

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Yields (dotted name, parameter)."""
        yield from self._named_members(
            lambda m: m._parameters.items(),
            prefix=prefix,
            recurse=recurse,
            remove_duplicate=remove_duplicate,
        )

    def buffers(self, recurse=True):
        """Yields the buffers, each once."""
        for _, buf in self.named_buffers(recurse=recurse):
            yield buf

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Yields (dotted name, buffer)."""
        yield from self._named_members(
            lambda m: m._buffers.items(),
            prefix=prefix,
            recurse=recurse,
            remove_duplicate=remove_duplicate,
        )

    def children(self):
        """Yields the direct submodules, each once."""
        for _, child in self.named_children():
            yield child

    def named_children(self):
        """Yields (name, direct submodule), each submodule once."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def modules(self, remove_duplicate=True):
        """Yields this module and all below it, parents first."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Yields (dotted name, module), this module first under the name `prefix`."""
        memo = set() if memo is None else memo
        walk = Module.named_modules
        stack = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if module in memo:
                continue
            if module is not self and type(module).named_modules is not walk:
                yield from module.named_modules(memo, name, remove_duplicate)
                continue
            if remove_duplicate:
                memo.add(module)
            yield name, module
            if module._modules:
                start = name + "." if name else ""
                stack += [
                    (start + key, child)
                    for key, child in reversed(module._modules.items())
                    if child is not None
                ]

    # ---- modes ----

    def train(self, mode=True):
        """Sets training mode (dropout, batch statistics) here and below."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be a bool, got {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self):
        """Sets evaluation mode; the same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Turns gradients of all parameters on or off."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros."""
        if self._is_replica:
            warnings.warn(
                "zero_grad: a replica's parameters have no gradients of their own", stacklevel=2
            )
        found = self._parameter_list() if type(self).parameters is Module.parameters else None
        _C._zero_grad(list(self.parameters()) if found is None else found, set_to_none)

    def compile(self, *args, **kwargs) -> None:
        """Not available: call `flambeau.compile` on a function."""
        raise NotImplementedError("Module.compile: in-place compilation is not available")

    def _replicate_for_data_parallel(self):
        replica = self.__new__(type(self))
        state = dict(_ModuleBase.__getstate__(self))
        state["_parameters"] = {}
        state["_buffers"] = dict(self._buffers)
        state["_modules"] = dict(self._modules)
        _ModuleBase.__setstate__(replica, state)
        replica._is_replica = True
        return replica

    # ---- text ----

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` shows between the parentheses; override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [
            f"({name}): {_addindent(repr(child), 2)}" for name, child in self._modules.items()
        ]
        lines = extra_lines + child_lines
        if not lines:
            return self._get_name() + "()"
        if len(extra_lines) == 1 and not child_lines:
            return f"{self._get_name()}({extra_lines[0]})"
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"

    def __dir__(self):
        names = {*dir(type(self)), *self.__dict__}
        names.update(self._parameters, self._modules, self._buffers)
        return sorted(n for n in names if not n[0].isdigit())


def _overwrite_parameters() -> bool:
    future = getattr(flambeau, "__future__", None)
    return future is not None and future.get_overwrite_module_params_on_conversion()
