"""Writes into expanded memory, where elements share a place: every op refuses and changes nothing."""

import pytest

import flambeau as fl
from tests.test_ops import TABLE, WITH_OUT, cases, function_of

# All elements get one value, or the form changes the tensor's geometry and no element.
HARMLESS = {"fill", "zero", "swapaxes", "swapdims", "t"}
HARMLESS |= {sig.name for row in TABLE if row.kind == "view" for sig in row.sigs}


def shared(like):
    """One element, and a view of it in the shape of `like`."""
    base = fl.ones(1, dtype=like.dtype)
    return base, base.reshape((1,) * like.ndim).expand(like.shape)


def works(f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except Exception:
        return False
    return True


@pytest.mark.parametrize(
    "op, sample, dtype", cases(lambda op: op.name not in HARMLESS, lambda op: op.dtypes[:1])
)
def test_inplace_forms_refuse_expanded_memory(op, sample, dtype):
    args, kwargs = sample.make(fl, dtype)
    write = getattr(fl.Tensor, op.name + "_", None)
    if not (write and args and isinstance(args[0], fl.Tensor) and args[0].numel() > 1):
        return
    if not works(write, args[0].clone(), *args[1:], **kwargs):
        return
    base, written = shared(args[0])
    with pytest.raises(RuntimeError):
        write(written, *args[1:], **kwargs)
    assert base.item() == 1


@pytest.mark.parametrize(
    "op, sample, dtype", cases(lambda op: op.name in WITH_OUT, lambda op: op.dtypes[:1])
)
def test_out_refuses_expanded_memory(op, sample, dtype):
    args, kwargs = sample.make(fl, dtype)
    f = function_of(op.name)
    result = f(*args, **kwargs)
    if not isinstance(result, fl.Tensor) or result.numel() < 2:
        return
    if not works(f, *args, **kwargs, out=fl.empty_like(result)):
        return
    base, out = shared(result)
    with pytest.raises(RuntimeError):
        f(*args, **kwargs, out=out)
    assert base.item() == 1
