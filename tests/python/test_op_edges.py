"""Corners of single ops: dtypes, numbers and arguments that a sweep over samples does not reach."""

import math

import pytest

import flambeau as torch
from flambeau.nn import functional as F


def test_addmm_takes_complex_factors():
    a, b = torch.tensor([[1.0 + 1j]]), torch.tensor([[2.0 - 1j]], requires_grad=True)
    result = torch.addmm(a, b, b, beta=2j, alpha=1 + 1j)
    expected = 2j * (1 + 1j) + (1 + 1j) * (2 - 1j) ** 2
    assert result.item() == pytest.approx(expected)
    result.abs().sum().backward()
    slope = 2 * ((1 + 1j) * (2 - 1j)).conjugate() * expected / abs(expected)
    assert b.grad.item() == pytest.approx(slope, rel=1e-5)


def test_mean_windows_of_integers_drop_the_fraction():
    x = torch.tensor([[[3, 4, -3, -4]]])
    assert F.avg_pool1d(x, 2).tolist() == [[[3, -3]]]


def test_statistics_of_group_norm_have_gradients():
    x = torch.tensor([[1.0, 2.0, 4.0, 9.0]], requires_grad=True)
    _, mean, deviation = torch.native_group_norm(x, None, None, 1, 4, 1, 2, 0.0)
    assert mean.tolist() == [[1.5, 6.5]] and deviation[0].tolist() == pytest.approx([2, 0.4])
    (mean[0, 0] + deviation[0, 1]).backward()
    assert x.grad[0].tolist() == pytest.approx([0.5, 0.5, 0.08, -0.08])
    half = torch.native_layer_norm(x.detach().half(), (4,), None, None, 1e-5)
    assert half[1].dtype == torch.float16


def test_the_nearest_pixel_has_no_slope():
    x = torch.arange(9.0).reshape(1, 1, 3, 3).requires_grad_()
    grid = torch.zeros(1, 1, 2, 2, requires_grad=True)
    F.grid_sample(x, grid, mode="nearest", align_corners=False).sum().backward()
    assert grid.grad.tolist() == [[[[0, 0], [0, 0]]]] and x.grad[0, 0, 1, 1].item() == 2


def test_complex_logsumexp_runs_without_overflow():
    x = torch.tensor([1000.0 + 1j, 1000.0 - 1j, -2000.0], dtype=torch.complex128)
    expected = 1000 + math.log(2 * math.cos(1))
    assert torch.logsumexp(x, 0).item() == pytest.approx(expected)
    assert torch.logcumsumexp(x, 0)[1].item() == pytest.approx(expected)
    x.requires_grad_()
    torch.logcumsumexp(x, 0).sum().real.backward()
    assert torch.isfinite(x.grad).all()


def test_neighbours_have_slope_one_where_they_move():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.nextafter(x, torch.tensor([2.0, 2.0])).sum().backward()
    assert x.grad.tolist() == [1, 0]


def test_histogram_in_two_dims():
    points = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [2.0, 2.0]])
    hist, edges = torch.histogramdd(points, [2, 2], weight=torch.tensor([1.0, 2.0, 4.0, 8.0]))
    assert hist.tolist() == [[0, 1], [2, 12]]
    assert [e.tolist() for e in edges] == [[0, 1, 2], [0, 1, 2]]
    spread = torch.histogramdd(points, [2, 2], range=[0.0, 2.0, 0.0, 2.0], density=True).hist
    assert spread.sum().item() == pytest.approx(1)


def test_copies_go_into_given_tensors():
    outs = [torch.zeros(2), torch.zeros(2)]
    assert torch.unbind_copy(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), out=outs) is None
    assert [t.tolist() for t in outs] == [[1, 2], [3, 4]]
    parts = torch.split_with_sizes_copy(torch.arange(3), (1, 2))
    assert [t.tolist() for t in parts] == [[0], [1, 2]]


def test_low_rank_factors_of_a_low_rank_matrix():
    torch.manual_seed(1)
    a = torch.randn(8, 2, dtype=torch.float64) @ torch.randn(2, 5, dtype=torch.float64)
    u, s, v = torch.svd_lowrank(a, 3)
    assert torch.allclose(u * s @ v.mT, a) and s[2].item() < 1e-10
    u, s, v = torch.pca_lowrank(a, 2)
    assert torch.allclose(u * s @ v.mT, a - a.mean(0))
    with pytest.raises(ValueError, match="in .0, 5., got 6"):
        torch.pca_lowrank(a, 6)


def test_old_names_of_division_and_factorisation():
    x = torch.tensor([[4.0, 2.0], [2.0, 3.0]])
    assert x.__rdiv__(8.0)[0].tolist() == [2, 4] and x.__div__(2)[0].tolist() == [2, 1]
    packed, pivots = x.lu()
    assert packed.tolist() == [[4, 2], [0.5, 2]] and pivots.tolist() == [1, 2]
    assert len(torch.lu(x, get_infos=True)) == 3


def test_special_functions_without_derivative_say_so():
    x = torch.tensor([0.5], requires_grad=True)
    with pytest.raises(NotImplementedError, match="no derivative"):
        torch.special.airy_ai(x).backward()
    assert torch.special.expit(x).item() == pytest.approx(torch.sigmoid(x).item())


def test_fake_quantisation_passes_gradients_where_nothing_is_cut_off():
    x = torch.tensor([-2.0, -0.8, 0.1, 0.3, 1.4, 1.6], requires_grad=True)
    y = torch.fake_quantize_per_tensor_affine(x, 0.5, 1, 0, 4)
    y.sum().backward()
    assert y.tolist() == [-0.5, -0.5, 0, 0.5, 1.5, 1.5]
    assert x.grad.tolist() == [0, 0, 1, 1, 1, 1]


def test_powers_by_a_number_are_roots_and_products_where_they_can_be():
    x = torch.tensor([-math.inf, -0.0, 4.0], requires_grad=True)
    root, inverse = x**0.5, x**-0.5
    assert math.isnan(root[0].item()) and math.copysign(1, root[1].item()) == -1
    assert root[2].item() == 2 and inverse[1:].tolist() == [-math.inf, 0.5]
    z = torch.tensor([-1 + 0j, 1 + 2j])
    assert (z**0.5)[0].item() == 1j and (z**2)[1].item() == -3 + 4j
    (x[2] ** 3 + x[2] ** 2 + x[2] ** 1).backward()
    assert x.grad.tolist() == [0, 0, 57]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gelu_keeps_its_digits_where_it_vanishes(dtype):
    x = torch.linspace(-9, 9, 1001).to(dtype)
    exact = [v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    tolerance = 4e-5 if dtype == torch.float32 else 2**-8
    for got, wanted in zip(F.gelu(x).tolist(), exact):
        assert got == pytest.approx(wanted, rel=tolerance, abs=2e-12)


@pytest.mark.parametrize("name", "bool int16 int64 bfloat16 float32 float64 complex128".split())
def test_operands_that_lie_across_give_what_their_copies_give(name):
    dtype = getattr(torch, name)
    x = (torch.arange(3 * 37 * 301) % 251 - 125).to(dtype).reshape(3, 37, 301)
    across = x.mT.contiguous().mT
    twice = torch.maximum if not dtype.is_complex else torch.mul
    assert torch.equal(twice(x, across), twice(x, x))
    assert torch.equal(torch.where(across == x, across, torch.zeros_like(x)), x)
    assert torch.equal(torch.ones(3, 37, 301) * across, torch.ones(3, 37, 301) * x)
    y = x.clone()
    y.mul_(across)
    assert torch.equal(y, x * x)
    assert torch.equal((across[:, ::2] == x[:, ::2]).all(), torch.tensor(True))


def test_index_add_cuts_its_factor_to_integers():
    zeros, at = torch.zeros(2, dtype=torch.int64), torch.tensor([0])
    for alpha, expected in ((0.5, 0), (2.5, 10)):
        source = torch.full((1,), 5, dtype=torch.int64)
        assert zeros.index_add(0, at, source, alpha=alpha).tolist() == [expected, 0]
    with pytest.raises(RuntimeError, match="index_add: alpha .* does not fit in float32"):
        torch.zeros(2).index_add(0, at, torch.ones(1), alpha=1j)


def test_softshrink_refuses_a_negative_width():
    for lambd in (-0.5, math.nan):
        with pytest.raises(RuntimeError, match="softshrink"):
            F.softshrink(torch.ones(2), lambd)


def test_float_power_writes_into_out():
    out = torch.empty(2, dtype=torch.float64)
    assert torch.float_power(torch.tensor([2, 3]), 2, out=out) is out
    assert out.tolist() == [4, 9]


def test_bytes_of_pictures_are_resized_and_rounded():
    x = torch.tensor([[[[0, 255], [255, 0]]]], dtype=torch.uint8)
    y = F.interpolate(x, size=(1, 4), mode="bilinear", align_corners=True)
    assert y.dtype is torch.uint8 and y.tolist() == [[[[0, 85, 170, 255]]]]
    wide = F.interpolate(x, scale_factor=2, mode="bicubic")
    assert wide.dtype is torch.uint8 and wide.min() == 0 and wide.max() == 255


def test_embedding_refuses_a_weight_without_rows():
    with pytest.raises(RuntimeError, match="two dims"):
        F.embedding(torch.tensor([0]), torch.tensor(1.0))


def test_incomplete_gamma_at_the_ends():
    nan, inf = math.nan, math.inf
    a, x = (
        torch.tensor([nan, nan, inf, inf, 0.0, nan, -1.0]),
        torch.tensor([0.0, inf, nan, inf, nan, 1, inf]),
    )
    lower, upper = [0, 1, 0, nan, nan, nan, nan], [1, 0, 1, nan, nan, nan, nan]
    assert torch.igamma(a, x).tolist() == pytest.approx(lower, nan_ok=True)
    assert torch.igammac(a, x).tolist() == pytest.approx(upper, nan_ok=True)


def test_square_counts_bools():
    x = torch.tensor([True, False])
    assert x.square().dtype is torch.int64 and x.square().tolist() == [1, 0]
    assert torch.square(torch.tensor([3], dtype=torch.int8)).dtype is torch.int8
    with pytest.raises(RuntimeError, match="int64 and does not fit in bool"):
        x.square_()


def test_abs_cannot_stay_in_a_complex_tensor():
    z = torch.tensor([3 + 4j])
    with pytest.raises(RuntimeError, match="abs_: the result is float32"):
        z.abs_()
    assert z.item() == 3 + 4j and z.abs().item() == 5


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_einsum_sums_integers_in_int64(dtype):
    row, m = torch.ones(3, dtype=dtype), torch.ones(3, 3, dtype=dtype)
    for equation, operands, value in (
        ("i->", [row], 3),
        ("ii->", [m], 3),
        ("i,j->", [row, row], 9),
        ("ij,jk->", [m, m], 27),
        ("ij,jk->i", [m, m], [9] * 3),
    ):
        y = torch.einsum(equation, *operands)
        assert y.dtype is torch.int64 and y.tolist() == value
    assert torch.einsum("ij->ji", m).dtype is dtype


@pytest.mark.parametrize("create_graph", [False, True])
def test_group_norm_of_nothing_has_gradients(create_graph):
    x = torch.zeros(0, 6, 2, requires_grad=True)
    w = torch.ones(6, requires_grad=True)
    y = F.group_norm(x, 3, w)
    g = torch.autograd.grad(y.sum(), (x, w), create_graph=create_graph)
    assert [t.shape for t in g] == [(0, 6, 2), (6,)] and not g[1].any()


def test_batch_norm_of_an_empty_vector_is_empty():
    x = torch.zeros(0, requires_grad=True)
    y = F.batch_norm(x, torch.zeros(0), torch.ones(0))
    assert y.shape == (0,) and torch.autograd.grad(y.sum(), x)[0].shape == (0,)
    scaled = torch.batch_norm(x, torch.ones(1), torch.ones(1), None, None, True, 0.1, 1e-5, False)
    assert scaled.shape == (0,)
    with pytest.raises(RuntimeError, match="at least 2 dims"):
        F.batch_norm(torch.zeros(3), torch.zeros(3), torch.ones(3))


@pytest.mark.parametrize("name", ["i1", "i1e"])
def test_second_derivatives_of_bessel_functions_at_zero(name):
    x = torch.tensor([0.0, 0.5], dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(getattr(torch.special, name)(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(g.sum(), x)
    assert g[0].item() == 0.5 and second.isfinite().all()
    assert torch.autograd.gradgradcheck(getattr(torch.special, name), x[1:])


def test_histograms_count_between_the_first_and_the_last_edge():
    x = torch.tensor([[0.0], [1.0], [2.0], [2.5], [math.nan], [-1.0]])
    rising, falling = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([2.0, 1.0, 0.0])
    assert torch.histogramdd(x, [rising])[0].tolist() == [1, 2]
    assert torch.histogram(x, rising)[0].tolist() == [1, 2]
    assert not torch.histogramdd(x, [falling])[0].any() and not torch.histogram(x, falling)[0].any()


def test_logcumsumexp_of_one_complex_number_is_that_number():
    z = torch.tensor(1 + 2j, requires_grad=True)
    y = torch.logcumsumexp(z, 0)
    assert y.item() == 1 + 2j and torch.autograd.grad(y.real, z)[0].item() == 1
    assert torch.logcumsumexp(torch.zeros(2, 0, dtype=torch.complex64), 1).shape == (2, 0)
    with pytest.raises(IndexError, match="dim must be in"):
        torch.logcumsumexp(z, 1)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32", "float64", "complex128"])
def test_operands_that_lie_across(dtype):
    def numbers(*sizes):
        return (torch.arange(math.prod(sizes)) % 97).reshape(sizes).to(getattr(torch, dtype))

    for rows, columns in [(2, 70), (7, 16), (17, 40), (100, 300), (40, 513), (5, 70_000)]:
        x, across = numbers(rows, columns), numbers(columns, rows).t()
        assert torch.equal(x + across, x + across.contiguous())
        assert torch.equal(x * across.int(), x * across.int().contiguous())
        into = torch.zeros(rows, columns + 1, dtype=x.dtype)[:, 1:]
        torch.mul(x, across, out=into)
        assert torch.equal(into, x * across.contiguous())
        third = across.to(torch.float64) if dtype != "complex128" else across
        wanted = torch.where(x.abs() > 3, third.contiguous(), across.contiguous())
        assert torch.equal(torch.where(x.abs() > 3, third, across), wanted)
    cube = numbers(6, 20, 33)
    turned = numbers(33, 20, 6).permute(2, 1, 0)
    assert torch.equal(cube - turned, cube - turned.contiguous())
    turned = numbers(6, 33, 20).permute(0, 2, 1)
    assert torch.equal(cube - turned, cube - turned.contiguous())


def test_gelu_keeps_its_digits_below_zero():
    x = torch.linspace(-5, 5, 1281)
    exact = [v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()]
    for got, wanted in zip(F.gelu(x).tolist(), exact, strict=True):
        assert got == pytest.approx(wanted, rel=1e-5, abs=1e-30)
    assert F.gelu(torch.tensor([7.875, -7.875])).tolist() == pytest.approx([7.875, 0], abs=1e-12)
    ends = F.gelu(torch.tensor([-100.0, -0.0, 0.0, 20.0, math.inf]))
    assert ends.tolist() == [0, 0, 0, 20, math.inf]
    assert ends.signbit().tolist() == [True, True, False, False, False]
