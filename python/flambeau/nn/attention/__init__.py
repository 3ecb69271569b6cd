"""Which kernels scaled_dot_product_attention may use, and attention with formulas of one's own."""

import contextlib
import enum
import importlib

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels by name. Here one kernel serves all; MATH means the plain formula."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __str__(self):
        return f"SDPBackend.{self.name}"


_allowed = [b for b in SDPBackend if b > 0] + [SDPBackend.MATH]


def _cur_sdpa_kernel_backends(with_priority=False):
    """The kernels allowed now."""
    return list(_allowed)


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Within the block attention may use `backends` only, one or a list.

    The results of all kernels agree to rounding, so this is kept and has no other effect.
    """
    global _allowed
    wanted = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for b in wanted:
        if not isinstance(b, SDPBackend):
            raise AssertionError(f"sdpa_kernel: expected an SDPBackend or a list, got {b!r}")
    before, _allowed = _allowed, list(dict.fromkeys(wanted))
    try:
        yield {}
    finally:
        _allowed = before


def __getattr__(name):
    if name in ("bias", "flex_attention", "varlen"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
