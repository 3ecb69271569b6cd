"""All parameters as one vector, and back."""

import flambeau


def _check_param_device(param, old_param_device):
    """The device of `param`, which must be that of the parameters before it."""
    device = param.get_device() if param.is_cuda else -1
    if old_param_device is not None and device != old_param_device:
        raise TypeError(
            "parameters must be on one device, found some on different ones, "
            f"{device} and {old_param_device}"
        )
    return device


def parameters_to_vector(parameters):
    """The elements of all parameters, one after the other."""
    device, parts = None, []
    for param in parameters:
        device = _check_param_device(param, device)
        parts.append(param.view(-1))
    return flambeau.cat(parts)


def vector_to_parameters(vec, parameters) -> None:
    """Makes each parameter a view of the matching part of `vec`."""
    if not isinstance(vec, flambeau.Tensor):
        raise TypeError(f"vector_to_parameters: expected a Tensor, got {type(vec)}")
    device, start = None, 0
    for param in parameters:
        device = _check_param_device(param, device)
        end = start + param.numel()
        param.data = vec[start:end].view_as(param).data
        start = end
