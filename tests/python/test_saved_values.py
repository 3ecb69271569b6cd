"""Attributes of nodes: the values that an op saved for its backward."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
Y = torch.tensor([[2.0, 0.5], [1.0, 2.0]])


def test_tensors_numbers_and_sizes():
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    node = (x * y).grad_fn
    assert node._saved_self is x and node._saved_other is y
    assert (x * Y).grad_fn._saved_self is None  # nobody needs it
    assert (x**3).grad_fn._saved_exponent == 3
    node = x.sum(1).grad_fn
    assert node._saved_dim == (1,) and node._saved_keepdim is False
    assert x.sum().grad_fn._saved_self_sym_sizes == (2, 2)
    assert torch.add(x, y, alpha=3).grad_fn._saved_alpha == 3
    assert F.leaky_relu(x, 0.1).grad_fn._saved_negative_slope == pytest.approx(0.1)
    node = torch.cat([x, y]).grad_fn
    assert node._saved_dim == 0
    assert x.index_select(0, torch.tensor([1])).grad_fn._saved_index.tolist() == [1]


def test_results():
    x = X.clone().requires_grad_()
    y = x.exp()
    assert y.grad_fn._saved_result is y
    node = y.grad_fn
    values = y.tolist()
    del y
    assert node._saved_result.tolist() == values and node._saved_result.grad_fn is node


def test_other_names_are_attribute_errors():
    node = (X.clone().requires_grad_() * 2).grad_fn
    with pytest.raises(AttributeError, match="_saved_nothing"):
        _ = node._saved_nothing
    node.mine = 3
    assert node.mine == 3 and node.name() == "MulBackward0"


def test_after_the_backward_pass_they_are_gone():
    y = X.clone().requires_grad_().exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="freed"):
        _ = y.grad_fn._saved_result


def test_what_was_changed_in_place_is_not_shown():
    other = Y.clone()
    z = X.clone().requires_grad_() * other
    other.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        _ = z.grad_fn._saved_other


def test_hooks_unpack():
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
        y = X.clone().requires_grad_().sin()
    assert y.grad_fn._saved_self.tolist() == X.tolist()
