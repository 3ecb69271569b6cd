"""vmap: batched tensors seen from Python, in-place ops, random numbers, gradients per example."""

import copy

import pytest

import flambeau as torch
from flambeau import _C, nn
from flambeau.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from flambeau.nn import functional as F


def close(a, b, tolerance=1e-5):
    assert a.shape == b.shape and a.dtype == b.dtype
    assert torch.allclose(a, b, rtol=tolerance, atol=tolerance), (a - b).abs().max()


def stacked(f, *args):
    return torch.stack([f(*row) for row in zip(*args)])


# ---- what a batched tensor looks like ----


def test_example_has_the_shape_of_one():
    seen = []

    def f(x):
        seen.append((x.shape, x.dim(), x.dtype, len(x), x.numel(), x.T.shape, x.requires_grad))
        return x.T

    x = torch.arange(12.0).reshape(2, 3, 2)
    assert vmap(f)(x).tolist() == x.transpose(1, 2).tolist()
    assert seen == [((3, 2), 2, torch.float32, 3, 6, (2, 3), False)]


def test_repr_names_the_level():
    texts = []
    vmap(vmap(lambda x: texts.append(repr(x)) or x))(torch.zeros(1, 1))
    assert texts == [
        "BatchedTensor(lvl=2, bdim=0, value=BatchedTensor(lvl=1, bdim=0, value=tensor([[0.]])))"
    ]


def test_indexing_and_iteration():
    x = torch.arange(24.0).reshape(2, 3, 4)
    i = torch.tensor([0, 2])
    for f in (
        lambda x: x[1],
        lambda x: x[..., -1],
        lambda x: x[:, None, 1:3],
        lambda x: x[i],
        lambda x: x[:, i],
        lambda x: x[i, :, None][:, ::2],
        lambda x: x[None][:, i, i],
        lambda x: sum(row for row in x),
        lambda x: x[x[0, 0].long() * 0 + 1],
        lambda x: x[:, (x.sum(0) * 0).long()[:2] + 1],
    ):
        close(vmap(f)(x), stacked(f, x))


def test_numbers_keep_their_place_in_promotion():
    x, y = torch.ones(2, dtype=torch.float64), torch.ones(3)
    assert vmap(lambda a: a + y)(x).dtype == torch.float32  # a 0-d tensor does not widen
    assert vmap(lambda a: a * 2.5)(torch.ones(2, dtype=torch.int64)).dtype == torch.float32


@pytest.mark.parametrize(
    "f, text",
    [
        (lambda x: x if x.sum() > 0 else -x, "one value per example"),
        (lambda x: x.sum().item(), "one value per example"),
        (lambda x: x.tolist(), "no values to read"),
        (lambda x: x.nonzero(), "size of the result"),
        (lambda x: x[x > 0], "where"),
        (lambda x: torch.add(x, 1, out=torch.zeros(2)), "out="),
        (lambda x: torch.zeros(2).add_(x), "not mapped"),
        (lambda x: torch.rand(2) + x, "random"),
        (lambda x: torch.tensor_split(x, x.long()), "different sizes"),
        (lambda x: x.numpy(), "no memory"),
    ],
)
def test_errors_name_the_remedy(f, text):
    with pytest.raises(RuntimeError, match=text):
        vmap(f)(torch.ones(3, 2))


def test_no_buffer_of_a_batched_tensor():
    with pytest.raises(BufferError, match="no memory"):
        vmap(lambda x: memoryview(x))(torch.ones(3, 2))


def test_tensor_of_a_finished_map_is_refused():
    kept = []
    vmap(lambda x: kept.append(x) or x)(torch.ones(2))
    with pytest.raises(RuntimeError, match="over"):
        kept[0] + 1
    with pytest.raises(RuntimeError, match="over"):
        vmap(lambda x: kept[0] + x)(torch.ones(2))


# ---- in place ----


def test_in_place_writes_through_views():
    def f(x):
        y = x.clone()
        y[0] = 5
        y[1:].mul_(x[0])
        y.view(-1)[3].sub_(1)
        y[y > 100] = 0
        return y

    x = torch.arange(8.0).reshape(2, 4) * 10
    close(vmap(f)(x), stacked(f, x))
    vmap(lambda x: x.add_(1))(x)
    assert x[0, 0] == 1


def test_in_place_into_a_new_tensor():
    def f(x):
        out = x.new_zeros(2, 3)
        out[1] = x
        out.copy_(out + 1).t_()
        return out

    x = torch.arange(6.0).reshape(2, 3)
    close(vmap(f)(x), stacked(f, x))


# ---- dims, chunks, randomness ----


def test_out_dims_and_chunks():
    x = torch.arange(30.0).reshape(5, 2, 3)
    f = lambda x: (x * 2, {"sum": x.sum(0)})  # noqa: E731
    whole = vmap(f, out_dims=(1, -1))(x)
    parts = vmap(f, out_dims=(1, -1), chunk_size=2)(x)
    close(whole[0], (x * 2).transpose(0, 1))
    close(whole[1]["sum"], x.sum(1).T)
    close(parts[0], whole[0])
    close(parts[1]["sum"], whole[1]["sum"])


def test_keywords_are_not_mapped():
    seen = []
    vmap(lambda x, *, k: seen.append(k.shape) or x)(torch.ones(3, 4), k=torch.ones(3))
    assert seen == [(3,)]


def test_unbatched_result_is_expanded():
    c = torch.ones(2)
    assert vmap(lambda x: c)(torch.zeros(3)).shape == (3, 2)
    assert vmap(lambda x: c, out_dims=None)(torch.zeros(3)).shape == (2,)


@pytest.mark.parametrize("draw", [torch.rand_like, F.dropout, lambda x: x.clone().normal_()])
def test_randomness(draw):
    x = torch.ones(3, 50)
    same = vmap(draw, randomness="same")(x)
    assert same[0].tolist() == same[1].tolist() == same[2].tolist()
    other = vmap(draw, randomness="different")(x)
    assert other[0].tolist() != other[1].tolist() != other[2].tolist()
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(draw)(x)


# ---- layers ----


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mapped", [(0, None), (None, 0), (0, 0)])
def test_convolutions(groups, transposed, mapped):
    torch.manual_seed(0)
    f = F.conv_transpose2d if transposed else F.conv2d
    sizes = (4, 4 // groups, 3, 3)
    x = torch.randn(3, 2, 4, 6, 6) if mapped[0] == 0 else torch.randn(2, 4, 6, 6)
    w = torch.randn(3, *sizes) if mapped[1] == 0 else torch.randn(*sizes)
    b = torch.randn(3, 4)
    call = lambda x, w, b: f(x, w, b, stride=2, padding=1, groups=groups)  # noqa: E731
    got = vmap(call, in_dims=(*mapped, 0))(x, w, b)
    one = lambda t, m, i: t[i] if m == 0 else t  # noqa: E731
    want = [call(one(x, mapped[0], i), one(w, mapped[1], i), b[i]) for i in range(3)]
    close(got, torch.stack(want))


def test_norms_with_weights_per_example():
    torch.manual_seed(0)
    x, w, b = torch.randn(3, 5, 4, 6), torch.randn(3, 4), torch.randn(3, 4)
    for f in (
        lambda x, w, b: F.group_norm(x, 2, w, b),
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: F.batch_norm(x, w, b.exp(), w, b),
        lambda x, w, b: F.layer_norm(x.transpose(1, 2), (4,), w, b),
    ):
        close(vmap(f)(x, w, b), stacked(f, x, w, b))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_class_losses(reduction):
    torch.manual_seed(0)
    x, y = torch.randn(4, 5, 3), torch.randint(0, 3, (4, 5))
    y[1, 2] = -100
    f = lambda x, y: F.cross_entropy(x, y, reduction=reduction)  # noqa: E731
    close(vmap(f)(x, y), stacked(f, x, y))
    close(
        vmap(grad(lambda x, y: f(x, y).sum()))(x, y),
        stacked(grad(lambda x, y: f(x, y).sum()), x, y),
    )
    close(vmap(f)(x[:, 0], y[:, 0]), stacked(f, x[:, 0], y[:, 0]))


def test_embedding_gradients():
    w, i = torch.randn(4, 6, 2), torch.tensor([[0, 1, 1], [5, 2, 0], [3, 3, 3], [1, 0, 4]])
    f = lambda w, i: (F.embedding(i, w, padding_idx=1) ** 2).sum()  # noqa: E731
    close(vmap(grad(f))(w, i), stacked(grad(f), w, i))
    shared = vmap(grad(f), in_dims=(None, 0))(w[0], i)
    close(shared, torch.stack([grad(f)(w[0], row) for row in i]))


# ---- derivatives ----


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 6, 3, padding=1)
        self.hidden = nn.Linear(6 * 4 * 4, 8)
        self.classes = nn.Linear(8, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.classes(F.relu(self.hidden(x.flatten(1))))


def test_per_sample_gradients_of_a_conv_net():
    torch.manual_seed(0)
    net = Net()
    params = {k: p.detach() for k, p in net.named_parameters()}
    x, y = torch.randn(5, 1, 16, 16), torch.randint(0, 3, (5,))

    def loss(params, x, y):
        out = functional_call(net, params, (x.unsqueeze(0),))
        return F.cross_entropy(out, y.unsqueeze(0))

    _C._vmap_loops()
    found = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    assert _C._vmap_loops() == {}
    for name in params:
        rows = []
        for i in range(5):
            net.zero_grad()
            F.cross_entropy(net(x[i : i + 1]), y[i : i + 1]).backward()
            rows.append(dict(net.named_parameters())[name].grad.clone())
        close(found[name], torch.stack(rows))
        assert not found[name].requires_grad


def test_gradient_through_a_map():
    x, w = torch.randn(4, 3), torch.randn(3, requires_grad=True)
    loss = lambda w: vmap(lambda x: (x * w).sin().sum())(x).sum()  # noqa: E731
    (g,) = torch.autograd.grad(loss(w), w)
    close(g, (x * (x * w).cos()).sum(0).detach())
    close(grad(loss)(w.detach()), g)


def test_gradient_of_per_sample_gradients():
    x, w = torch.randn(4, 3), torch.randn(3, requires_grad=True)
    per_sample = vmap(grad(lambda x: ((x * w) ** 3).sum()))(x)
    (g,) = torch.autograd.grad(per_sample.sum(), w)
    close(g, (9 * w**2 * x**2).sum(0).detach())


def f3(x):
    return torch.stack([x[0] * x[1], x[1].sin() * x[2], (x**3).sum()])


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians_inside_and_outside_of_maps(jacobian):
    torch.manual_seed(0)
    x = torch.randn(2, 4, 3)
    close(vmap(vmap(jacobian(f3)))(x)[1, 2], jacobian(f3)(x[1, 2]))
    other = jacrev if jacobian is jacfwd else jacfwd
    close(jacobian(f3)(x[0, 0]), other(f3)(x[0, 0]))
    close(jacobian(vmap(f3))(x[0])[2, :, 2], jacobian(f3)(x[0, 2]))


def test_hessians():
    torch.manual_seed(0)
    f = lambda x: f3(x).pow(2).sum()  # noqa: E731
    x = torch.randn(4, 3)
    per_example = vmap(hessian(f))(x)
    for i in range(4):
        want = torch.stack([grad(lambda x, k=k: grad(f)(x)[k])(x[i]) for k in range(3)])
        close(per_example[i], want, 1e-4)
        close(jacrev(jacrev(f))(x[i]), want, 1e-4)
        close(jacrev(jacfwd(f))(x[i]), want, 1e-4)


def test_vjp_and_jvp_in_maps():
    torch.manual_seed(0)
    x, v = torch.randn(4, 3), torch.randn(4, 3)
    pulled = vmap(lambda x, v: vjp(f3, x)[1](v)[0])(x, v)
    pushed = vmap(lambda x, v: jvp(f3, (x,), (v,))[1])(x, v)
    for i in range(4):
        jacobian = jacrev(f3)(x[i])
        close(pulled[i], v[i] @ jacobian)
        close(pushed[i], jacobian @ v[i])
    _, back = vjp(f3, x[0])
    close(vmap(back)(torch.eye(3))[0], jacrev(f3)(x[0]))


def test_jvp_where_the_derivative_takes_logarithms():
    x = torch.tensor([0.5, -1.0, 2.0])
    close(jacfwd(lambda x: x.logcumsumexp(0))(x), jacrev(lambda x: x.logcumsumexp(0))(x))


def test_nested_maps_with_gradients():
    a, b = torch.randn(3, 2), torch.randn(4, 2)
    f = grad(lambda a, b: (a * b).sum() ** 2)
    got = vmap(vmap(f, in_dims=(None, 0)), in_dims=(0, None))(a, b)
    want = torch.stack([torch.stack([f(x, y) for y in b]) for x in a])
    close(got, want)


def test_constant_of_a_closure_gets_one_gradient_per_example():
    w = torch.tensor([1.0, 2.0])
    got = vmap(lambda x: grad(lambda w: (w * x).sum() ** 2)(w))(torch.eye(2))
    assert got.tolist() == [[2, 0], [0, 4]]


# ---- tensors made of batched ones, Functions, forward mode ----


def test_other_objects_for_a_batched_tensor():
    x = torch.arange(6.0).reshape(3, 2)
    for f in (
        lambda x: x.data * 2,
        lambda x: x.detach() + 1,
        lambda x: nn.Parameter(x) * 3,
        lambda x: x.as_subclass(torch.Tensor) - 1,
        copy.deepcopy,
        lambda x: x.to(torch.float64).contiguous(),
    ):
        close(vmap(f)(x).detach(), stacked(f, x).detach())


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        return x**3 + n

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g, None


class Swapped(Cube):
    @staticmethod
    def vmap(info, in_dims, x, n):
        assert (info.batch_size, info.randomness, in_dims) == (4, "error", (0, None))
        return Swapped.apply(x, n).movedim(0, 1), 1


@pytest.mark.parametrize("function", [Cube, Swapped])
def test_functions_inside_maps(function):
    x = torch.randn(4, 3)
    close(vmap(lambda x: function.apply(x, 2))(x), x**3 + 2)
    close(vmap(grad(lambda x: function.apply(x, 2).sum()))(x), 3 * x**2)
    y = x.clone().requires_grad_()
    vmap(lambda x: function.apply(x, 2))(y).sum().backward()
    close(y.grad, 3 * x**2)


def test_function_between_levels():
    x, w = torch.randn(4, 3), torch.randn(2, 3)
    got = vmap(lambda x: vmap(lambda w: Cube.apply(x, 0) * w)(w))(x)
    close(got, (x**3)[:, None] * w)
    row = jacrev(lambda x: Cube.apply(x, 0))(x[0])  # batched gradients reach its backward
    close(row, torch.diag(3 * x[0] ** 2))


def test_duals_inside_and_outside_of_maps():
    from flambeau.autograd import forward_ad

    x, t = torch.randn(4, 3), torch.randn(4, 3)

    def tangent(x, t):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t)
            return forward_ad.unpack_dual((dual.sin() * dual).sum()).tangent

    want = ((x.cos() * x + x.sin()) * t).sum(1)
    close(vmap(tangent)(x, t), want)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        out = vmap(lambda x: (x.sin() * x).sum())(dual)
        close(forward_ad.unpack_dual(out).tangent, want)


def test_ensemble_of_models():
    from flambeau.func import stack_module_state

    torch.manual_seed(0)
    models = [
        nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
        for _ in range(3)
    ]
    params, buffers = stack_module_state(models)
    x = torch.randn(5, 3)
    got = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(params, buffers)
    close(got, torch.stack([m(x) for m in models]))
