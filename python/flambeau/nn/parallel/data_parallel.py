"""DataParallel: the batch cut over the GPUs of one process."""

import flambeau
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.parallel_apply import parallel_apply
from flambeau.nn.parallel.replicate import replicate
from flambeau.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def _gpu_count() -> int:
    return flambeau.cuda.device_count() if flambeau.cuda.is_available() else 0


class DataParallel(Module):
    """Cuts the batch over `device_ids`, runs a copy of `module` on each and joins the results.

    Without a GPU it calls `module`.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0) -> None:
        super().__init__()
        count = _gpu_count()
        self.module = module
        if count == 0:
            self.device_ids = []
            return
        device_ids = list(range(count)) if device_ids is None else device_ids
        if not device_ids:
            raise RuntimeError("DataParallel: no available devices were found")
        self.dim = dim
        self.device_ids = [
            flambeau.device(d).index if not isinstance(d, int) else d for d in device_ids
        ]
        self.output_device = device_ids[0] if output_device is None else output_device
        self.src_device_obj = flambeau.device("cuda", self.device_ids[0])
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs, **kwargs):
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        for t in (*self.module.parameters(), *self.module.buffers()):
            if t.device != self.src_device_obj:
                raise RuntimeError(
                    "DataParallel: module must have its parameters and buffers on device "
                    f"{self.src_device_obj}, got one on {t.device}"
                )
        inputs, kwargs = self.scatter(inputs, kwargs, self.device_ids)
        if not inputs:  # a forward without arguments
            inputs, kwargs = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*inputs[0], **kwargs[0])
        replicas = self.replicate(self.module, self.device_ids[: len(inputs)])
        return self.gather(self.parallel_apply(replicas, inputs, kwargs), self.output_device)

    def replicate(self, module, device_ids):
        """A copy of `module` per device."""
        return replicate(module, device_ids, not flambeau.is_grad_enabled())

    def scatter(self, inputs, kwargs, device_ids):
        """The arguments cut over the devices."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas, inputs, kwargs):
        """The copies' results."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs, output_device):
        """The results joined on one device."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """One call of `module` with its batch cut over `device_ids`."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    kwargs = module_kwargs or {}
    if device_ids is None:
        device_ids = list(range(_gpu_count()))
    if not device_ids:
        return module(*inputs, **kwargs)
    output_device = device_ids[0] if output_device is None else output_device
    parts, named = scatter_kwargs(inputs, kwargs, device_ids, dim)
    if len(parts) <= 1:
        args, options = (parts[0], named[0]) if parts else (inputs, kwargs)
        return module(*args, **options)
    replicas = replicate(module, device_ids[: len(parts)])
    return gather(parallel_apply(replicas, parts, named), output_device, dim)
