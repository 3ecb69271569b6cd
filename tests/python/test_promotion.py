"""Which dtype an operation gives for tensors, 0-d tensors and numbers, and which mixes it refuses."""

import pytest

import flambeau as torch

WIDE = (torch.uint16, torch.uint32, torch.uint64)


@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_wide_unsigned_types_mix_with_floats_only(wide):
    x = torch.ones(2).to(wide)
    assert (x + torch.ones(2)).dtype == torch.float32
    assert torch.result_type(x, 1) == wide
    assert (x * torch.tensor(2)).dtype == wide  # a 0-d tensor of the same kind has no say
    for other in (torch.bool, torch.uint8, torch.int64, torch.complex64):
        with pytest.raises(RuntimeError, match=f"{str(wide)[6:]}.*no common type"):
            x * torch.ones(2).to(other)


def test_categories_count_where_they_are_of_a_higher_kind():
    ints, halves = torch.ones(2, dtype=torch.int8), torch.ones(2, dtype=torch.float16)
    zero_dim = torch.tensor(1.0, dtype=torch.float64)
    assert (ints + zero_dim).dtype == torch.float64
    assert (halves + zero_dim).dtype == torch.float16
    assert (torch.ones(2).to(torch.uint16) + torch.tensor(1j)).dtype == torch.complex64
    assert (torch.tensor([True]) + torch.tensor(1, dtype=torch.int8)).dtype == torch.int8
    with pytest.raises(RuntimeError, match="no common type"):
        torch.tensor([True]) + torch.tensor(1).to(torch.uint16)


@pytest.mark.parametrize("other", [torch.tensor([1.5]), torch.tensor([2]), True])
def test_differences_with_bools_are_refused(other):
    with pytest.raises(RuntimeError, match="sub: not defined for bool"):
        torch.tensor([True]) - other


@pytest.mark.parametrize("name", "floor_divide fmod remainder gcd lcm bitwise_left_shift".split())
def test_integer_arithmetic_is_not_defined_for_bool(name):
    f, x = getattr(torch, name), torch.tensor([True])
    with pytest.raises(NotImplementedError, match=f"{name}: not defined for bool"):
        f(x, x)
    assert f(x, torch.tensor([1])).dtype == torch.int64


@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_wide_unsigned_types_are_for_storage(wide):
    x = torch.ones(2).to(wide)
    assert (x * x).dtype == (x & x).dtype == torch.where(x == x, x, x).dtype == wide
    assert (x / x).dtype == torch.float32
    for f in (torch.add, torch.sub, torch.maximum, torch.lt, torch.pow, torch.fmod):
        with pytest.raises(NotImplementedError, match=f"{f.__name__}: not defined for uint"):
            f(x, x)


@pytest.mark.parametrize("name", ["maximum", "fmin", "heaviside"])
def test_complex_numbers_have_no_order(name):
    x = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match=f"{name}: .* complex64, which has no order"):
        getattr(torch, name)(x, x)


@pytest.mark.parametrize("name", ["floor_divide", "fmod", "remainder"])
def test_integers_are_not_divided_by_zero(name):
    f, x = getattr(torch, name), torch.tensor([7, -7])
    with pytest.raises(RuntimeError, match=f"{name}: integers .* zero"):
        f(x, 0)
    with pytest.raises(RuntimeError, match="in place 1"):
        f(x, torch.tensor([1, 0]))
    assert f(x.float(), 2).dtype == torch.float32
    assert not torch.isfinite(f(x.float(), 0)).any()


def test_integers_have_no_negative_powers():
    with pytest.raises(RuntimeError, match="got exponent -1"):
        torch.tensor([2, 3]) ** -1
    assert (torch.tensor([2.0]) ** -1).item() == 0.5
    assert (torch.tensor([True]) ** True).dtype == torch.bool


def test_lerp_and_heaviside_want_one_dtype():
    with pytest.raises(RuntimeError, match="lerp: .* one dtype, got float32 and float64"):
        torch.lerp(torch.ones(2), torch.ones(2).double(), 0.5)
    with pytest.raises(RuntimeError, match="heaviside: .* one dtype, got int64 and float32"):
        torch.heaviside(torch.ones(2).long(), torch.ones(2))


def test_clamp_promotes_with_its_bounds():
    assert torch.ones(2, dtype=torch.int8).clamp(torch.tensor(0.5)).dtype == torch.float32
    assert torch.ones(2).clamp(torch.zeros(2, dtype=torch.float64)).dtype == torch.float64
    assert torch.tensor([5, -5]).clamp(-1, 1).tolist() == [1, -1]


def test_xlogy_takes_numbers():
    x = torch.tensor([0.0, 2.0])
    assert torch.xlogy(0, x).tolist() == [0, 0]
    assert torch.xlogy(x, 1).tolist() == [0, 0]
    assert torch.xlogy(torch.ones(2, dtype=torch.float16), 2.0).dtype == torch.float16
    assert x.clone().xlogy_(1).tolist() == [0, 0]
