"""Signal processing."""

from flambeau.signal import windows

__all__ = ["windows"]
