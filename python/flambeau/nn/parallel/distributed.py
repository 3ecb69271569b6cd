"""DistributedDataParallel: one process per device, gradients averaged over all of them."""

from contextlib import contextmanager

import flambeau
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel._reducer import Reducer
from flambeau.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DistributedDataParallel"]

_MB = 1 << 20


def _tensors(obj):
    """All tensors in a nested result; of other objects only dataclasses are looked into."""
    if isinstance(obj, flambeau.Tensor):
        return [obj]
    if isinstance(obj, dict):
        obj = obj.values()
    elif hasattr(type(obj), "__dataclass_fields__"):
        obj = [getattr(obj, name) for name in type(obj).__dataclass_fields__]
    elif not isinstance(obj, (list, tuple)):
        return []
    return [t for o in obj for t in _tensors(o)]


def _broadcast(tensors, group) -> None:
    """Gives all tensors the values that the group's first process has."""
    dist = flambeau.distributed
    source = dist.get_global_rank(group, 0) if group is not None else 0
    by_kind = {}
    for t in tensors:
        by_kind.setdefault((t.dtype, t.device), []).append(t)
    with flambeau.no_grad():
        for same in by_kind.values():
            flat = flambeau.cat([t.detach().reshape(-1) for t in same])
            dist.broadcast(flat, source, group=group)
            for t, values in zip(same, flat.split([t.numel() for t in same])):
                t.detach().copy_(values.view(t.shape))


class DistributedDataParallel(Module):
    """Runs `module` on this process's part of the batch and averages gradients over the group.

    Parameters and buffers start as those of rank 0. Averaging overlaps with the backward pass.
    With find_unused_parameters, parameters that a forward pass did not use may lack gradients.
    """

    def __init__(
        self,
        module,
        device_ids=None,
        output_device=None,
        dim=0,
        broadcast_buffers=None,
        init_sync=True,
        process_group=None,
        bucket_cap_mb=None,
        find_unused_parameters=False,
        check_reduction=False,
        gradient_as_bucket_view=False,
        static_graph=False,
        delay_all_reduce_named_params=None,
        param_to_hook_all_reduce=None,
        mixed_precision=None,
        device_mesh=None,
        skip_all_reduce_unused_params=False,
        bucket_cap_mb_list=None,
        batched_grad_copy=False,
        forward_sync_buffers=None,
    ) -> None:
        super().__init__()
        for name, value in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
        ):
            if value is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not supported")
        self._check_devices(module, device_ids)
        self.module, self.dim = module, dim
        self.process_group = process_group
        self.device_ids = None if not device_ids else [_index(device_ids[0])]
        self.output_device = None
        if self.device_ids is not None:
            self.output_device = self.device_ids[0] if output_device is None else output_device
        self.device = next(iter(module.parameters())).device
        buffers = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.broadcast_buffers = True if buffers is None else buffers
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MB)
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        if init_sync:
            self._check_same_model()
            _broadcast(self._module_states(), process_group)
        self._make_reducer()

    def _check_devices(self, module, device_ids) -> None:
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel: module has no parameter that requires a gradient"
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(
                f"DistributedDataParallel: device_ids must be None or one device, got {device_ids}"
            )
        kinds = {p.device.type for p in module.parameters()}
        if len(kinds) != 1:
            raise ValueError(
                f"DistributedDataParallel: parameters must be on one device type, got {kinds}"
            )

    def _make_reducer(self) -> None:
        named = [
            (n, p)
            for n, p in self.module.named_parameters()
            if p.requires_grad and n not in self.parameters_to_ignore
        ]
        self.reducer = Reducer(
            named,
            self.process_group,
            self.find_unused_parameters or self.static_graph,
            min(_MB, self.bucket_bytes_cap),
            self.bucket_bytes_cap,
        )

    def _module_states(self):
        ignored = self.parameters_to_ignore
        params = [p for n, p in self.module.named_parameters() if n not in ignored]
        return params + self._synced_buffers()

    def _synced_buffers(self):
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def _check_same_model(self) -> None:
        """All processes must have equally many parameters of the same sizes."""
        sizes = [p.numel() * (i + 1) for i, p in enumerate(self.module.parameters())]
        mine = flambeau.tensor([len(sizes), sum(sizes)], dtype=flambeau.int64, device=self.device)
        dist, high, low = flambeau.distributed, mine.clone(), mine.clone()
        dist.all_reduce(high, op=dist.ReduceOp.MAX, group=self.process_group)
        dist.all_reduce(low, op=dist.ReduceOp.MIN, group=self.process_group)
        if high.tolist() != low.tolist():
            raise RuntimeError(
                "DistributedDataParallel: processes have different models, this one has "
                f"{len(sizes)} parameters, others from {low[0].item()} to {high[0].item()}"
            )

    def __getstate__(self):
        state = dict(super().__getstate__())
        for name in ("process_group", "reducer"):
            state.pop(name, None)
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self.process_group = None
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._make_reducer()

    @contextmanager
    def no_sync(self):
        """Within the block gradients only add up here; the next pass outside averages them."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def will_sync_module_buffers(self) -> bool:
        """Whether forward takes the buffers of rank 0 first."""
        return (
            self.require_forward_param_sync
            and self.broadcast_buffers
            and bool(self._synced_buffers())
        )

    def forward(self, *inputs, **kwargs):
        sync = flambeau.is_grad_enabled() and self.require_backward_grad_sync
        if self.will_sync_module_buffers() and self.require_backward_grad_sync:
            _broadcast(self._synced_buffers(), self.process_group)
        if self.device_ids:
            inputs, kwargs = self.to_kwargs(inputs, kwargs, self.device_ids[0])
            inputs, kwargs = inputs[0], kwargs[0]
        output = self.module(*inputs, **kwargs)
        if sync:
            self.reducer.prepare(_tensors(output))
        return output

    def scatter(self, inputs, kwargs, device_ids):
        """The arguments cut over devices."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def to_kwargs(self, inputs, kwargs, device_id):
        """The arguments on one device, as lists of one part."""
        return scatter_kwargs(inputs, kwargs, [device_id], dim=self.dim)

    def gather(self, outputs, output_device):
        """Results joined on one device."""
        return gather(outputs, output_device, dim=self.dim)

    def train(self, mode=True):
        super().train(mode)
        return self

    def register_comm_hook(self, state, hook) -> None:
        """Replaces the averaging: `hook(state, bucket)` returns a tensor or a future of one."""
        if not callable(hook):
            raise TypeError(f"register_comm_hook: hook must be callable, got {type(hook).__name__}")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook: can only be called once")
        self.reducer.hook = (hook, state)

    def join(
        self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False
    ):
        """Not available: give every process equally many batches."""
        raise NotImplementedError("DistributedDataParallel.join: uneven inputs are not supported")

    def _set_static_graph(self) -> None:
        self.static_graph = True
        self.reducer.find_unused = True


def _index(device):
    return device if isinstance(device, int) else flambeau.device(device).index
