"""What a device's memory is used for, for every device alike."""

from flambeau import _C


def stats(device="cpu") -> dict:
    """Bytes and blocks in use (`live_bytes`), at most in use (`peak_bytes`), kept for reuse
    (`cached_bytes`); `limit_bytes` is 0 where nothing limits them.
    """
    return _C._memory_stats(device)


def reset_peak(device="cpu") -> None:
    """Starts `peak_bytes` anew."""
    _C._reset_peak_memory(device)


def empty_cache(device="cpu") -> None:
    """Gives the memory that is kept for reuse back to the system."""
    _C._empty_cache(device)


def set_fake_limit(bytes: int) -> None:
    """How much memory the fake device has."""
    _C._set_fake_memory_limit(bytes)
