"""The older names of torch.amp for CUDA."""

import functools

from flambeau import _C, amp
from flambeau.amp.grad_scaler import _OlderGradScaler


class autocast(amp.autocast):
    """torch.autocast("cuda")."""

    def __init__(self, enabled=True, dtype=_C.float16, cache_enabled=True):
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_OlderGradScaler):
    """torch.amp.GradScaler("cuda")."""

    _device_type = "cuda"


custom_fwd = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    return True
