"""Optimizer, the base: parameter groups, state, hooks, and the loop over parameters."""

import copy
import functools
from collections import OrderedDict, defaultdict

import flambeau
from flambeau import _C, Tensor
from flambeau.utils.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]

_global_optimizer_pre_hooks = OrderedDict()
_global_optimizer_post_hooks = OrderedDict()


class _RequiredParameter:
    """The default of an option that has none."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def _register(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook):
    """Calls `hook(optimizer, args, kwargs)` before every step of every optimizer."""
    return _register(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Calls `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return _register(_global_optimizer_post_hooks, hook)


_HOOK_DICTS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def _step_with_hooks(self, step, args, kwargs):
    for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
        new = hook(self, args, kwargs)
        if new is None:
            continue
        if not (isinstance(new, tuple) and len(new) == 2):
            raise RuntimeError(
                f"optimizer step pre-hook: must return None or (args, kwargs), got {new}"
            )
        args, kwargs = new
    result = step(self, *args, **kwargs)
    self._optimizer_step_code()
    for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
        hook(self, args, kwargs)
    return result


def _run_closure(closure):
    if closure is None:
        return None
    with flambeau.enable_grad():
        return closure()


class Optimizer:
    """Base of all optimizers.

    `params` are tensors, (name, tensor) pairs or dicts with "params" and options of that group;
    `defaults` are the options of groups that do not set them.
    """

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._make_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "Optimizer: params must be an iterable of tensors or dicts, got "
                + flambeau.typename(params)
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if len(groups) == 0:
            raise ValueError("Optimizer: got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self):
        for name in _HOOK_DICTS:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        self._patch_step_function()

    def _patch_step_function(self):
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        step = type(self).step
        if not getattr(step, "hooked", False):
            type(self).step = self.profile_hook_step(step)
            type(self).step.hooked = True

    @staticmethod
    def profile_hook_step(func):
        """Wraps a class's `step` so that step hooks run around it."""

        @functools.wraps(func)
        def wrapper(self, *args, **kwargs):
            if (
                self._optimizer_step_pre_hooks
                or self._optimizer_step_post_hooks
                or _global_optimizer_pre_hooks
                or _global_optimizer_post_hooks
            ):
                return _step_with_hooks(self, func, args, kwargs)
            return func(self, *args, **kwargs)

        return wrapper

    def _optimizer_step_code(self):
        """Called after each step that has hooks; profilers replace it."""

    def _cuda_graph_capture_health_check(self):
        """There is nothing to capture on the CPU."""

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._make_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    # ---- hooks ----

    def register_step_pre_hook(self, hook):
        """Calls `hook(optimizer, args, kwargs)` before each step; may return new (args, kwargs)."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls `hook(optimizer)` before `state_dict`."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls `hook(optimizer, state_dict)` after `state_dict`; a result replaces it."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls `hook(optimizer, state_dict)` before loading; a result replaces it."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls `hook(optimizer)` after loading."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- saving and loading ----

    def state_dict(self):
        """{"state": per parameter number, "param_groups": options and parameter numbers}."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers, groups = {}, []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        state_dict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            new = hook(self, state_dict)
            state_dict = state_dict if new is None else new
        return state_dict

    @flambeau.no_grad()
    def load_state_dict(self, state_dict):
        """Takes over what `state_dict` of an optimizer with groups of the same sizes gave.

        Floating state is cast to its parameter's dtype and device, `step` excepted; tensors that
        need no cast are shared with `state_dict`.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            new = hook(self, state_dict)
            state_dict = state_dict if new is None else new
        ours, theirs = self.param_groups, copy.deepcopy(state_dict["param_groups"])
        _check_groups(ours, theirs)
        numbers = [n for g in theirs for n in g["params"]]
        params = dict(zip(numbers, (p for g in ours for p in g["params"])))
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                p = params[key]
                state[p] = _cast_state(p, value, key, theirs)
            else:
                state[key] = value
        groups = [_merge_group(a, b) for a, b in zip(ours, theirs)]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    @staticmethod
    def _process_value_according_to_param_policy(param, value, param_id, param_groups, key=None):
        """`value` of the state as the parameter needs it."""
        group = next((g for g in param_groups if param_id in g["params"]), {})
        if key == "step":
            if group.get("capturable") or group.get("fused"):
                return value.to(dtype=flambeau.float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    # ---- gradients and groups ----

    def zero_grad(self, set_to_none=True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros."""
        for group in self.param_groups:
            _C._zero_grad(group["params"], set_to_none)

    def step(self, closure=None):
        """To be defined by every subclass: updates the parameters from their gradients."""
        raise NotImplementedError

    def add_param_group(self, param_group) -> None:
        """Adds a dict with "params" and options; options that it lacks are the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "add_param_group: params must be ordered, got a set; use a list instead"
            )
        else:
            param_group["params"] = list(params)
        _split_names(param_group)
        for p in param_group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(
                    "add_param_group: can only optimize tensors, got " + flambeau.typename(p)
                )
            if not self.defaults.get("differentiable", None) and not (p.is_leaf or p.retains_grad):
                raise ValueError(
                    "add_param_group: can only optimize leaves, got a result of "
                    + type(p.grad_fn).__name__
                )
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"add_param_group: the group needs a value of {name}")
            param_group.setdefault(name, default)
        self._check_members(param_group)
        self.param_groups.append(param_group)

    def _check_members(self, group):
        ids = {id(p) for p in group["params"]}
        if len(ids) != len(group["params"]):
            import warnings

            warnings.warn(
                "add_param_group: a parameter appears twice in one group; this will be an error",
                stacklevel=4,
            )
        if self.param_groups and ("param_names" in group) != (
            "param_names" in self.param_groups[0]
        ):
            raise ValueError("add_param_group: either all groups have named parameters or none has")
        if any(id(p) in ids for g in self.param_groups for p in g["params"]):
            raise ValueError("some parameters appear in more than one parameter group")


def _split_names(group):
    """Takes (name, tensor) pairs apart."""
    params = group["params"]
    named = [isinstance(p, tuple) for p in params]
    if not any(named):
        return
    if not all(named):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    group["params"] = [p for _, p in params]
    group["param_names"] = [name for name, _ in params]


def _check_groups(ours, theirs):
    if len(ours) != len(theirs):
        raise ValueError(
            f"load_state_dict: the optimizer has {len(ours)} parameter groups, the state dict "
            f"{len(theirs)}"
        )
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if len(a["params"]) != len(b["params"]):
            raise ValueError(
                f"load_state_dict: parameter group {i} has {len(a['params'])} parameters, in the "
                f"state dict {len(b['params'])}"
            )


def _merge_group(ours, theirs):
    theirs["params"] = ours["params"]
    if "param_names" in ours and "param_names" not in theirs:
        theirs["param_names"] = ours["param_names"]
    return theirs


def _cast_state(param, value, number, groups, key=None):
    if isinstance(value, Tensor):
        return Optimizer._process_value_according_to_param_policy(param, value, number, groups, key)
    if isinstance(value, dict):
        return {k: _cast_state(param, v, number, groups, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast_state(param, v, number, groups) for v in value)
    return value


# ---- what the optimizers of this package share ----


def _check_options(name, **options):
    """Raises ValueError for an option out of its range: value, whether it is valid."""
    for option, (value, valid) in options.items():
        if not valid:
            raise ValueError(f"Invalid {option.replace('_', ' ')} value: {value} ({name})")


def _check_lr(name, lr):
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    _check_options(name, learning_rate=(lr, 0.0 <= lr))


def _new_step():
    return flambeau.tensor(0.0, dtype=_step_dtype())


def _step_dtype():
    return (
        flambeau.float64 if flambeau.get_default_dtype() == flambeau.float64 else flambeau.float32
    )


def _number(value):
    return value.item() if isinstance(value, Tensor) else value


def _real(*tensors):
    """Complex tensors as pairs of real ones."""
    return tuple(flambeau.view_as_real(t) if flambeau.is_complex(t) else t for t in tensors)


def _as_step_tensors(state):
    """Files of old versions keep `step` as a number."""
    for s in state.values():
        if "step" in s and not isinstance(s["step"], Tensor):
            s["step"] = flambeau.tensor(float(s["step"]), dtype=_step_dtype())


def _decayed(group, p, grad, lr=0):
    """The gradient with weight decay in it; where the group decouples both, `p` shrinks instead."""
    decay = group["weight_decay"]
    if decay == 0:
        return grad
    if group.get("decoupled_weight_decay"):
        p.mul_(1 - lr * decay)
        return grad
    return grad.add(p, alpha=decay)


class _PerParameter(Optimizer):
    """An optimizer that is written for one parameter: `_init_state` and `_update`."""

    _group_defaults = {"maximize": False, "differentiable": False, "capturable": False}

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self._group_defaults.items():
                if name in self.defaults or name in ("maximize", "foreach"):
                    group.setdefault(name, default)
        _as_step_tensors(self.state)

    def step(self, closure=None):
        """Updates the parameters; returns what `closure`, which runs first, returned."""
        differentiable = self.defaults.get("differentiable", False)
        with flambeau.set_grad_enabled(bool(differentiable)):
            loss = _run_closure(closure)
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._step_one(group, p)
        return loss

    def _step_one(self, group, p):
        state = self.state[p]
        if len(state) == 0:
            self._init_state(group, p, state)
        grad = -p.grad if group.get("maximize") else p.grad
        if grad.is_sparse and not self._takes_sparse:
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
        self._update(group, p, grad, state)

    _takes_sparse = False

    def _init_state(self, group, p, state):
        raise NotImplementedError

    def _update(self, group, p, grad, state):
        raise NotImplementedError
