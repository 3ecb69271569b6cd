"""Activation checkpointing: a function's saved tensors are dropped and computed again in backward.

There is one engine, on saved-tensor hooks, for `use_reentrant` either way: arguments of any kind,
parameters that the function captures, nesting, and autograd.grad all work.
"""

import contextlib
import enum
import warnings

import flambeau
from flambeau import Tensor
from flambeau.autograd.function import Function
from flambeau.autograd.graph import saved_tensors_hooks

__all__ = [
    "checkpoint",
    "checkpoint_sequential",
    "CheckpointError",
    "CheckpointFunction",
    "check_backward_validity",
    "detach_variable",
    "get_device_states",
    "set_device_states",
    "noop_context_fn",
    "set_checkpoint_early_stop",
    "set_checkpoint_debug_enabled",
    "DefaultDeviceType",
    "CheckpointPolicy",
    "GraphExecGroup",
]

_DEFAULT_DETERMINISM_MODE = "default"
_early_stop = True


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function saved other tensors than the first."""


class _Enough(Exception):
    """Ends the second run once everything that backward needs is there."""


class CheckpointPolicy(enum.Enum):
    """What selective checkpointing may decide for an op."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class DefaultDeviceType:
    """The kind of device whose random state is kept besides the CPU's."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        """Sets the kind."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type():
        """The kind."""
        return DefaultDeviceType._default_device_type


class GraphExecGroup:
    """Marks several backward passes as one; they are anyway."""

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


def noop_context_fn():
    """Two contexts that do nothing, for the first and the second run."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable):
    """Inside, whether the second run ends as soon as it has what backward needs."""
    global _early_stop
    old, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = old


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled):
    """Errors name the tensors that differ in any case, so this changes nothing."""
    yield


def detach_variable(inputs):
    """The tensors of a tuple without history, requiring grad as before."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: ",
            type(inputs).__name__,
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


def check_backward_validity(inputs):
    """Warns if no input requires grad."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def get_device_states(*args):
    """Devices other than the CPU among the arguments, and their random states: none yet."""
    return [], []


def set_device_states(devices, states, *, device_type=None):
    """The opposite of `get_device_states`."""


class _KeepInputs(Function):
    """Saves tensors like an op does, so that the hooks of an outer checkpoint see them."""

    @staticmethod
    def forward(ctx, dummy, *tensors):
        ctx.save_for_backward(*tensors)
        return flambeau.empty((0,))

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("checkpoint: this node is never run")


def _autocast_state():
    """(enabled, dtype, cache) of the CPU's autocast, if there is one."""
    if not hasattr(flambeau, "is_autocast_cpu_enabled"):
        return None
    return (
        flambeau.is_autocast_cpu_enabled(),
        flambeau.get_autocast_dtype("cpu"),
        flambeau.is_autocast_cache_enabled(),
    )


def _autocast_as(state):
    if state is None:
        return contextlib.nullcontext()
    enabled, dtype, cache = state
    return flambeau.amp.autocast("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache)


class _Slot:
    """Stands for one saved tensor of the first run."""

    __slots__ = ("frame", "index")

    def __init__(self, frame, index):
        self.frame, self.index = frame, index


class _Frame:
    """One call of a checkpointed function."""

    def __init__(self, function, args, kwargs, preserve_rng_state, context, check):
        self.function, self.kwargs, self.context, self.check = function, kwargs, context, check
        self.rng_state = flambeau.get_rng_state() if preserve_rng_state else None
        self.autocast = _autocast_state()
        self.early_stop = _early_stop
        self.described = []  # what each saved tensor was like
        self.values = {}  # of the second run, until used
        self._keep_inputs(args)

    def _keep_inputs(self, args):
        where = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.args = [None if isinstance(a, Tensor) else a for a in args]
        self.where = [(i, args[i].requires_grad) for i in where]
        dummy = flambeau.empty((0,), requires_grad=True)
        with flambeau.enable_grad():
            self.inputs = _KeepInputs.apply(dummy, *[args[i] for i in where]).grad_fn

    def pack(self, tensor):
        self.described.append((tuple(tensor.shape), tensor.dtype, tensor.device))
        return _Slot(self, len(self.described) - 1)

    def unpack(self, slot):
        if slot.index not in self.values:
            self.run_again()
        if slot.index not in self.values:
            raise CheckpointError(
                "checkpoint: the second run of the function saved "
                f"{self.count} tensors, the first {len(self.described)}"
            )
        return self.values.pop(slot.index)

    def run_again(self):
        self.count = 0
        self.values.clear()
        args = list(self.args)
        for (i, requires_grad), tensor in zip(self.where, self.inputs.saved_tensors):
            # What an outer checkpoint computed again has lost its history.
            lost = requires_grad and not tensor.requires_grad
            args[i] = tensor.detach().requires_grad_() if lost else tensor
        try:
            with (
                flambeau.enable_grad(),
                _random_state(self.rng_state),
                self.context,
                _autocast_as(self.autocast),
                saved_tensors_hooks(self.keep, self.keep_unpack),
            ):
                self.function(*args, **self.kwargs)
        except _Enough:
            pass

    def keep(self, tensor):
        i, self.count = self.count, self.count + 1
        if i < len(self.described):
            found = (tuple(tensor.shape), tensor.dtype, tensor.device)
            if self.check and found != self.described[i]:
                raise CheckpointError(
                    f"checkpoint: saved tensor {i} was {self.described[i]} in the first run of the "
                    f"function and is {found} in the second"
                )
            self.values[i] = tensor.detach()
        if self.early_stop and self.count == len(self.described):
            raise _Enough
        return tensor

    @staticmethod
    def keep_unpack(tensor):
        return tensor


@contextlib.contextmanager
def _random_state(state):
    if state is None:
        yield
        return
    old = flambeau.get_rng_state()
    flambeau.set_rng_state(state)
    try:
        yield
    finally:
        flambeau.set_rng_state(old)


def checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=noop_context_fn,
    determinism_check=_DEFAULT_DETERMINISM_MODE,
    debug=False,
    early_stop=True,
    **kwargs,
):
    """function(*args, **kwargs), keeping only its arguments for backward, which runs it again.

    Random numbers repeat unless `preserve_rng_state=False`. `determinism_check="none"` leaves out
    the comparison of what the two runs save.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], got {determinism_check}"
        )
    if not flambeau.is_grad_enabled():
        return function(*args, **kwargs)
    first, second = context_fn()
    frame = _Frame(function, args, kwargs, preserve, second, determinism_check == "default")
    frame.early_stop = frame.early_stop and early_stop
    with first, saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Runs a Sequential (or list of functions) in `segments` checkpointed parts; the last runs
    plainly.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions)
    size = len(functions) // segments

    def part(start, end):
        def run(x):
            for f in functions[start:end]:
                x = f(x)
            return x

        return run

    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(part(start, end), input, preserve_rng_state=preserve)
    return part(end, len(functions))(input)


class CheckpointFunction(Function):
    """The old name of the engine: apply(function, preserve_rng_state, *args)."""

    @classmethod
    def apply(cls, run_function, preserve_rng_state, *args):
        """`checkpoint` of these."""
        return checkpoint(run_function, *args, preserve_rng_state=preserve_rng_state)
