"""The current accelerator, whatever its kind."""

from flambeau import cuda


def is_available() -> bool:
    return cuda.is_available()


def device_count() -> int:
    return cuda.device_count()


def current_accelerator(check_available=False):
    """The accelerator's device, None where there is none."""
    return None


def synchronize(device=None) -> None:
    """Waits until a device has done its work."""
    cuda.synchronize(device)
