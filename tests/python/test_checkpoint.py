"""Checkpointing: gradients equal the plain ones for every kind of call."""

import warnings

import pytest

import flambeau as torch
from flambeau.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


def grads(run, *leaves):
    return [g.tolist() for g in torch.autograd.grad(run(), leaves)]


@pytest.mark.parametrize("use_reentrant", [None, True, False])
def test_gradients_equal(use_reentrant):
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def f(x):
        return (x.exp() * x).sin()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = grads(lambda: checkpoint(f, x, use_reentrant=use_reentrant).sum(), x)
    assert kept == grads(lambda: f(x).sum(), x)


def test_captured_parameters_kwargs_none_and_nested_tuples():
    w = torch.tensor([2.0], requires_grad=True)
    x = torch.ones(3)

    def f(x, nothing, pair, scale=1):
        assert nothing is None
        return (x * w).exp() * pair[0][1] * scale

    def plain():
        return f(x, None, ((1, 2), 3), scale=4).sum()

    def checked():
        return checkpoint(f, x, None, ((1, 2), 3), scale=4).sum()

    assert grads(checked, w) == grads(plain, w)


def test_dropout_repeats():
    x = torch.ones(50, requires_grad=True)
    y = checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5), x)
    y.sum().backward()
    assert torch.equal(y.detach(), x.grad)


def test_nested_and_repeated_backward():
    x = torch.tensor([0.5], requires_grad=True)
    y = checkpoint(lambda t: checkpoint(torch.sin, t.exp()).exp(), x)
    y.backward(retain_graph=True)
    first = x.grad.item()
    y.backward()
    z = x.detach().requires_grad_()
    z.exp().sin().exp().backward()
    assert first == z.grad.item() and x.grad.item() == 2 * first


def test_second_derivative():
    x = torch.tensor([3.0], requires_grad=True)
    y = checkpoint(lambda t: t * t * t, x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    assert torch.autograd.grad(g, x)[0].item() == 18


def test_function_that_changes_its_mind():
    sizes = [torch.ones(2), torch.ones(1)]
    x = torch.tensor([1.0], requires_grad=True)
    y = checkpoint(lambda t: t * sizes.pop(0).exp(), x)
    with pytest.raises(CheckpointError, match="saved tensor"):
        y.sum().backward()


def test_sequential():
    x = torch.tensor([0.5], requires_grad=True)
    layers = [torch.sin, torch.exp, torch.cos, torch.exp]
    checkpoint_sequential(layers, 2, x).backward()
    z = x.detach().requires_grad_()
    z.sin().exp().cos().exp().backward()
    assert x.grad.item() == z.grad.item()
