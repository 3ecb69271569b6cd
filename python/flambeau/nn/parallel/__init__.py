"""One model on several devices. Names load on first use."""

import importlib
import warnings

_HOMES = {
    "DataParallel": "data_parallel",
    "DistributedDataParallel": "distributed",
    "data_parallel": "data_parallel",
    "gather": "scatter_gather",
    "parallel_apply": "parallel_apply",
    "replicate": "replicate",
    "scatter": "scatter_gather",
}

__all__ = list(_HOMES)

# These are files as well as functions; imported first, the functions keep the names, as in torch.
from flambeau.nn.parallel.data_parallel import DataParallel, data_parallel
from flambeau.nn.parallel.parallel_apply import parallel_apply
from flambeau.nn.parallel.replicate import replicate


def DistributedDataParallelCPU(*args, **kwargs):
    """Old name of DistributedDataParallel."""
    warnings.warn(
        "DistributedDataParallelCPU is deprecated, use DistributedDataParallel",
        FutureWarning,
        stacklevel=2,
    )
    return importlib.import_module(__name__).DistributedDataParallel(*args, **kwargs)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as e:
        if e.name != f"{__name__}.{_HOMES[name]}":
            raise
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None
    globals()[name] = value
    return value
