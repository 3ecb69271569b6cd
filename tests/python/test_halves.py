"""Pointwise ops on half types: computed in float32 and rounded once, whatever the length and the layout."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F

HALVES = [torch.bfloat16, torch.float16]
# Shorter than a register, one element more and less than several, and enough for more than one thread.
LENGTHS = [1, 7, 8, 15, 16, 17, 31, 100, 40_003]
OPS = {
    "add": lambda x, y: x + y,
    "div": lambda x, y: x / y,
    "pow2": lambda x, y: x**2,
    "pow_half": lambda x, y: y**0.5,
    "pow_minus_one": lambda x, y: y**-1,
    "gelu": lambda x, y: F.gelu(x),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=0.5),
}


def operands(n, dtype):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(n, generator=generator) * 3
    y = torch.randn(n, generator=generator).abs() + 0.5
    specials = torch.tensor([float("nan"), float("inf"), -0.0, 0.0, 1e-30, 6e-8, -65504.0])
    x[: len(specials)] = specials[:n]
    return x.to(dtype), y.to(dtype)


def bits(x):
    return x.view(torch.int16)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_results_are_rounded_float_results(name, dtype):
    op = OPS[name]
    for n in LENGTHS:
        x, y = operands(n, dtype)
        wanted = op(x.float(), y.float()).to(dtype)
        assert torch.equal(bits(op(x, y)), bits(wanted)), f"{name}, {n} elements"


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_comparisons_give_bools(dtype):
    for n in LENGTHS:
        x, y = operands(n, dtype)
        assert torch.equal(x < y, x.float() < y.float())
        assert (x < y).dtype == torch.bool


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_results_in_place_and_out(dtype):
    for n in LENGTHS:
        x, y = operands(n, dtype)
        wanted = bits((x.float() * y.float()).to(dtype))
        into = torch.full((n + 1,), 7.0, dtype=dtype)
        torch.mul(x, y, out=into[:n])
        assert torch.equal(bits(into[:n]), wanted) and into[n] == 7
        assert torch.equal(bits(x.mul_(y)), wanted)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_rows_of_larger_tensors(dtype):
    x, y = operands(60 * 21, dtype)
    rows, others = x.view(60, 21)[:, 1:20], y.view(60, 21)[:, 2:21]
    wanted = (rows.float() / others.float()).to(dtype)
    assert torch.equal(bits((rows / others).contiguous()), bits(wanted))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_operand_beside_others(dtype):
    x, y = operands(50, dtype)
    assert torch.equal(x[1:] + y[1:].double(), x[1:].double() + y[1:].double())
    wanted = (x.float() + y[3].float()).to(dtype)
    assert torch.equal(bits(x + y[3]), bits(wanted))
