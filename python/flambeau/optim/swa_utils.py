"""Averages of weights along a training run, and the schedule that goes with them."""

import copy
import math

import flambeau
from flambeau.nn import Module
from flambeau.optim._lr_base import LRScheduler, _per_group

__all__ = [
    "AveragedModel",
    "update_bn",
    "SWALR",
    "get_ema_multi_avg_fn",
    "get_swa_multi_avg_fn",
    "get_ema_avg_fn",
    "get_swa_avg_fn",
]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1].")


def get_ema_avg_fn(decay=0.999):
    """(average, current, count) -> decay * average + (1 - decay) * current."""
    _check_decay(decay)

    @flambeau.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """(average, current, count) -> the mean of count + 1 values."""

    @flambeau.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay=0.999):
    """The exponential average of lists of tensors, in place."""
    _check_decay(decay)

    @flambeau.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for average, current in zip(ema_param_list, current_param_list):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn():
    """The mean of lists of tensors, in place."""

    @flambeau.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        weight = 1 / (float(num_averaged) + 1)
        for average, current in zip(averaged_param_list, current_param_list):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, weight)
            else:
                average.add_((current - average) * weight)

    return swa_update


class AveragedModel(Module):
    """A copy of `model` whose parameters are averages of the model's over `update_parameters`."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", flambeau.tensor(0, dtype=flambeau.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _tensors(self, model):
        yield from model.parameters()
        if self.use_buffers:
            yield from model.buffers()

    def update_parameters(self, model) -> None:
        """Takes the model's present parameters into the averages."""
        pairs = [
            (ours, theirs.detach().to(ours.device))
            for ours, theirs in zip(self._tensors(self.module), self._tensors(model))
        ]
        with flambeau.no_grad():
            if self.n_averaged == 0:
                for ours, theirs in pairs:
                    ours.copy_(theirs)
            elif self.multi_avg_fn is not None:
                self.multi_avg_fn([a for a, _ in pairs], [b for _, b in pairs], self.n_averaged)
            else:
                average = self.avg_fn or get_swa_avg_fn()
                for ours, theirs in pairs:
                    ours.copy_(average(ours.detach(), theirs, self.n_averaged))
            if not self.use_buffers:
                for ours, theirs in zip(self.module.buffers(), model.buffers()):
                    ours.copy_(theirs.detach().to(ours.device))
            self.n_averaged += 1


def update_bn(loader, model, device=None) -> None:
    """Computes the running statistics of all batch norms anew, in one pass over `loader`."""
    from flambeau.nn.modules.batchnorm import _BatchNorm

    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None  # the cumulative mean
    with flambeau.no_grad():
        for item in loader:
            item = item[0] if isinstance(item, (list, tuple)) else item
            model(item if device is None else item.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


def _linear(t):
    return t


def _cosine(t):
    return (1 - math.cos(math.pi * t)) / 2


class SWALR(LRScheduler):
    """Takes the rates to `swa_lr` in `anneal_epochs` epochs and keeps them there."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        for lr, group in zip(_per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _get_initial_lr(lr, swa_lr, alpha):
        if alpha == 1:
            return swa_lr
        return (lr - alpha * swa_lr) / (1 - alpha)

    def get_lr(self):
        self._warn_get_lr_called_within_step()
        anneal = _cosine if self._anneal_strategy == "cos" else _linear
        # Like torch's, `last_epoch` counts from one here: its first step is the initial one.
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        length = max(1, self.anneal_epochs)
        before = anneal(max(0, min(1, (step - 1) / length)))
        now = anneal(max(0, min(1, step / length)))
        groups = self.optimizer.param_groups
        starts = [self._get_initial_lr(g["lr"], g["swa_lr"], before) for g in groups]
        return [g["swa_lr"] * now + lr * (1 - now) for g, lr in zip(groups, starts)]
