"""The older names of torch.amp for the CPU."""

from flambeau import _C
from flambeau.amp import autocast as _autocast
from flambeau.amp.grad_scaler import _OlderGradScaler


class autocast(_autocast):
    """torch.autocast("cpu")."""

    def __init__(self, enabled=True, dtype=_C.bfloat16, cache_enabled=True):
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_OlderGradScaler):
    """torch.amp.GradScaler("cpu")."""

    _device_type = "cpu"
