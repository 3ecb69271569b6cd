"""The sweeps: every test row against its reference, in every dtype and form. A failure prints a line that reproduces it."""

from pathlib import Path

import numpy as np
import pytest

import flambeau as fl
from tests.fuzz import function_of, tensors_of
from tests.ops import all_rows
from tools.opgen.op import Op
from tools.opgen.table import read_rows

ROWS = all_rows()
TABLE = read_rows(Path(__file__).parents[1] / "flambeau" / "ops")
WITH_OUT = {sig.name for row in TABLE for sig in row.sigs if Op(row, sig).has_out}
# The size of these results depends on values, which a meta tensor has not.
TAGGED = [
    (sig.name, "data_dependent_shape" in (row.tags or "")) for row in TABLE for sig in row.sigs
]
DATA_DEPENDENT = {name for name, _ in TAGGED} - {name for name, tagged in TAGGED if not tagged}


def cases(select=lambda op: True, dtypes=lambda op: op.dtypes):
    out = []
    for op in ROWS:
        if not select(op):
            continue
        for i, sample in enumerate(op.samples):
            for dtype in dtypes(op):
                out.append(pytest.param(op, sample, dtype, id=f"{op.name}-{i}-{dtype}"))
    return out


def to_numpy(x):
    """Values as doubles, whatever the dtype; lists and tuples element by element."""
    if isinstance(x, (list, tuple)):
        return [to_numpy(v) for v in x]
    if not isinstance(x, fl.Tensor):
        return x
    x = x.detach().cpu().to_dense()
    if x.dtype.is_complex:
        return x.to(fl.complex128).numpy()
    if x.dtype.is_floating_point:
        return x.to(fl.float64).numpy()
    return x.numpy()


def assert_equal(actual, expected, tolerance, why):
    if isinstance(actual, (list, tuple)):
        assert len(actual) == len(expected), why
        for a, e in zip(actual, expected):
            assert_equal(a, e, tolerance, why)
        return
    actual, expected = np.asarray(to_numpy(actual)), np.asarray(to_numpy(expected))
    assert actual.shape == expected.shape, f"{why}: shape {actual.shape}, expected {expected.shape}"
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=why)


@pytest.mark.parametrize(
    "op, sample, dtype", cases(lambda op: op.ref is not None and not op.random)
)
def test_forward(op, sample, dtype, device):
    args, kwargs = sample.make(fl, dtype, device)
    expected = op.ref(*[to_numpy(a) for a in args], **{k: to_numpy(v) for k, v in kwargs.items()})
    result = function_of(op.name)(*args, **kwargs)
    assert_equal(result, expected, op.tolerance(dtype), f"{op.name}(*{sample}) in {dtype}")


@pytest.mark.parametrize(
    "op, sample, dtype", cases(lambda op: op.strided and not op.random, lambda op: op.dtypes[:1])
)
def test_strided_inputs_give_the_same(op, sample, dtype, device):
    f = function_of(op.name)
    args, kwargs = sample.make(fl, dtype, device)
    strided, strided_kwargs = sample.make(fl, dtype, device, strided=True)
    assert_equal(
        f(*strided, **strided_kwargs), f(*args, **kwargs), 0 if op.exact else 1e-6, op.name
    )


@pytest.mark.parametrize(
    "op, sample, dtype", cases(lambda op: op.meta, dtypes=lambda op: op.dtypes[:1])
)
def test_meta_has_the_same_sizes(op, sample, dtype):
    if op.name in DATA_DEPENDENT:
        with pytest.raises(NotImplementedError):
            args, kwargs = sample.make(fl, dtype)
            function_of(op.name)(*to_device(args, "meta"), **to_device(kwargs, "meta"))
        return
    args, kwargs = sample.make(fl, dtype)
    real = function_of(op.name)(*args, **kwargs)
    args, kwargs = sample.make(fl, dtype)
    if not tensors_of(args):  # a factory
        kwargs["device"] = "meta"
    meta = function_of(op.name)(*to_device(args, "meta"), **to_device(kwargs, "meta"))
    for a, b in zip(tensors_of(meta), tensors_of(real)):
        assert (a.shape, a.dtype, a.device.type) == (b.shape, b.dtype, "meta"), (
            f"{op.name}(*{sample})"
        )


def to_device(value, device):
    if isinstance(value, dict):
        return {k: to_device(v, device) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(to_device(v, device) for v in value)
    return value.to(device) if isinstance(value, fl.Tensor) else value


def inputs_of(args, kwargs):
    return [t for t in tensors_of(args) + tensors_of(list(kwargs.values())) if t.requires_grad]


def double_precision(op):
    return ("float64",) if "float64" in op.dtypes else ("complex128",)


def weighted(result):
    """A number from all differentiable results, with weights that are no symmetry of anything."""
    total = None
    for k, t in enumerate(tensors_of(result)):
        if not t.requires_grad:
            continue
        t = fl.view_as_real(t) if t.dtype.is_complex else t
        w = fl.arange(t.numel(), dtype=fl.float64, device=t.device).reshape(t.shape)
        part = (t * ((w * 7 + 3 * k) % 11 - 5) / 8).sum()
        total = part if total is None else total + part
    return total


def slope(f, inputs, direction, step=1e-6):
    """Central difference of f along a direction."""

    def move(by):
        with fl.no_grad():
            for t, d in zip(inputs, direction):
                t.add_(d, alpha=by)

    move(step)
    high = f().item()
    move(-2 * step)
    low = f().item()
    move(step)
    return (high - low) / (2 * step)


def directions(inputs, wave):
    """One fixed direction per input, of its dtype."""
    lines = [
        fl.arange(t.numel(), dtype=fl.float64).reshape(t.shape) + i for i, t in enumerate(inputs)
    ]
    return [wave(line).to(t.dtype) for line, t in zip(lines, inputs)]


def project(gradients, direction):
    """The slope that the gradients predict."""
    return sum(
        float((g.detach().conj() * d).real.sum())
        for g, d in zip(gradients, direction)
        if g is not None
    )


def check_slope(f, inputs, create_graph, why):
    gradients = fl.autograd.grad(f(), inputs, create_graph=create_graph, allow_unused=True)
    direction = directions(inputs, fl.cos)
    expected = slope(f, inputs, direction)
    along = project(gradients, direction)
    assert along == pytest.approx(expected, rel=2e-5, abs=2e-6), why
    return gradients


@pytest.mark.parametrize("op, sample, dtype", cases(lambda op: op.grad, double_precision))
def test_grad(op, sample, dtype, device):
    if not sample.grad:
        return
    args, kwargs = sample.make(fl, dtype, device, requires_grad=True)
    inputs = inputs_of(args, kwargs)
    if not inputs:
        return

    def f():
        return weighted(function_of(op.name)(*args, **kwargs))

    if f() is None:
        return
    gradients = check_slope(f, inputs, op.second, f"first derivative of {op.name}(*{sample})")
    again = [g for g in gradients if g is not None and g.requires_grad]
    if op.second and again:

        def g():
            found = fl.autograd.grad(f(), inputs, create_graph=True, allow_unused=True)
            return weighted([t for t in found if t is not None])

        check_second(g, inputs, f"second derivative of {op.name}(*{sample})")


def check_second(g, inputs, why):
    direction = directions(inputs, fl.sin)
    gradients = fl.autograd.grad(g(), inputs, allow_unused=True)

    expected = slope(lambda: g().detach(), inputs, direction)
    along = project(gradients, direction)
    assert along == pytest.approx(expected, rel=2e-4, abs=2e-5), why


@pytest.mark.parametrize(
    "op, sample, dtype", cases(lambda op: op.inplace and not op.random, lambda op: op.dtypes[:1])
)
def test_inplace_is_functional(op, sample, dtype, device):
    args, kwargs = sample.make(fl, dtype, device)
    if not hasattr(fl.Tensor, op.name + "_") or not isinstance(args[0], fl.Tensor):
        return
    expected = function_of(op.name)(*args, **kwargs)
    if expected.shape != args[0].shape or expected.dtype != args[0].dtype:
        return
    result = getattr(args[0], op.name + "_")(*args[1:], **kwargs)
    assert result is args[0]
    assert_equal(result, expected, 0, op.name)


@pytest.mark.parametrize(
    "op, sample, dtype", cases(lambda op: op.out and not op.random, lambda op: op.dtypes[:1])
)
def test_out_is_functional(op, sample, dtype, device):
    args, kwargs = sample.make(fl, dtype, device)
    expected = function_of(op.name)(*args, **kwargs)
    if op.name not in WITH_OUT or not isinstance(expected, fl.Tensor):
        return
    out = fl.empty(0, dtype=expected.dtype, device=device)
    result = function_of(op.name)(*args, **kwargs, out=out)
    assert result is out
    assert_equal(out, expected, 0, op.name)


@pytest.mark.parametrize(
    "op, wrong",
    [pytest.param(op, e, id=f"{op.name}-{i}") for op in ROWS for i, e in enumerate(op.errors)],
)
def test_errors(op, wrong, device):
    args, kwargs = wrong.sample.make(fl, wrong.dtype, device)
    with pytest.raises(wrong.type, match=wrong.match):
        function_of(op.name)(*args, **kwargs)
