"""Settings of CUDA's matrix products and attention, remembered for when there is a device."""

import contextlib
from types import SimpleNamespace

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
cufft_plan_cache = SimpleNamespace(size=0, max_size=0, clear=lambda: None)
_attention = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}


def is_built() -> bool:
    return False


def _switch(kind):
    def enable(enabled: bool) -> None:
        _attention[kind] = bool(enabled)

    return enable, lambda: _attention[kind]


enable_flash_sdp, flash_sdp_enabled = _switch("flash")
enable_math_sdp, math_sdp_enabled = _switch("math")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient")
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn")


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Which kernels of attention may run inside a with statement."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _attention.update(before)
