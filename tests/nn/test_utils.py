"""nn.utils: clipping, vectors, parametrizations, pruning, fusion, functional calls."""

import copy

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import utils
from flambeau.nn.utils import parametrize, prune


def with_grads(*grads):
    params = [nn.Parameter(fl.zeros(len(g))) for g in grads]
    for p, g in zip(params, grads):
        p.grad = fl.tensor(g)
    return params


def test_clip_grad_norm():
    params = with_grads([3.0, 0.0], [0.0, 4.0])
    total = utils.clip_grad_norm_(params, 1.0)
    assert total.item() == pytest.approx(5.0)
    assert params[1].grad.tolist() == pytest.approx([0.0, 0.8], abs=1e-6)
    assert utils.clip_grad_norm_(params, 100.0).item() == pytest.approx(1.0, rel=1e-5)
    assert params[1].grad.tolist() == pytest.approx([0.0, 0.8], abs=1e-6)
    assert utils.clip_grad_norm_(with_grads([3.0, -7.0]), 1.0, float("inf")).item() == 7.0
    assert utils.clip_grad_norm_(with_grads([3.0, -7.0]), 1.0, 1).item() == pytest.approx(10.0)
    assert utils.get_total_norm([fl.tensor([3.0]), fl.tensor([4.0])]).item() == pytest.approx(5.0)
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    bad = with_grads([float("inf")])
    with pytest.raises(RuntimeError, match="finite"):
        utils.clip_grad_norm_(bad, 1.0, error_if_nonfinite=True)


def test_clip_grad_value():
    params = with_grads([3.0, -0.1])
    utils.clip_grad_value_(params, 0.5)
    assert params[0].grad.tolist() == pytest.approx([0.5, -0.1])


def test_parameters_to_vector_and_back():
    m = nn.Linear(2, 1)
    utils.vector_to_parameters(fl.tensor([1.0, 2.0, 3.0]), m.parameters())
    assert m.weight.tolist() == [[1, 2]] and m.bias.tolist() == [3]
    assert utils.parameters_to_vector(m.parameters()).tolist() == [1, 2, 3]


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T

    def right_inverse(self, a):
        return a.triu()


def test_parametrization_computes_assigns_and_goes():
    m = nn.Linear(2, 2)
    parametrize.register_parametrization(m, "weight", Symmetric())
    m.weight = fl.tensor([[1.0, 5.0], [5.0, 2.0]])
    assert m.weight.tolist() == [[1, 5], [5, 2]]
    assert m.parametrizations.weight.original.tolist() == [[1, 5], [0, 2]]
    assert list(m.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(m).__name__ == "ParametrizedLinear" and parametrize.is_parametrized(m, "weight")
    m(fl.ones(1, 2)).sum().backward()
    assert m.parametrizations.weight.original.grad is not None
    other = copy.deepcopy(m)
    with fl.no_grad():
        other.parametrizations.weight.original.mul_(2)
    assert other.weight.tolist() == [[2, 10], [10, 4]] and m.weight.tolist() == [[1, 5], [5, 2]]
    with parametrize.cached():
        assert m.weight is m.weight
    parametrize.remove_parametrizations(m, "weight")
    assert type(m) is nn.Linear and m.weight.tolist() == [[1, 5], [5, 2]]
    with pytest.raises(ValueError):
        parametrize.register_parametrization(m, "nothing", Symmetric())


def test_parametrization_must_keep_the_shape():
    class Row(nn.Module):
        def forward(self, x):
            return x[0]

    with pytest.raises(ValueError, match="shape"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", Row())


@pytest.mark.parametrize("old", [False, True])
def test_weight_norm(old):
    m = nn.Linear(2, 3)
    before = m.weight.detach().clone()
    if old:
        with pytest.warns(FutureWarning):
            utils.weight_norm(m)
        length = m.weight_g
    else:
        utils.parametrizations.weight_norm(m)
        length = m.parametrizations.weight.original0
    assert length.reshape(-1).tolist() == pytest.approx(before.norm(dim=1).tolist(), rel=1e-5)
    with fl.no_grad():
        length.mul_(2)
    x = fl.ones(2)
    assert (m(x) - (2 * before @ x + m.bias)).abs().max().item() < 1e-5
    if old:
        utils.remove_weight_norm(m)
        assert sorted(m.state_dict()) == ["bias", "weight"]
        with pytest.raises(ValueError):
            utils.remove_weight_norm(m)


@pytest.mark.parametrize("old", [False, True])
def test_spectral_norm_makes_the_largest_singular_value_one(old):
    m = nn.Linear(3, 4)
    (utils.spectral_norm if old else utils.parametrizations.spectral_norm)(m)
    for _ in range(60):
        m(fl.ones(1, 3))
    m.eval()
    m(fl.ones(1, 3))
    largest = np.linalg.svd(m.weight.detach().numpy(), compute_uv=False)[0]
    assert largest == pytest.approx(1.0, abs=1e-3)
    if old:
        assert sorted(m.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
        utils.remove_spectral_norm(m)
        assert sorted(m.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize("map_", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 4)], ids=str)
def test_orthogonal(map_, shape):
    m = utils.parametrizations.orthogonal(nn.Linear(shape[1], shape[0]), orthogonal_map=map_)
    w = m.weight
    gram = w.T @ w if shape[0] >= shape[1] else w @ w.T
    assert (gram - fl.eye(min(shape))).abs().max().item() < 1e-4


def test_pruning():
    m = nn.Linear(4, 1)
    with fl.no_grad():
        m.weight.copy_(fl.tensor([[3.0, -1.0, 2.0, -4.0]]))
    prune.l1_unstructured(m, "weight", amount=0.5)
    assert m.weight.tolist() == [[3, 0, 0, -4]] and prune.is_pruned(m)
    assert sorted(m.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    prune.l1_unstructured(m, "weight", amount=1)
    assert m.weight.tolist() == [[0, 0, 0, -4]]
    prune.remove(m, "weight")
    assert sorted(m.state_dict()) == ["bias", "weight"] and m.weight.tolist() == [[0, 0, 0, -4]]
    with pytest.raises(ValueError):
        prune.remove(m, "weight")
    with pytest.raises(ValueError):
        prune.random_unstructured(nn.Linear(2, 2), "weight", amount=1.5)


def test_structured_and_global_pruning():
    m = nn.Linear(2, 3)
    with fl.no_grad():
        m.weight.copy_(fl.tensor([[1.0, 1.0], [5.0, 5.0], [2.0, 2.0]]))
        m.bias.copy_(fl.tensor([0.5, 9.0, 9.0]))
    prune.ln_structured(m, "weight", amount=1, n=2, dim=0)
    assert m.weight.tolist() == [[0, 0], [5, 5], [2, 2]]
    other = nn.Linear(2, 1, bias=False)
    with fl.no_grad():
        other.weight.copy_(fl.tensor([[0.1, 7.0]]))
    prune.global_unstructured(
        [(m, "bias"), (other, "weight")], pruning_method=prune.L1Unstructured, amount=2
    )
    assert m.bias.tolist() == [0, 9, 9] and other.weight.tolist() == [[0, 7]]


def test_fusion_of_convolution_and_norm():
    conv, bn = nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3)
    x = fl.randn(4, 2, 5, 5)
    bn(conv(x))
    both = nn.Sequential(conv, bn).eval()
    fused = utils.fuse_conv_bn_eval(conv, bn)
    assert (fused(x) - both(x)).abs().max().item() < 1e-5
    with pytest.raises(AssertionError):
        utils.fuse_conv_bn_eval(conv, bn.train())
    linear, bn = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()
    bn.running_mean.fill_(0.5)
    y = fl.randn(4, 2)
    assert (utils.fuse_linear_bn_eval(linear, bn)(y) - bn(linear(y))).abs().max().item() < 1e-5


def test_functional_call_leaves_the_module_alone():
    m = nn.Linear(2, 1)
    before = m.weight.tolist()
    values = {"weight": fl.tensor([[1.0, 2.0]]), "bias": fl.tensor([5.0])}
    out = utils.stateless._functional_call(m, values, fl.ones(1, 2))
    assert out.item() == 8.0 and m.weight.tolist() == before
    with pytest.raises(RuntimeError, match="missing"):
        utils.stateless._functional_call(m, {"bias": fl.ones(1)}, fl.ones(1, 2), strict=True)


def test_skip_init():
    m = utils.skip_init(nn.Linear, 3, 4)
    assert m.weight.shape == (4, 3) and m.weight.device.type == "cpu" and m.weight.requires_grad
