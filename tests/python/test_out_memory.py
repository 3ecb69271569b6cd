"""Where out= may lie: an op that writes while it reads refuses, as torch does, memory that an input has too."""

import pytest

import flambeau as torch

N = 4
I = torch.tensor([0, 2, 1, 3])  # noqa: E741
MASK = torch.ones(N, dtype=torch.bool)

# Inputs of N elements that give N again. The first list must not be `out` itself, the second may.
APART = {
    "cat": lambda x, out: torch.cat((torch.empty(0), x), out=out),
    "cross": lambda x, out: torch.cross(x[:3], torch.ones(3), out=out[:3]),
    "gather": lambda x, out: torch.gather(x, 0, I, out=out),
    "take_along_dim": lambda x, out: torch.take_along_dim(x, I, 0, out=out),
    "index_select": lambda x, out: torch.index_select(x, 0, I, out=out),
    "masked_select": lambda x, out: torch.masked_select(x, MASK, out=out),
    "take": lambda x, out: torch.take(x, I, out=out),
    "index_add": lambda x, out: torch.index_add(torch.ones(N), 0, I, x, out=out),
    "scatter": lambda x, out: torch.scatter(torch.ones(N), 0, I, x, out=out),
    "scatter_add": lambda x, out: torch.scatter_add(torch.ones(N), 0, I, x, out=out),
    "scatter_reduce": lambda x, out: torch.scatter_reduce(torch.ones(N), 0, I, x, "amax", out=out),
}
ALIGNED = {
    "add": lambda x, out: torch.add(x, 1, out=out),
    "index_add": lambda x, out: torch.index_add(x, 0, I, torch.ones(N), out=out),
    "scatter": lambda x, out: torch.scatter(x, 0, I, torch.ones(N), out=out),
    "addmv": lambda x, out: torch.addmv(x, torch.ones(N, 2), torch.ones(2), out=out),
    "clamp": lambda x, out: torch.clamp(x, 0, 1, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 0, out=out),
    "cumprod": lambda x, out: torch.cumprod(x, 0, out=out),
    "gelu": lambda x, out: torch._C._nn.gelu(x, out=out),
    "logit": lambda x, out: torch.logit(x, 0.1, out=out),
    "nan_to_num": lambda x, out: torch.nan_to_num(x, out=out),
    "round": lambda x, out: torch.round(x, decimals=1, out=out),
    "div_floor": lambda x, out: torch.div(x, 2.0, rounding_mode="floor", out=out),
    "float_power": lambda x, out: torch.float_power(x, 2, out=out),
}
ALL = {**{f"{k} of a source": f for k, f in APART.items()}, **ALIGNED}


def dtype_of(name):
    return torch.float64 if name == "float_power" else torch.float32


@pytest.mark.parametrize("name", ALL)
def test_out_must_not_lie_over_part_of_an_input(name):
    memory = torch.arange(N + 1, dtype=dtype_of(name))
    before = memory.clone()
    with pytest.raises(RuntimeError, match="shares? memory|overlap in part"):
        ALL[name](memory[:N], memory[1:])
    assert torch.equal(memory, before)


@pytest.mark.parametrize("name", APART)
def test_out_must_not_be_an_input_that_is_read_out_of_order(name):
    x = torch.arange(N, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="shares memory with an input"):
        APART[name](x, x)
    assert x.tolist() == [0, 1, 2, 3]
    other = torch.zeros(N)
    APART[name](x, other)
    assert other.any()


@pytest.mark.parametrize("name", ALIGNED)
def test_out_may_be_the_input_that_the_result_starts_from(name):
    x = torch.linspace(0.1, 0.9, N, dtype=dtype_of(name))
    expected = ALIGNED[name](x.clone(), torch.empty(N, dtype=x.dtype))
    assert ALIGNED[name](x, x) is x and torch.equal(x, expected)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(N,), (2, N)], ids=["its shape", "another shape"])
def test_out_must_not_be_expanded(name, shape):
    out = torch.zeros(1, dtype=dtype_of(name)).expand(shape)
    if name.startswith("cross"):
        out = out[:, :3] if len(shape) == 2 else out
    with pytest.raises(RuntimeError, match="expanded|share"):
        ALL[name](torch.ones(N, dtype=dtype_of(name)), out)


def test_masks_and_places_are_inputs_too():
    mask = torch.ones(N, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="shares memory"):
        torch.masked_select(torch.zeros(N, dtype=torch.bool), mask, out=mask)
    with pytest.raises(RuntimeError, match="shares memory"):
        torch.gather(torch.zeros(N, dtype=torch.int64), 0, I, out=I)
    assert mask.all() and I.tolist() == [0, 2, 1, 3]


def test_out_beside_an_input_in_one_memory_is_fine():
    memory = torch.arange(2 * N, dtype=torch.float32)
    torch.index_select(memory[:N], 0, I, out=memory[N:])
    assert memory.tolist() == [0, 1, 2, 3, 0, 2, 1, 3]


def test_a_list_that_requires_grad_refuses_out():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="cat: out= does not record a gradient, but an input"):
        torch.cat((x, x), out=torch.empty(4))
    with torch.no_grad():
        assert torch.cat((x, x), out=torch.empty(4)).tolist() == [1, 1, 1, 1]
