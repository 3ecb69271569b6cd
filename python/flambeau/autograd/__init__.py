"""The tape's Python side: backward, grad, custom functions. Submodules load on first use."""

import importlib

from flambeau import _C, Tensor
from flambeau.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from flambeau.autograd.function import Function
from flambeau.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)
from flambeau.autograd.variable import Variable

__all__ = ["Function", "Variable", "backward", "grad", "grad_mode"]

_SUBMODULES = (
    "anomaly_mode",
    "forward_ad",
    "function",
    "functional",
    "grad_mode",
    "gradcheck",
    "graph",
    "profiler",
    "variable",
)


def _as_tuple(value):
    if value is None:
        return ()
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _grads_for(outputs, grads):
    grads = (None,) * len(outputs) if grads is None else _as_tuple(grads)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    return grads


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
):
    """Adds the gradients of `tensors`, weighted by `grad_tensors`, to the leaves' `grad`.

    With `inputs` only those accumulate. The graph is freed unless `retain_graph` (whose default
    is `create_graph`).
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("backward: grad_variables is the old name of grad_tensors: give one")
        grad_tensors = grad_variables
    if inputs is not None and len(_as_tuple(inputs)) == 0:
        raise RuntimeError("backward: inputs must not be empty")
    outputs = _as_tuple(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    grads = _grads_for(outputs, grad_tensors)
    _C._run_backward(
        outputs, grads, bool(keep), bool(create_graph), _as_tuple(inputs), inputs is not None
    )


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """The gradients of `outputs`, weighted by `grad_outputs`, with respect to `inputs`.

    An input that the outputs do not depend on is an error unless `allow_unused`, which gives None
    for it, or `materialize_grads`, which gives zeros.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    if is_grads_batched:
        return _grad_of_rows(
            outputs, inputs, _as_tuple(grad_outputs), retain_graph, create_graph, allow_unused
        )
    keep = create_graph if retain_graph is None else retain_graph
    grads = _grads_for(outputs, grad_outputs)
    result = _C._run_backward(outputs, grads, bool(keep), bool(create_graph), inputs, False)
    if materialize_grads:
        from flambeau import zeros_like

        result = tuple(
            zeros_like(x, requires_grad=create_graph) if g is None else g
            for g, x in zip(result, inputs)
        )
    elif not allow_unused:
        for i, g in enumerate(result):
            if g is None:
                raise RuntimeError(
                    f"grad: input {i} of shape {tuple(inputs[i].shape)} was not used in the graph "
                    "of the outputs; pass allow_unused=True to get None for it"
                )
    return result


def _grad_of_rows(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused):
    """The gradients for each row of `grad_outputs`: one backward pass, mapped over the rows."""
    from flambeau.func._vmap import vmap

    given = tuple(g for g in grad_outputs if g is not None)
    found = []

    def backward(*rows):
        rows = iter(rows)
        row = [None if g is None else next(rows) for g in grad_outputs]
        found[:] = grad(outputs, inputs, row, retain_graph, create_graph, allow_unused=allow_unused)
        return tuple(g for g in found if g is not None)

    if not given:
        raise RuntimeError("grad: is_grads_batched needs grad_outputs with a row for each gradient")
    stacked = iter(vmap(backward)(*given))
    return tuple(None if g is None else next(stacked) for g in found)


def _is_checkpoint_valid():
    """Whether checkpointing works here: always."""
    return True


def variable(*args, **kwargs):
    """The function torch.autograd.variable is gone."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


def __getattr__(name):
    if name in ("gradcheck", "gradgradcheck"):
        # The functions hide the module of the same name, as in torch.
        module = importlib.import_module("flambeau.autograd.gradcheck")
        globals().update(gradcheck=module.gradcheck, gradgradcheck=module.gradgradcheck)
        return globals()[name]
    if name in _SUBMODULES:
        return importlib.import_module(f"flambeau.autograd.{name}")
    raise AttributeError(f"module 'flambeau.autograd' has no attribute {name!r}")
