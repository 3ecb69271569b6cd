"""Schedules of learning rates; the cyclic ones are in _lr_cycles.py."""

import math
import types
from bisect import bisect_right
from collections import Counter

from flambeau.optim import _lr_cycles
from flambeau.optim._lr_base import LRScheduler, _current, _set_option
from flambeau.optim._lr_cycles import (
    CosineAnnealingWarmRestarts,
    CyclicLR,
    OneCycleLR,
    ReduceLROnPlateau,
)

__all__ = [
    "LambdaLR",
    "MultiplicativeLR",
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "SequentialLR",
    "CosineAnnealingLR",
    "ChainedScheduler",
    "ReduceLROnPlateau",
    "CyclicLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "PolynomialLR",
    "LRScheduler",
]


class _LRScheduler(LRScheduler):
    """The name of LRScheduler before torch 2.0."""


class _FunctionLR(LRScheduler):
    """What LambdaLR and MultiplicativeLR share: one function of the epoch per group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        """Everything but the optimizer; of functions only the attributes of callable objects."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else f.__dict__.copy()
            for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict):
        """Takes over what `state_dict` gave; plain functions stay as they are."""
        functions = state_dict["lr_lambdas"]
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for ours, theirs in zip(self.lr_lambdas, functions):
            if theirs is not None:
                ours.__dict__.update(theirs)


class LambdaLR(_FunctionLR):
    """lr = initial lr * lr_lambda(epoch)."""

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(_FunctionLR):
    """lr *= lr_lambda(epoch)."""

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        if self._is_initial:
            return self._rates()
        groups = self.optimizer.param_groups
        return [g["lr"] * f(self.last_epoch) for f, g in zip(self.lr_lambdas, groups)]


class StepLR(LRScheduler):
    """lr *= gamma every `step_size` epochs."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._rates(self.gamma if due else 1)

    def _get_closed_form_lr(self):
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """lr *= gamma at each of the epochs `milestones`."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        return self._rates(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """lr = initial lr * factor for `total_iters` epochs, then the initial lr."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if factor > 1.0 or factor < 0:
            raise ValueError(f"ConstantLR: factor must be in [0, 1], got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        if self.last_epoch == 0:
            return self._rates(self.factor)
        return self._rates(1.0 / self.factor if self.last_epoch == self.total_iters else 1)

    def _get_closed_form_lr(self):
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """lr goes linearly from initial lr * start_factor to initial lr * end_factor."""

    def __init__(
        self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1
    ):
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(f"LinearLR: start_factor must be in (0, 1], got {start_factor}")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(f"LinearLR: end_factor must be in [0, 1], got {end_factor}")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        start, rise = self.start_factor, self.end_factor - self.start_factor
        if self.last_epoch == 0:
            return self._rates(start)
        if self.last_epoch > self.total_iters:
            return self._rates()
        factor = 1.0 + rise / (self.total_iters * start + (self.last_epoch - 1) * rise)
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self):
        rise = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch)
        return [
            base * (self.start_factor + rise * done / self.total_iters) for base in self.base_lrs
        ]


class ExponentialLR(LRScheduler):
    """lr *= gamma every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        return self._rates() if self._is_initial else self._rates(self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """lr = initial lr * (1 - epoch / total_iters)^power, 0 from total_iters on."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        factor = (left / before) ** self.power
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self):
        done = min(self.total_iters, self.last_epoch)
        return [base * (1.0 - done / self.total_iters) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """lr follows half a cosine from the initial lr to eta_min in T_max epochs, and back."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        if self._is_initial:
            return self._rates()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups, low = self.optimizer.param_groups, self.eta_min
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = 1 - math.cos(math.pi / self.T_max)
            return [g["lr"] + (base - low) * rise / 2 for base, g in zip(self.base_lrs, groups)]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (g["lr"] - low) + low for g in groups]

    def _get_closed_form_lr(self):
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


def _check_members(name, schedulers, optimizer):
    if len(schedulers) < 1:
        raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
    for i, s in enumerate(schedulers):
        if not hasattr(s, "optimizer"):
            raise TypeError(f"{name}: scheduler {i} has no optimizer")
        if isinstance(s, ReduceLROnPlateau):
            raise ValueError(f"{name}: scheduler {i} is a ReduceLROnPlateau, which needs metrics")
        if s.optimizer != optimizer:
            raise ValueError(f"{name}: scheduler {i} belongs to another optimizer")


class _Composite(LRScheduler):
    """A schedule made of others."""

    def state_dict(self):
        """The members' states with everything else but the optimizer."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict):
        """Takes over what `state_dict` gave."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for ours, theirs in zip(self._schedulers, state_dict["_schedulers"]):
            ours.load_state_dict(theirs)


class SequentialLR(_Composite):
    """One schedule after the other; `milestones` are the epochs at which the next one begins."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        _check_members("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR: there must be one milestone less than schedulers, got "
                f"{len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Making the schedules set the rates already; only the first one may count.
        for group in optimizer.param_groups:
            _set_option(group, "lr", group["initial_lr"])
        self.recursive_undo()
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched=None):
        """Takes back one epoch of every schedule below."""
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for s in sched._schedulers:
                self.recursive_undo(s)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    def step(self):
        """Goes to the next epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composite):
    """Several schedules at once, each changing what the one before it set."""

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) >= 1 and optimizer is None:
            optimizer = schedulers[0].optimizer
        _check_members("ChainedScheduler", schedulers, optimizer)
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = _current(schedulers[-1].optimizer)

    def step(self):
        """Steps every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _current(self._schedulers[-1].optimizer)


for _cls in (LRScheduler, *(getattr(_lr_cycles, n) for n in _lr_cycles.__all__)):
    _cls.__module__ = __name__  # their public home, which pickles name
