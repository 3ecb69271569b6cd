"""The older names of torch.amp for the CPU."""

from flambeau import _C
from flambeau.amp import autocast as _autocast
from flambeau.amp.grad_scaler import GradScaler as _GradScaler


class autocast(_autocast):
    """torch.autocast("cpu")."""

    def __init__(self, enabled=True, dtype=_C.bfloat16, cache_enabled=True):
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """torch.amp.GradScaler("cpu")."""

    def __init__(
        self,
        init_scale=65536.0,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
