"""Making a module without initialising its parameters."""

import flambeau

__all__ = ["skip_init"]


def skip_init(module_cls, *args, **kwargs):
    """An instance of `module_cls` whose parameters and buffers are left undefined."""
    import inspect

    if not issubclass(module_cls, flambeau.nn.Module):
        raise RuntimeError(f"skip_init: expected a Module class, got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} must take a device argument")
    device = kwargs.pop("device", "cpu")
    kwargs["device"] = "meta"
    return module_cls(*args, **kwargs).to_empty(device=device)
