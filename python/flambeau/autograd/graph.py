"""Looking at the graph, and hooks on what it saves."""

import contextlib
from collections import namedtuple

from flambeau import _C, Tensor
from flambeau.utils.hooks import RemovableHandle

__all__ = [
    "saved_tensors_hooks",
    "save_on_cpu",
    "disable_saved_tensors_hooks",
    "register_multi_grad_hook",
    "allow_mutation_on_saved_tensors",
    "Node",
    "GradientEdge",
    "get_gradient_edge",
    "increment_version",
]

Node = _C._Node


class GradientEdge(namedtuple("GradientEdge", ["node", "output_nr"])):
    """Where the gradient of a tensor enters the graph."""

    __slots__ = ()


def get_gradient_edge(tensor):
    """The node that made `tensor` (of a leaf: its accumulator) and which of its outputs it is."""
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    node = tensor.grad_fn
    if node is None:
        return GradientEdge(_C._grad_accumulator(tensor), 0)
    return GradientEdge(node, tensor.output_nr)


def increment_version(tensor) -> None:
    """Tells the tape that tensors were changed in place behind its back."""
    tensors = [tensor] if isinstance(tensor, Tensor) else tensor
    for t in tensors:
        _C._bump_version(t)


class saved_tensors_hooks:
    """Inside, every tensor saved for backward is replaced by pack_hook(tensor), and the backward
    pass gets unpack_hook of that."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *args):
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps what backward needs in host memory and copies it back when it is used."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            if tensor.device.type == "cpu" and not pin_memory:
                return tensor.device, tensor.clone()
            return tensor.device, tensor.cpu()

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """Inside, saved_tensors_hooks raises RuntimeError with this message."""
    old = _C._forbid_saved_hooks(error_message)
    try:
        yield
    finally:
        _C._forbid_saved_hooks(old)


class _MultiHandle(RemovableHandle):
    """Removes several hooks at once."""

    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __getstate__(self):
        return self.handles

    def __setstate__(self, state):
        self.handles = state


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """mode "all": fn(grads) once the gradients of all `tensors` that get one are known.

    mode "any": fn(grad) for the first gradient of each backward pass.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        return _MultiHandle([t.register_hook(_first_of_pass(fn)) for t in tensors])
    needing = [t for t in tensors if t.requires_grad]
    state = {"grads": [None] * len(tensors), "seen": 0}

    def make(i):
        def hook(grad):
            state["grads"][i] = grad
            state["seen"] += 1
            if state["seen"] == len(needing):
                grads = state["grads"]
                state.update(grads=[None] * len(tensors), seen=0)
                fn(grads)

        return hook

    handles = [t.register_hook(make(i)) for i, t in enumerate(tensors) if t.requires_grad]
    return _MultiHandle(handles)


def _first_of_pass(fn):
    state = {"done": False}

    def hook(grad):
        if not state["done"]:
            state["done"] = True
            fn(grad)

    return hook


class allow_mutation_on_saved_tensors:
    """Inside, tensors saved for backward may be changed in place: the tape keeps copies."""

    def __enter__(self):
        self.hooks = saved_tensors_hooks(lambda t: t.clone(), lambda t: t)
        self.hooks.__enter__()
        return self

    def __exit__(self, *args):
        self.hooks.__exit__(*args)
