"""Automatic mixed precision: autocast chooses the type of each op, GradScaler keeps small gradients
from vanishing in float16.
"""

from flambeau.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
