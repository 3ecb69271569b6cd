"""More than 2^31 elements: counts and offsets need 64 bits everywhere."""

from pathlib import Path

import pytest

import flambeau as fl
from tests.fuzz import EXPECTED, function_of, little_memory, tensors_of
from tests.ops import all_rows
from tools.opgen.table import read_rows

COUNT = 2**31 + 3
ROWS = [op for op in all_rows() if op.samples]
TABLE = read_rows(Path(__file__).parents[1] / "flambeau" / "ops")
REDUCTIONS = {sig.name for row in TABLE if row.kind == "reduce" for sig in row.sigs}


def enlarged(value, device):
    """Tensors as uint8 or indices, of more than 2^31 elements where they have dims; their memory stays small."""
    if isinstance(value, list):
        return [enlarged(v, device) for v in value]
    if isinstance(value, dict):
        return {k: enlarged(v, device) for k, v in value.items()}
    if not isinstance(value, fl.Tensor) or value.layout != fl.strided:
        return value
    value = value if value.dtype in (fl.bool, fl.int64) else value.to(fl.uint8)
    value = value.to(device)
    if not value.dim() or not value.numel():
        return value
    rest = value[:1].numel()
    return value[:1].expand(COUNT // rest + 1, *value.shape[1:])


@pytest.fixture
def small_results():
    with little_memory(1 << 30):
        yield


@pytest.mark.parametrize("where", ["meta", "cpu"])
@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_every_op(op, where, small_results):
    """A result, or an error that says why: unfit sizes, a dtype, results that memory cannot hold."""
    args, kwargs = op.samples[0].make(fl, op.dtypes[0])
    if op.name in REDUCTIONS:
        args[0] = args[0].reshape(-1)  # all of it is read: few elements more than 2^31
    args, kwargs = enlarged(args, where), enlarged(kwargs, where)
    try:
        results = tensors_of(function_of(op.name)(*args, **kwargs))
    except EXPECTED as e:
        assert str(e) and "ssertion" not in str(e)
        return
    for t in results:
        assert t.numel() >= 0 and all(n >= 0 for n in t.shape)


@pytest.mark.parametrize("name", ["add", "mul", "eq", "neg", "exp", "relu", "clone", "flip"])
def test_meta_counts_every_element(name):
    x = fl.ones(1, 3, dtype=fl.uint8, device="meta").expand(COUNT, 3)
    arguments = {"add": [x], "mul": [2], "eq": [x], "flip": [0]}.get(name, [])
    assert getattr(x, name)(*arguments).shape == (COUNT, 3)


def test_expanded_reductions():
    x = fl.full((1,), 3, dtype=fl.uint8).expand(COUNT)
    assert x.sum().item() == 3 * COUNT
    assert x.amax().item() == 3 and x.argmax().item() == 0
    assert x.count_nonzero().item() == COUNT


def free_bytes():
    with open("/proc/meminfo") as f:
        return 1024 * next(int(line.split()[1]) for line in f if line.startswith("MemAvailable"))


def test_real_memory():
    if free_bytes() < 6 << 30:
        pytest.skip(f"needs 6 GB of free memory, {free_bytes() >> 20} MB are free")
    x = fl.zeros(COUNT, dtype=fl.uint8)
    x[-1] = 5
    x.add_(2)
    assert x[0].item() == 2 and x[-1].item() == 7
    assert x.sum().item() == 2 * COUNT + 5
    places = fl.tensor([0, COUNT - 1, -1, 2**31])
    assert x[places].tolist() == [2, 7, 7, 2]
    assert (x[2**31 :] + 1).tolist() == [3, 3, 8]
    x[places[1:2]] = 9
    assert x[-1].item() == 9 and x.argmax().item() == COUNT - 1


@pytest.mark.parametrize("f", ["unbind", "split", "chunk", "tensor_split"])
def test_parts_are_counted_before_they_are_listed(f):
    x = fl.zeros(COUNT, dtype=fl.uint8, device="meta")
    arguments = {"unbind": [], "split": [1]}.get(f, [COUNT])
    with pytest.raises(RuntimeError, match="at most 16777216 parts"):
        getattr(fl, f)(x, *arguments)
