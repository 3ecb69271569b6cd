"""A dispatch mode that changes nothing: every test row gives the same values, gradients and kinds of nodes."""

import numpy as np
import pytest

import flambeau as fl
from flambeau.utils._python_dispatch import TorchDispatchMode
from tests.ops import all_rows
from tests.python.test_vmap_sweep import flat, tensors_in
from tests.test_ops import function_of, to_numpy


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert not fl.is_grad_enabled() and types == ()
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def run(op, args, kwargs):
    """Results, gradients and the names of the nodes."""
    fl.manual_seed(3)
    parts = [flat(a) for a in [*args, *kwargs.values()]]
    tensors = [t for found, _ in parts for t in found]
    leaves = [t.detach().clone() for t in tensors]
    floats = [t for t in leaves if t.dtype.is_floating_point and t.layout == fl.strided]
    inputs = leaves
    if op.grad:
        for t in floats:
            t.requires_grad_()
        # In-place ops must not write leaves.
        inputs = [t.view_as(t) if t.requires_grad else t for t in leaves]
    it = iter(inputs)
    values = [build(it) for _, build in parts]
    named = dict(zip(kwargs, values[len(args) :]))
    result = function_of(op.name)(*values[: len(args)], **named)
    results = (
        tensors_in(result) if not isinstance(result, (int, float, bool)) else [fl.tensor(result)]
    )
    roots = [r for r in results if r.requires_grad and r.dtype.is_floating_point and r.numel()]
    grads = []
    if roots:
        weights = [fl.linspace(0.5, 1.5, r.numel()).to(r.dtype).reshape(r.shape) for r in roots]
        grads = fl.autograd.grad(roots, floats, weights, allow_unused=True)
    nodes = [type(r.grad_fn).__name__ for r in results]
    return results, [g for g in grads if g is not None], nodes


def cases():
    out = []
    for op in all_rows():
        dtype = "float64" if "float64" in op.dtypes else op.dtypes[0] if op.dtypes else None
        for i, sample in enumerate(op.samples):
            if dtype:
                out.append(pytest.param(op, sample, dtype, id=f"{op.name}-{i}"))
    return out


@pytest.mark.parametrize("op, sample, dtype", cases())
def test_watching_changes_nothing(op, sample, dtype):
    args, kwargs = sample.make(fl, dtype)
    expected, grads, nodes = run(op, args, kwargs)
    with Watch() as watch:
        found, found_grads, found_nodes = run(op, args, kwargs)
    assert watch.seen
    assert found_nodes == nodes
    assert len(found) == len(expected) and len(found_grads) == len(grads)
    for got, want in zip([*found, *found_grads], [*expected, *grads]):
        assert got.dtype == want.dtype and got.shape == want.shape
        if "empty" in op.name:
            continue
        # A number among tensors becomes one of the default dtype where a derivative calls ops.
        tolerance = 1e-7 if op.name == "special_xlog1py" else 1e-9
        np.testing.assert_allclose(to_numpy(got), to_numpy(want), rtol=tolerance, atol=tolerance)
