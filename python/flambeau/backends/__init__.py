"""What other libraries' back ends are asked and told. The CPU's kernels are our own, so most settings
are only remembered.
"""

import importlib

__allow_nonbracketed_mutation_flag = True


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'flambeau.backends' has no attribute {name!r}")
    full = f"flambeau.backends.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
    raise AttributeError(f"module 'flambeau.backends' has no attribute {name!r}")
