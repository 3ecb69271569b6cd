"""Handles of registered hooks, and the pair of hooks that shows a module's gradients."""

import itertools
import warnings
import weakref
from collections import OrderedDict

import flambeau

_counter = itertools.count()


class RemovableHandle:
    """Removes its hook from `hooks_dict` by `remove()` or at the end of a `with` block."""

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict) if _weak(hooks_dict) else _Strong(hooks_dict)
        self.id = next(_counter)
        RemovableHandle.next_id = self.id + 1
        extra = () if extra_dict is None else extra_dict
        extra = extra if isinstance(extra, (list, tuple)) else (extra,)
        self.extra_dict_ref = tuple(weakref.ref(d) if _weak(d) else _Strong(d) for d in extra)

    def remove(self) -> None:
        """Takes the hook out; does nothing the second time."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None and self.id in hooks:
                del hooks[self.id]

    def __getstate__(self):
        return (self.hooks_dict_ref(), self.id, tuple(r() for r in self.extra_dict_ref))

    def __setstate__(self, state):
        hooks = OrderedDict() if state[0] is None else state[0]
        extra = state[2] if len(state) > 2 else ()
        self.__init__(hooks, extra_dict=[d for d in extra if d is not None])
        self.id = state[1]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


class _Strong:
    """Stands in for a weak reference to a plain dict, which cannot have one."""

    def __init__(self, hooks):
        self.hooks = hooks

    def __call__(self):
        return self.hooks


def _weak(hooks) -> bool:
    return type(hooks).__weakrefoffset__ != 0


def unserializable_hook(f):
    """Marks a hook that must be left out, with a warning, when its tensor is saved."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor) -> None:
    """Says which hooks of a tensor that is being saved will be lost."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(f"backward hook {hook!r} on tensor will not be serialized", stacklevel=2)


class BackwardHook:
    """Runs one module call's full backward hooks.

    Inputs and outputs each pass through an identity node. The output's node sees the gradients
    first: it runs the pre-hooks and keeps the result for the hooks, which run on the input's node.
    """

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module, self.user_hooks, self.user_pre_hooks = module, user_hooks, user_pre_hooks
        self.grad_outputs = None
        self.n_outputs, self.output_index = -1, None
        self.n_inputs, self.input_index = -1, None

    def setup_input_hook(self, args):
        """The arguments, with those that need a gradient passed through the identity node."""
        if not self.user_hooks:
            return args
        args, self.input_index = self._through_node(self._on_input, args)
        self.n_inputs = len(args)
        return args

    def setup_output_hook(self, result):
        """The module's result (a tensor or a tuple), passed through the identity node."""
        alone = isinstance(result, flambeau.Tensor)
        outputs = (result,) if alone else result
        if not isinstance(outputs, tuple):
            return result
        self.n_outputs = len(outputs)
        outputs, self.output_index = self._through_node(self._on_output, outputs)
        return outputs[0] if alone else outputs

    def _through_node(self, hook, values):
        where = [i for i, v in enumerate(values) if isinstance(v, flambeau.Tensor)]
        tensors = [values[i] for i in where]
        if not (flambeau.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return values, None
        from flambeau.nn.modules._functions import BackwardHookFunction

        new = BackwardHookFunction.apply(*tensors)
        if not isinstance(new, tuple):
            new = (new,)
        node = next(t.grad_fn for t in new if t.grad_fn is not None)
        node.register_hook(hook)
        mixed = list(values)
        for i, t in zip(where, new):
            mixed[i] = t
        fields = hasattr(values, "_fields")
        return (type(values)(*mixed) if fields else type(values)(mixed)), where

    def _spread(self, index, grads, length):
        """Gradients of the tensors among `length` values, None elsewhere."""
        full = [None] * length
        for i, g in zip(index, grads):
            full[i] = g
        return tuple(full)

    def _on_output(self, _, grad_output):
        self.grad_outputs = self._spread(self.output_index, grad_output, self.n_outputs)
        for hook in self.user_pre_hooks:
            new = hook(self.module, self.grad_outputs)
            if new is None:
                continue
            self.grad_outputs = _as_tuple(new, "full_backward_pre_hook", self.n_outputs)
        local = tuple(self.grad_outputs[i] for i in self.output_index)
        if self.user_hooks and self.input_index is None:
            # No input takes a gradient: the hooks run here, and what they return is refused.
            inputs = (None,) * max(self.n_inputs, 0)
            for hook in self.user_hooks:
                new = hook(self.module, inputs, self.grad_outputs)
                if new is not None and not (isinstance(new, tuple) and all(g is None for g in new)):
                    raise RuntimeError(
                        "module backward hook: must return None or a tuple of None when no "
                        "input requires a gradient"
                    )
            self.grad_outputs = None
        return local

    def _on_input(self, grad_input, _):
        if self.grad_outputs is None:
            raise RuntimeError(
                "module backward hook: gradients of the inputs came before those of the outputs; "
                "the backward pass did not go through the module's result"
            )
        grads = self._spread(self.input_index, grad_input, self.n_inputs)
        for hook in self.user_hooks:
            new = hook(self.module, grads, self.grad_outputs)
            if new is not None:
                grads = _as_tuple(new, "full_backward_hook", self.n_inputs)
        self.grad_outputs = None
        return tuple(grads[i] for i in self.input_index)


def _as_tuple(value, name, length):
    value = value if isinstance(value, tuple) else (value,)
    if len(value) != length:
        raise RuntimeError(f"{name}: must return {length} gradients, got {len(value)}")
    return value
