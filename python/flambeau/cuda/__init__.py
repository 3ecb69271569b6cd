"""CUDA devices. This build has no CUDA kernels: questions are answered, anything that needs a
device says why there is none.
"""

import contextlib

from flambeau import _C

OutOfMemoryError = _C.OutOfMemoryError
default_generators = ()
has_half = has_magma = False


def is_available() -> bool:
    """Is there a CUDA device that this build can use?"""
    return False


def why_unavailable() -> str:
    """One sentence: why is_available() is False."""
    return "this build of flambeau has no CUDA kernels"


def _no_device(name):
    raise RuntimeError(f"cuda.{name}: no CUDA device is available: {why_unavailable()}")


def is_built() -> bool:
    return False


def is_initialized() -> bool:
    return False


def device_count() -> int:
    return 0


def is_bf16_supported(including_emulation=True) -> bool:
    return False


def _is_in_bad_fork() -> bool:
    return False


def is_current_stream_capturing() -> bool:
    return False


# ---- what scripts call whether or not there is a device: nothing to do ----


def manual_seed(seed) -> None:
    """Seeds the current device; kept for later where there is none."""
    int(seed)


def manual_seed_all(seed) -> None:
    """Seeds all devices."""
    int(seed)


def empty_cache() -> None:
    """Gives cached memory back to the driver."""


def ipc_collect() -> None:
    """Frees memory that other processes have let go."""


def memory_allocated(device=None) -> int:
    return 0


def max_memory_allocated(device=None) -> int:
    return 0


def memory_reserved(device=None) -> int:
    return 0


def max_memory_reserved(device=None) -> int:
    return 0


def reset_peak_memory_stats(device=None) -> None:
    """Starts the peaks of the memory figures anew."""


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def memory_stats(device=None) -> dict:
    return {}


def get_rng_state_all() -> list:
    return []


def set_rng_state_all(new_states) -> None:
    if len(list(new_states)):
        _no_device("set_rng_state_all")


@contextlib.contextmanager
def stream(stream):
    """Makes a stream the current one inside; None changes nothing."""
    if stream is not None:
        _no_device("stream")
    yield


class device:
    """Makes a device the current one inside a with statement; a negative index changes nothing."""

    def __init__(self, device):
        self.idx = device if isinstance(device, int) else -1

    def __enter__(self):
        if self.idx >= 0:
            _no_device("device")

    def __exit__(self, *error):
        return False


class device_of(device):
    """The device of a tensor, as the current one; a tensor on the CPU changes nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if getattr(obj, "is_cuda", False) else -1)


# ---- what needs a device ----


def _needs_device(name):
    def function(*args, **kwargs):
        _no_device(name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Needs a CUDA device."
    return function


for _name in (
    "init current_device set_device synchronize get_device_name get_device_capability "
    "get_device_properties current_stream default_stream set_stream get_rng_state set_rng_state seed "
    "seed_all initial_seed mem_get_info memory_summary memory_snapshot cudart _sleep graph_pool_handle "
    "caching_allocator_alloc caching_allocator_delete can_device_access_peer utilization temperature "
    "power_draw clock_rate set_per_process_memory_fraction list_gpu_processes get_arch_list "
    "current_blas_handle"
).split():
    globals()[_name] = _needs_device(_name)


class _NeedsDevice:
    def __init__(self, *args, **kwargs):
        _no_device(type(self).__name__)


class Stream(_NeedsDevice):
    """A queue of work on a device."""


class ExternalStream(Stream):
    """A stream that somebody else made."""


class Event(_NeedsDevice):
    """A point in a stream."""


class CUDAGraph(_NeedsDevice):
    """Recorded work that can be launched again."""


class graph(_NeedsDevice):
    """Records the work of a with statement into a CUDAGraph."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'flambeau.cuda' has no attribute {name!r}")
    import importlib

    try:
        return importlib.import_module(f"flambeau.cuda.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"flambeau.cuda.{name}":
            raise
    raise AttributeError(f"module 'flambeau.cuda' has no attribute {name!r}")
