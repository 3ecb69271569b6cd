"""GradScaler: scales the loss so that small gradients survive float16."""

import warnings
from collections import defaultdict
from enum import Enum

from flambeau import _C


class OptState(Enum):
    """What has happened to an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state():
    return {"stage": OptState.READY, "found_inf": False}


def _gradients(optimizer):
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                yield p.grad


def _all_finite(grad):
    # inf - inf and nan - nan are nan, whatever the size of the others.
    return float((grad - grad).float().sum()) == 0.0


class GradScaler:
    """Multiplies losses by a scale that grows while gradients stay finite and shrinks when they do not.

    The scale starts at `init_scale`; after `growth_interval` finite steps it is multiplied by
    `growth_factor`, after a step with inf or nan, which is skipped, by `backoff_factor`.
    """

    def __init__(
        self,
        device="cuda",
        init_scale=65536.0,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        self._device = device
        if enabled and device == "cuda":
            warnings.warn(
                "GradScaler: CUDA is not available; the scaler does nothing", stacklevel=2
            )
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise AssertionError(f"GradScaler: growth_factor must be above 1, got {growth_factor}")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError(
                f"GradScaler: backoff_factor must be below 1, got {backoff_factor}"
            )
        self._enabled = enabled
        self._scale, self._growth_factor = float(init_scale), growth_factor
        self._backoff_factor, self._growth_interval = backoff_factor, growth_interval
        self._growth_tracker = 0
        self._states = defaultdict(_fresh_state)

    def is_enabled(self) -> bool:
        return self._enabled

    def get_scale(self) -> float:
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval) -> None:
        self._growth_interval = new_interval

    def scale(self, outputs):
        """The loss, or a list of losses, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _C.Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(o) for o in outputs)
        raise ValueError(f"GradScaler: outputs must be tensors, got {type(outputs).__name__}")

    def unscale_(self, optimizer) -> None:
        """Divides the gradients by the scale, to clip them before the step."""
        if not self._enabled:
            return
        state = self._states[id(optimizer)]
        if state["stage"] is not OptState.READY:
            when = "already" if state["stage"] is OptState.UNSCALED else "after step()"
            raise RuntimeError(f"GradScaler.unscale_: called {when} since the last update()")
        finite = True
        with _C._NoGrad():
            for grad in _gradients(optimizer):
                grad.mul_(1.0 / self._scale)
                finite = finite and _all_finite(grad)
        state["stage"], state["found_inf"] = OptState.UNSCALED, not finite

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step() with unscaled gradients, unless one of them is inf or nan."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: closures are not supported")
        state = self._states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("GradScaler.step: called twice since the last update()")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        result = None if state["found_inf"] else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale=None) -> None:
        """Moves the scale, by what the steps since the last update found, or to `new_scale`."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._states:
            raise AssertionError("GradScaler.update: no step() or unscale_() came before")
        elif any(s["found_inf"] for s in self._states.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._states = defaultdict(_fresh_state)

    def state_dict(self) -> dict:
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict) -> None:
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "GradScaler.load_state_dict: the state of a disabled scaler is empty"
            )
        self._scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]


class _OlderGradScaler(GradScaler):
    """The scaler of one device, under its name of before torch.amp."""

    _device_type = "cpu"

    def __init__(
        self,
        init_scale=65536.0,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        super().__init__(
            self._device_type, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
