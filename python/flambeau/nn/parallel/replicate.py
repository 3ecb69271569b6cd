"""Copies of a module on several devices, whose gradients flow back to the one module."""

import flambeau

__all__ = ["replicate"]


def _copies(tensors, devices, detach):
    """Per device, the tensors there; the first device's are the originals where they sit on it."""
    return [[(t.detach() if detach else t).to(d) for t in tensors] for d in devices]


def replicate(network, devices, detach=False):
    """A copy of `network` per device. Parameters of copies are results of `to`, no leaves."""
    devices = [flambeau.device(d) for d in devices]
    parameters = list(network.parameters())
    buffers = list(network.buffers())
    index_of = {id(t): i for i, t in enumerate(parameters)}
    buffer_of = {id(t): i for i, t in enumerate(buffers)}
    detach = detach or not flambeau.is_grad_enabled()
    new_parameters = _copies(parameters, devices, detach)
    new_buffers = _copies(buffers, devices, True)
    modules = list(network.modules())
    replicas = [[m._replicate_for_data_parallel() for m in modules] for _ in devices]
    position = {id(m): i for i, m in enumerate(modules)}
    for i, module in enumerate(modules):
        for d in range(len(devices)):
            replica = replicas[d][i]
            for key, child in module._modules.items():
                replica._modules[key] = None if child is None else replicas[d][position[id(child)]]
            for key, param in module._parameters.items():
                if param is None:
                    replica._parameters[key] = None
                else:
                    # A plain attribute: a result of `to` is no parameter.
                    setattr(replica, key, new_parameters[d][index_of[id(param)]])
            for key, buf in module._buffers.items():
                new = None if buf is None else new_buffers[d][buffer_of[id(buf)]]
                replica._buffers[key] = new
    return [r[0] for r in replicas]
