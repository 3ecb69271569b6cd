"""How the library was built and how it runs, as text."""

from flambeau import _C
from flambeau.backends.cpu import get_cpu_capability

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Version and instruction set."""
    from flambeau import version

    return (
        f"Flambeau {version.flambeau} with the interface of PyTorch {version.__version__}\n"
        f"  - C++20, CPU capability: {get_cpu_capability()}\n"
    )


def parallel_info() -> str:
    """How many threads work on one op."""
    return f"Flambeau's thread pool: {_C.get_num_threads()} threads for each op\n"
