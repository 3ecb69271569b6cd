"""Seeds and states of the default generator."""

import contextlib

from flambeau import _C

default_generator = _C.default_generator


def manual_seed(seed) -> _C.Generator:
    """Starts the random numbers of every device anew from a seed; returns the CPU's generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Starts anew from a seed of the system's and returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that was set last."""
    return default_generator.initial_seed()


def get_rng_state() -> _C.Tensor:
    """The state of the CPU's generator as a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state) -> None:
    """Goes on from a state that get_rng_state gave."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"
):
    """Gives the numbers drawn inside a with statement back: afterwards the state is as before."""
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def thread_safe_generator() -> _C.Generator | None:
    """The generator of a data loader's worker thread; None elsewhere, and workers are processes."""
    return None
