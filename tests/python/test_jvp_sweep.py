"""func.jvp over every pointwise and linear test row equals central differences."""

import pytest

import flambeau as fl
from flambeau import func
from tests.ops import all_rows
from tests.python.test_vmap_sweep import flat, tensors_in
from tests.test_ops import TABLE, function_of

LINEAR = """sum mean cumsum mm bmm mv dot matmul linear addmm baddbmm cat stack flip roll repeat tril triu
gather index_select convolution""".split()
STEP = 1e-6


def names():
    kinds = {sig.name: row.kind for row in TABLE for sig in row.sigs}
    return {n for n, kind in kinds.items() if kind in ("pointwise", "view")} | set(LINEAR)


def cases():
    out = []
    for op in all_rows():
        if op.random or not op.grad or "float64" not in op.dtypes or op.name not in names():
            continue
        for i, sample in enumerate(op.samples):
            if sample.grad:
                out.append(pytest.param(op, sample, id=f"{op.name}-{i}"))
    return out


@pytest.mark.parametrize("op, sample", cases())
def test_jvp_equals_central_differences(op, sample):
    f = function_of(op.name)
    args, kwargs = sample.make(fl, "float64")
    parts = [flat(a) for a in [*args, *kwargs.values()]]
    given = [t for found, _ in parts for t in found]
    floats = tuple(t for t in given if t.dtype.is_floating_point)

    def call(*floats):
        it = iter(floats)
        inputs = iter([next(it) if t.dtype.is_floating_point else t for t in given])
        values = [build(inputs) for _, build in parts]
        named = dict(zip(kwargs, values[len(args) :]))
        results = tensors_in(f(*values[: len(args)], **named))
        return tuple(r for r in results if r.dtype.is_floating_point)

    directions = tuple(fl.linspace(-1, 1, t.numel()).to(t.dtype).reshape(t.shape) for t in floats)
    values, pushed = func.jvp(call, floats, directions)
    ahead, behind = (call(*[t + s * STEP * d for t, d in zip(floats, directions)]) for s in (1, -1))
    for v, p, a, b in zip(values, pushed, ahead, behind):
        assert p.shape == v.shape and not p.requires_grad
        assert fl.allclose(p, (a - b) / (2 * STEP), rtol=1e-5, atol=1e-6), op.name
