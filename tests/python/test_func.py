"""func: derivatives that nest, maps over batches, modules as functions."""

import pytest

import flambeau as torch
from flambeau import func, nn


def test_grad_and_value_with_aux():
    x = torch.tensor([1.0, 2.0])
    grads, (value, aux) = func.grad_and_value(lambda x: ((x * x).sum(), x * 5), has_aux=True)(x)
    assert grads.tolist() == [2, 4] and value.item() == 5 and aux.tolist() == [5, 10]
    assert not (grads.requires_grad or value.requires_grad or aux.requires_grad)


def test_grad_nests_and_keeps_outer_history():
    x = torch.tensor(2.0)
    assert func.grad(func.grad(lambda x: x * x * x * x))(x).item() == 48
    leaf = torch.tensor([3.0], requires_grad=True)
    g = func.grad(lambda t: (t * t).sum())(leaf)
    g.sum().backward()
    assert g.item() == 6 and leaf.grad.item() == 2


def test_grad_sees_tensors_of_a_closure():
    w = torch.tensor([3.0], requires_grad=True)
    g = func.grad(lambda x: (x * x * w).sum())(torch.tensor([2.0]))
    g.sum().backward()
    assert g.item() == 12 and w.grad.item() == 4


def test_vjp_and_jvp():
    x = torch.tensor([1.0, 2.0])
    outputs, back = func.vjp(lambda x: x * x, x)
    assert outputs.tolist() == [1, 4] and back(torch.tensor([1.0, 10.0]))[0].tolist() == [2, 40]
    outputs, pushed = func.jvp(lambda x: x * x, (x,), (torch.tensor([1.0, 10.0]),))
    assert outputs.tolist() == [1, 4] and pushed.tolist() == [2, 40]


def test_jacobians_and_hessian():
    def f(a, b):
        return a * b

    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    for jacobian in (func.jacrev, func.jacfwd):
        by_a, by_b = jacobian(f, argnums=(0, 1))(a, b)
        assert by_a.tolist() == [[3, 0], [0, 4]] and by_b.tolist() == [[1, 0], [0, 2]]
    assert func.hessian(lambda x: (x * x * x).sum())(a).tolist() == [[6, 0], [0, 12]]


def test_vmap_dims():
    a = torch.arange(6.0).reshape(2, 3)
    assert func.vmap(lambda x, y: x @ y, in_dims=(1, None))(a, torch.ones(2)).tolist() == [3, 5, 7]
    one, other = func.vmap(lambda x: (x, x * 2), out_dims=(0, 1))(a)
    assert one.tolist() == a.tolist() and other.tolist() == (a * 2).t().tolist()
    nested = func.vmap(func.vmap(lambda x, y: x * y, in_dims=(None, 0)), in_dims=(0, None))
    assert nested(torch.arange(3.0), torch.arange(2.0)).tolist() == [[0, 0], [0, 1], [0, 2]]


def test_vmap_randomness():
    same = func.vmap(lambda x: x + torch.rand(1), randomness="same")(torch.zeros(3))
    other = func.vmap(lambda x: x + torch.rand(1), randomness="different")(torch.zeros(3))
    assert len(set(same.flatten().tolist())) == 1 and len(set(other.flatten().tolist())) == 3


@pytest.mark.parametrize(
    "in_dims, args, text",
    [
        (None, (torch.ones(2),), "must not be None"),
        (2, (torch.ones(2),), "out of range"),
        (0, (torch.ones(2), torch.ones(3)), "differ"),
        ((0, 0), (torch.ones(2),), "does not fit"),
    ],
)
def test_vmap_errors(in_dims, args, text):
    with pytest.raises(ValueError, match=text):
        func.vmap(lambda *a: a[0], in_dims=in_dims)(*args)


def test_per_sample_gradients_of_a_module():
    model = nn.Linear(2, 1)
    params = dict(model.named_parameters())

    def loss(params, x):
        return func.functional_call(model, params, (x,)).sum()

    grads = func.vmap(func.grad(loss), in_dims=(None, 0))(params, torch.tensor([[1.0, 2], [3, 4]]))
    assert grads["weight"].tolist() == [[[1, 2]], [[3, 4]]]
    assert grads["bias"].tolist() == [[1], [1]]
