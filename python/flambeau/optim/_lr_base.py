"""LRScheduler, the base of all schedules: it counts epochs and writes what `get_lr` says."""

import functools
import warnings
import weakref

from flambeau import Tensor
from flambeau.optim.optimizer import Optimizer


def _set_option(group, name, value):
    """A tensor option keeps its identity."""
    if isinstance(group[name], Tensor):
        group[name].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[name] = value


def _copy(values):
    return [v.clone() if isinstance(v, Tensor) else v for v in values]


def _current(optimizer, name="lr"):
    return _copy([group[name] for group in optimizer.param_groups])


def _per_group(name, optimizer, value):
    """One value for each group, from a list or a single one."""
    groups = len(optimizer.param_groups)
    if isinstance(value, (list, tuple)):
        if len(value) != groups:
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups. "
                f"{name} has {len(value)} values, param_groups has {groups}."
            )
        return list(value)
    return [value] * groups


def _count_steps(optimizer):
    """Marks the optimizer when it steps, to warn of schedules that step first."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    ref, method = weakref.ref(optimizer), optimizer.step.__func__

    @functools.wraps(method)
    def step(*args, **kwargs):
        self = ref()
        self._opt_called = True
        return method(self, *args, **kwargs)

    step._wrapped_by_lr_sched = True
    optimizer.step = step


class LRScheduler:
    """Base of all schedules. Subclasses define `get_lr`, the rates for `self.last_epoch`."""

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", *_copy([group["lr"]]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0: load the optimizer's state first, or set it"
                )
        self.base_lrs = _current(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _count_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self):
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict):
        """Takes over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self):
        """The rates that the last step set, one per group."""
        return _copy(self._last_lr)

    def get_lr(self):
        """To be defined by every subclass: the rates for `self.last_epoch`."""
        raise NotImplementedError

    def step(self, epoch=None):
        """Goes to the next epoch (or to `epoch`) and sets the optimizer's rates."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(
                "scheduler.step(epoch) is deprecated: call step() once per epoch",
                UserWarning,
                stacklevel=2,
            )
        self._update_lr(epoch)

    def _check_order(self):
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            text = "optimizer.step was replaced after the scheduler was made"
        elif not getattr(self.optimizer, "_opt_called", False):
            text = (
                "scheduler.step() was called before optimizer.step(): the first value of the "
                "schedule is skipped"
            )
        else:
            return
        warnings.warn(text, UserWarning, stacklevel=3)

    def _update_lr(self, epoch=None):
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", self.get_lr)
                values = closed()
        finally:
            self._get_lr_called_within_step = False
        self._write(values)

    def _write(self, values):
        for group, lr in zip(self.optimizer.param_groups, values):
            _set_option(group, "lr", lr)
        self._last_lr = _current(self.optimizer)

    def _warn_get_lr_called_within_step(self):
        if not self._get_lr_called_within_step:
            warnings.warn(
                "get_lr() computes the next rates; use get_last_lr() for the current ones",
                UserWarning,
                stacklevel=3,
            )

    def _rates(self, factor=1):
        """The current rates times a factor; 1 leaves them alone."""
        if factor == 1:
            return _current(self.optimizer)
        return [group["lr"] * factor for group in self.optimizer.param_groups]
