"""The CPU as a device like others: it is always there, alone, and has done its work."""

import contextlib

from flambeau.cpu import amp


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> str:
    return "cpu"


def set_device(device) -> None:
    """There is only one."""


def synchronize(device=None) -> None:
    """Nothing is pending."""


class Stream:
    """A queue of work; on the CPU everything is done when a call returns."""

    def __init__(self, priority=-1):
        self.priority = priority

    def wait_stream(self, stream) -> None:
        """Nothing is pending."""


def current_stream(device=None):
    return Stream()


@contextlib.contextmanager
def stream(stream):
    """Changes nothing."""
    yield
