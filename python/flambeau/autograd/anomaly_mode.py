"""Anomaly mode: lines of failing nodes are always known here, so it only looks for NaN."""

from flambeau import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Turns the search for NaN in backward on or off, from this call on or inside the block."""

    def __init__(self, mode, check_nan=True):
        self.prev = _C._set_anomaly(mode)
        self.prev_nan = _C._set_anomaly_nan(bool(mode and check_nan))

    def __enter__(self):
        pass

    def __exit__(self, *args):
        _C._set_anomaly(self.prev)
        _C._set_anomaly_nan(self.prev_nan)


class detect_anomaly:
    """Inside, a backward that makes NaN is an error that names the op and its forward line."""

    def __init__(self, check_nan=True):
        self.check_nan = check_nan

    def __enter__(self):
        self.switch = set_detect_anomaly(True, self.check_nan)

    def __exit__(self, *args):
        self.switch.__exit__()
