"""Hooks around a module's call: the global ones, the methods that register, the slow call."""

import warnings
from collections import OrderedDict

import flambeau
from flambeau import _C
from flambeau.utils.hooks import BackwardHook, RemovableHandle

_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_is_full_backward_hook = None

# The call in C goes straight to `forward` only while all four are empty.
if hasattr(_C, "_bind_global_module_hooks"):
    _C._bind_global_module_hooks(
        _global_backward_pre_hooks,
        _global_backward_hooks,
        _global_forward_pre_hooks,
        _global_forward_hooks,
    )


def _has_any_global_hook() -> bool:
    return bool(
        _global_backward_pre_hooks
        or _global_backward_hooks
        or _global_forward_pre_hooks
        or _global_forward_hooks
    )


def _add(hooks, hook, *, prepend=False, marks=()):
    """Stores `hook` in `hooks`, marks its id in the dicts `marks`, and returns its handle."""
    handle = RemovableHandle(hooks, extra_dict=list(marks) or None)
    hooks[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    if prepend:
        _move_first(hooks, handle.id)
    return handle


def _move_first(hooks, key) -> None:
    if isinstance(hooks, OrderedDict):
        hooks.move_to_end(key, last=False)
        return
    for other in [k for k in hooks if k != key]:
        hooks[other] = hooks.pop(other)


def register_module_buffer_registration_hook(hook):
    """Calls `hook(module, name, buffer)` on every `register_buffer`; its result replaces."""
    return _add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """Calls `hook(module, name, submodule)` on every `add_module`; its result replaces."""
    return _add(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """Calls `hook(module, name, param)` on every `register_parameter`; its result replaces."""
    return _add(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook):
    """Calls `hook(module, args)` before `forward` of every module."""
    return _add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Calls `hook(module, args, output)` after `forward` of every module."""
    marks = [_global_forward_hooks_with_kwargs] * with_kwargs
    marks += [_global_forward_hooks_always_called] * always_call
    return _add(_global_forward_hooks, hook, marks=marks)


def register_module_backward_hook(hook):
    """The old form of `register_module_full_backward_hook`: sees one node's gradients only."""
    _choose_global_kind(False)
    return _add(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook):
    """Calls `hook(module, grad_output)` before the backward pass of every module."""
    return _add(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook):
    """Calls `hook(module, grad_input, grad_output)` once a module's gradients are known."""
    _choose_global_kind(True)
    return _add(_global_backward_hooks, hook)


def _choose_global_kind(full) -> None:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError("module backward hooks: regular and full hooks cannot be mixed")
    _global_is_full_backward_hook = full


class _WrappedHook:
    """A hook that is given its module; holds it weakly, and survives pickling."""

    def __init__(self, hook, module=None):
        import weakref

        self.hook = hook
        self.with_module = module is not None
        self.module = weakref.ref(module) if self.with_module else None

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("module hook: called after its module was deleted")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state):
        self.__init__(state["hook"], state.get("module") if state["with_module"] else None)


class HookMethods:
    """The part of Module that registers hooks and runs a call that has some."""

    __slots__ = ()

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls `hook(module, args)` before `forward`; a result replaces the arguments.

        With `with_kwargs` it is `hook(module, args, kwargs)`, returning (args, kwargs) or None.
        """
        marks = [self._forward_pre_hooks_with_kwargs] * with_kwargs
        return _add(self._forward_pre_hooks, hook, prepend=prepend, marks=marks)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Calls `hook(module, args, output)` after `forward`; a result replaces the output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`. With `always_call` it runs
        even if `forward` or an earlier hook raises.
        """
        marks = [self._forward_hooks_with_kwargs] * with_kwargs
        marks += [self._forward_hooks_always_called] * always_call
        return _add(self._forward_hooks, hook, prepend=prepend, marks=marks)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Calls `hook(module, grad_output)` before gradients enter; a result replaces them."""
        return _add(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """Calls `hook(module, grad_input, grad_output)`; a result replaces `grad_input`."""
        if self._is_full_backward_hook is False:
            raise RuntimeError("module backward hooks: regular and full hooks cannot be mixed")
        self._is_full_backward_hook = True
        return _add(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook):
        """The old form of `register_full_backward_hook`: sees the last node's gradients only."""
        if self._is_full_backward_hook is True:
            raise RuntimeError("module backward hooks: regular and full hooks cannot be mixed")
        self._is_full_backward_hook = False
        return _add(self._backward_hooks, hook)

    def _get_backward_hooks(self):
        """(full hooks, regular hooks), global ones first."""
        full, regular = [], []
        if _global_backward_hooks:
            kind = full if _global_is_full_backward_hook else regular
            kind += _global_backward_hooks.values()
        if self._backward_hooks:
            kind = full if self._is_full_backward_hook else regular
            kind += self._backward_hooks.values()
        return full, regular

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _maybe_warn_non_full_backward_hook(self, inputs, result, grad_fn) -> None:
        """Warns where a regular backward hook shows other gradients than the module's."""
        results = (result,) if isinstance(result, flambeau.Tensor) else result
        inputs = (inputs,) if isinstance(inputs, flambeau.Tensor) else inputs
        problem = None
        if not isinstance(results, tuple) or not isinstance(inputs, tuple):
            problem = "a module whose input or output is no tensor or tuple of tensors"
        elif len({r.grad_fn for r in results if isinstance(r, flambeau.Tensor)}) != 1:
            problem = "a module with outputs from several autograd nodes"
        else:
            nodes = {n for n, _ in grad_fn.next_functions if n is not None}
            ours = {t.grad_fn for t in inputs if isinstance(t, flambeau.Tensor)}
            if nodes - ours:
                problem = "a module whose forward records several autograd nodes"
        if problem:
            warnings.warn(
                f"register_backward_hook on {problem} shows the last node's gradients only; "
                "use register_full_backward_hook",
                FutureWarning,
                stacklevel=3,
            )

    def _call_slow(self, args, kwargs):
        """`forward` with every hook around it; hooks with `always_call` run on errors too."""
        call = _Call(args, kwargs)
        try:
            return _call_with_hooks(self, call)
        except Exception:
            _run_always_called(self, call)
            raise

    def _call_impl(self, *args, **kwargs):
        return self._call_slow(args, kwargs)

    _wrapped_call_impl = _call_impl


def _pre_hooks(module, args, kwargs):
    with_kwargs = module._forward_pre_hooks_with_kwargs
    for key, hook in (*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
        if key in with_kwargs:
            new = hook(module, args, kwargs)
            if new is None:
                continue
            if not (isinstance(new, tuple) and len(new) == 2):
                raise RuntimeError(
                    f"forward pre-hook: must return None or a tuple (args, kwargs), got {new}"
                )
            args, kwargs = new
        else:
            new = hook(module, args)
            if new is not None:
                args = new if isinstance(new, tuple) else (new,)
    return args, kwargs


class _Call:
    """How far a call has come: what its arguments and result are now, which hooks have run."""

    __slots__ = ("args", "kwargs", "result", "done")

    def __init__(self, args, kwargs):
        self.args, self.kwargs, self.result, self.done = args, kwargs, None, set()


def _call_with_hooks(module, call):
    full, regular, bridge = (), (), None
    if module._backward_hooks or _global_backward_hooks:
        full, regular = module._get_backward_hooks()
    before = module._get_backward_pre_hooks()
    call.args, call.kwargs = _pre_hooks(module, call.args, call.kwargs)
    if full or before:
        bridge = BackwardHook(module, full, before)
        call.args = bridge.setup_input_hook(call.args)
    call.result = module.forward(*call.args, **call.kwargs)
    for key, hook in (*_global_forward_hooks.items(), *module._forward_hooks.items()):
        if key in module._forward_hooks_always_called or key in _global_forward_hooks_always_called:
            call.done.add(key)
        new = _run_forward_hook(module, key, hook, call)
        if new is not None:
            call.result = new
    if bridge is not None:
        if not isinstance(call.result, (flambeau.Tensor, tuple)):
            warnings.warn(
                "full backward hooks need a tensor or a tuple of tensors as the module's result, "
                f"got {type(call.result)}",
                stacklevel=3,
            )
        call.result = bridge.setup_output_hook(call.result)
    if regular:
        _attach_regular(module, regular, call.args, call.result)
    return call.result


def _run_forward_hook(module, key, hook, call):
    if key in module._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
        return hook(module, call.args, call.kwargs, call.result)
    return hook(module, call.args, call.result)


def _attach_regular(module, hooks, args, result) -> None:
    var = result
    while not isinstance(var, flambeau.Tensor):
        if isinstance(var, dict):
            var = next(v for v in var.values() if isinstance(v, flambeau.Tensor))
        else:
            var = var[0]
    if var.grad_fn is None:
        return
    for hook in hooks:
        var.grad_fn.register_hook(_WrappedHook(hook, module))
    module._maybe_warn_non_full_backward_hook(args, result, var.grad_fn)


def _run_always_called(module, call) -> None:
    """After an error: the hooks that asked for it and have not run; their own errors only warn."""
    for marks, hooks in (
        (_global_forward_hooks_always_called, _global_forward_hooks),
        (module._forward_hooks_always_called, module._forward_hooks),
    ):
        for key, hook in hooks.items() if marks else ():
            if key not in marks or key in call.done:
                continue
            try:
                _run_forward_hook(module, key, hook, call)
            except Exception as e:
                warnings.warn(f"forward hook with always_call=True raised {e!r}", stacklevel=3)
