"""Second derivatives of what is piecewise linear: zeros for ops whose backward knows the input, none for the others."""

import weakref

import pytest

import flambeau as torch
import flambeau.nn.functional as F

IMAGES = {1: (1, 2, 6), 2: (1, 2, 5, 5), 3: (1, 2, 4, 5, 4)}


def over_dims(name, f):
    return {f"{name}{dims}d": (lambda x, dims=dims: f(x, dims), IMAGES[dims]) for dims in IMAGES}


def of(name, *dims):
    return dims and getattr(F, f"{name}{dims[0]}d")


SLOPE = torch.tensor([0.2], dtype=torch.float64)
PLACES = torch.tensor([[[[0.1, 0.3], [-0.5, 0.7]]]], dtype=torch.float64)
WINDOW = torch.ones(4, dtype=torch.float64)

ZERO = {
    **over_dims("max_pool", lambda x, dims: of("max_pool", dims)(x, 2)),
    **over_dims("avg_pool", lambda x, dims: of("avg_pool", dims)(x, 2)),
    **over_dims("adaptive_max_pool", lambda x, dims: of("adaptive_max_pool", dims)(x, 2)),
    **over_dims("adaptive_avg_pool", lambda x, dims: of("adaptive_avg_pool", dims)(x, 2)),
    **over_dims("reflect", lambda x, dims: F.pad(x, (1, 2) * dims, mode="reflect")),
    **over_dims("replicate", lambda x, dims: F.pad(x, (1, -1) * dims, mode="replicate")),
    "fractional_max_pool2d": (
        lambda x: F.fractional_max_pool2d(x, 2, output_size=2),
        IMAGES[2],
    ),
    "prelu": (lambda x: F.prelu(x, SLOPE), (2, 3)),
    "rrelu": (lambda x: F.rrelu(x, training=True), (2, 3)),
    "rrelu_eval": (F.rrelu, (2, 3)),
    "rrelu_": (lambda x: F.rrelu(x * 1, training=True, inplace=True), (2, 3)),
    "rrelu_eval_": (lambda x: F.rrelu(x * 1, inplace=True), (2, 3)),
    "leaky_relu_": (lambda x: F.leaky_relu(x * 1, inplace=True), (2, 3)),
    "relu": (F.relu, (2, 3)),
    "hardtanh": (F.hardtanh, (2, 3)),
    "threshold": (lambda x: F.threshold(x, 0.1, 2.0), (2, 3)),
    "abs": (torch.abs, (2, 3)),
    "nll_loss": (lambda x: F.nll_loss(x, torch.tensor([0, 2])), (2, 3)),
    "stft": (
        lambda x: torch.view_as_real(torch.stft(x, 4, window=WINDOW, return_complex=True)),
        (16,),
    ),
}
ABSENT = {
    "circular": (lambda x: F.pad(x, (1, 2), mode="circular"), (1, 2, 4)),
    "constant": (lambda x: F.pad(x, (1, 2)), (1, 2, 4)),
    "clamp": (lambda x: x.clamp(-1, 1), (2, 3)),
    "amax": (lambda x: x.amax(1), (2, 3)),
    "sort": (lambda x: x.sort()[0], (2, 3)),
    "where": (lambda x: torch.where(x > 0, x, 2 * x), (2, 3)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (1, 2, 3, 3)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (1, 4, 2, 2)),
    "cumsum": (lambda x: x.cumsum(0), (2, 3)),
}


def slope(f, x, **keywords):
    y = f(x)
    return torch.autograd.grad(y, x, torch.ones_like(y) * 0.7, **keywords)[0]


def leaf(shape):
    torch.manual_seed(3)
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("inner", [False, True], ids=["leaf", "inner"])
@pytest.mark.parametrize("name", ZERO)
def test_second_derivative_is_zero(name, inner):
    f, shape = ZERO[name]
    x = leaf(shape)
    at = x * 1 if inner else x  # the edge leads to a node, or to the leaf itself
    torch.manual_seed(5)
    g = slope(f, at, create_graph=True)
    assert g.any() and g.requires_grad
    for end in {at, x}:
        (second,) = torch.autograd.grad(g, end, torch.ones_like(g), retain_graph=True)
        assert second.shape == x.shape and second.dtype == x.dtype and not second.any()
    # Once more: the third derivative is zero too, and the first is the same without a graph.
    again = torch.autograd.grad((g * at).sum(), x)[0]
    torch.manual_seed(5)
    torch.testing.assert_close(again, slope(f, x))


@pytest.mark.parametrize("name", ABSENT)
def test_second_derivative_is_absent(name):
    f, shape = ABSENT[name]
    g = slope(f, leaf(shape), create_graph=True)
    assert g.any() and not g.requires_grad


def test_a_weight_of_prelu_keeps_its_second_derivatives():
    x, w = leaf((2, 3)), torch.rand(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(F.prelu, (x, w))
    g = slope(lambda x: F.prelu(x, w), x, create_graph=True)
    (mixed,) = torch.autograd.grad(g.sum(), w)
    torch.testing.assert_close(mixed, 0.7 * (x <= 0).double().sum(0))
    for at in (w, w * 1):  # a leaf and what a node gives; both are broadcast
        (g,) = torch.autograd.grad(F.prelu(x, at).sum(), at, create_graph=True)
        (second,) = torch.autograd.grad(g.sum(), at, create_graph=True)
        assert g.any() and second.shape == w.shape and not second.any()
        (third,) = torch.autograd.grad((g * g).sum(), at)
        assert third.shape == w.shape and not third.any()


def test_polar_is_linear_in_its_moduli():
    size, angle = leaf((3,)), leaf((3,))
    z = torch.polar(size, angle)
    by_size, _ = torch.autograd.grad(z.real.sum(), (size, angle), create_graph=True)
    second = torch.autograd.grad(by_size.sum(), (size, angle))
    assert not second[0].any()
    torch.testing.assert_close(second[1], -angle.sin())


def test_a_grid_whose_nearest_pixels_stay_has_zero_derivatives():
    x = leaf((1, 1, 3, 3))
    grid = PLACES.clone().requires_grad_()
    y = F.grid_sample(x, grid, mode="nearest", align_corners=False)
    by_x, by_grid = torch.autograd.grad(y.sum(), (x, grid), create_graph=True)
    assert by_x.any() and not by_grid.any()
    second = torch.autograd.grad(by_x.sum(), (x, grid), allow_unused=True)
    assert second[0] is None and second[1].shape == grid.shape and not second[1].any()


@pytest.mark.parametrize(
    "name", ["avg_pool2d", "adaptive_avg_pool2d", "max_pool2d", "adaptive_max_pool2d", "reflect2d"]
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_the_tape_keeps_no_input_for_a_zero(name, create_graph):
    f, shape = ZERO[name]
    x = leaf(shape)
    inner = x * 2
    kept, y = weakref.ref(inner), f(inner)
    del inner
    assert kept() is None
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=create_graph)
    assert g.any()


def test_hessians_of_pools_under_vmap():
    x = leaf((3, 1, 1, 4, 4))
    single = torch.func.hessian(lambda x: F.adaptive_max_pool2d(x, 2).pow(2).sum())
    each = torch.stack([single(part) for part in x])
    torch.testing.assert_close(torch.func.vmap(single)(x), each)
    assert each.sum() == 3 * 4 * 2
    flat = torch.func.hessian(
        lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), 2).sum()
    )
    assert not torch.func.vmap(flat)(x).any()
    padded = torch.func.hessian(lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate").pow(2).sum())
    torch.testing.assert_close(
        torch.func.vmap(padded)(x), torch.stack([padded(part) for part in x])
    )
    rows = torch.autograd.functional.jacobian(
        lambda x: F.prelu(x, SLOPE).flatten(), x[0], vectorize=True, create_graph=True
    )
    assert (
        rows.shape[0] == 16 and not torch.autograd.grad(rows.sum(), x, allow_unused=True)[0].any()
    )
