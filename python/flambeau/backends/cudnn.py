"""Settings of cuDNN, remembered for when there is a device."""

import contextlib

enabled, benchmark, deterministic, allow_tf32 = True, False, False, True
benchmark_limit = 10
fp32_precision = "none"


def is_available() -> bool:
    return False


def version():
    """cuDNN's version, None where it is not installed."""
    return None


def is_acceptable(tensor) -> bool:
    return False


@contextlib.contextmanager
def flags(
    enabled=False,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
    **ignored,
):
    """The settings for the length of a with statement."""
    names = (
        "enabled",
        "benchmark",
        "benchmark_limit",
        "deterministic",
        "allow_tf32",
        "fp32_precision",
    )
    given, here = locals(), globals()
    before = {name: here[name] for name in names}
    here.update((name, given[name]) for name in names)
    try:
        yield
    finally:
        here.update(before)
