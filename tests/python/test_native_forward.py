# Layers whose forward runs without Python, and state dicts made in C: whatever a user overrides or
# registers still counts.
from collections import OrderedDict

import pytest

import flambeau as torch
from flambeau import nn


class Doubled(nn.Linear):
    def forward(self, input):
        return super().forward(input) * 2


def ones_linear(cls=nn.Linear):
    layer = cls(2, 2)
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def test_sequential_calls_overridden_forward():
    x = torch.ones(1, 2)
    assert nn.Sequential(ones_linear(), ones_linear(Doubled))(x).tolist() == [[8.0, 8.0]]


def test_forward_on_an_instance_or_a_changed_class_wins(monkeypatch):
    layer = ones_linear()
    model = nn.Sequential(layer, nn.Identity())
    layer.forward = lambda input: input - 1
    assert model(torch.ones(2)).tolist() == [0.0, 0.0]
    del layer.forward
    monkeypatch.setattr(nn.Identity, "forward", lambda self, input: input + 1)
    assert model(torch.ones(2)).tolist() == [3.0, 3.0]


def test_hooks_of_modules_inside_a_sequential_run():
    model = nn.Sequential(ones_linear(), nn.Sequential(nn.Identity()))
    seen = []
    model[0].register_forward_hook(lambda module, args, out: out + 1)
    model[1][0].register_forward_pre_hook(lambda module, args: seen.append(args[0].tolist()))
    assert model(torch.ones(2)).tolist() == [3.0, 3.0]
    assert seen == [[3.0, 3.0]]


def test_a_weight_that_is_no_parameter_is_used():
    layer = ones_linear()
    del layer.weight
    layer.weight = torch.full((2, 2), 3.0)
    assert layer(torch.ones(2)).tolist() == [6.0, 6.0]


def test_a_shared_dict_decides():
    layer = ones_linear()
    vars(layer)["_parameters"]["weight"] = nn.Parameter(torch.zeros(2, 2))
    assert nn.Sequential(layer)(torch.ones(2)).tolist() == [0.0, 0.0]


def test_an_error_names_the_path_through_sequentials():
    model = nn.Sequential(nn.Identity(), nn.Sequential(nn.Linear(5, 2)))
    with pytest.raises(RuntimeError, match=r"in module 1\.0: Linear\(in_features=5"):
        model(torch.ones(3, 4))


def test_a_sequential_inside_itself_does_not_overflow_the_stack():
    model = nn.Sequential(nn.Identity())
    model._modules["1"] = model
    with pytest.raises(RecursionError):
        model(torch.ones(1))


class Extra(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.register_buffer("kept", torch.zeros(1))
        self.register_buffer("dropped", torch.zeros(1), persistent=False)
        self.register_parameter("none", None)

    def get_extra_state(self):
        return "more"


class Saving(nn.Module):
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "own"] = keep_vars


class Whole(nn.Module):
    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        destination[prefix + "whole"] = 1
        return destination


def test_state_dict_asks_whatever_is_overridden():
    model = nn.Sequential(OrderedDict(a=Extra(), b=Saving(), c=Whole(), d=nn.Identity()))
    model.d.state_dict = lambda destination, prefix, keep_vars: destination.update({prefix: 2})
    state = model.state_dict()
    assert list(state) == ["a.weight", "a.kept", "a._extra_state", "b.own", "c.whole", "d."]
    assert state["a._extra_state"] == "more" and state["b.own"] is False and state["d."] == 2
    assert not state["a.weight"].requires_grad
    assert state["a.weight"].data_ptr() == model.a.weight.data_ptr()
    assert list(state._metadata) == ["", "a", "b"] and state._metadata["a"] == {"version": 1}
    assert model.state_dict(keep_vars=True)["a.weight"] is model.a.weight


def test_state_dict_hooks_run_around_every_module():
    model = nn.Sequential(nn.Linear(1, 1, bias=False))
    order = []
    for module in model.modules():
        module.register_state_dict_pre_hook(lambda m, prefix, keep: order.append(("pre", prefix)))
        module.register_state_dict_post_hook(
            lambda m, state, prefix, meta: order.append((list(state), prefix, meta))
        )
    model.state_dict(prefix="p.")
    saved = ["p.0.weight"]
    assert order == [
        ("pre", "p."),
        ("pre", "p.0."),
        (saved, "p.0.", {"version": 1}),
        (saved, "p.", {"version": 1}),
    ]
    model[0]._register_state_dict_hook(lambda m, state, prefix, meta: {"other": 1})
    assert list(model.state_dict()) == ["0.weight"] and model[0].state_dict() == {"other": 1}


def test_state_dict_takes_a_plain_destination():
    into = {}
    assert nn.Linear(1, 1).state_dict(destination=into, prefix="x.") is into
    assert list(into) == ["x.weight", "x.bias"]
