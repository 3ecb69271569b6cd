"""The C base of nn.Module: attribute rules, __dict__, copies, the collector, hooks."""

import copy
import gc
import pickle
import timeit
import weakref

import pytest

import flambeau as torch
from flambeau import nn


class Identity(nn.Module):
    def forward(self, x):
        return x


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.number = 3
        self.weight = nn.Parameter(torch.zeros(2))
        self.register_buffer("seen", torch.zeros(1), persistent=False)
        self.inner = Identity()

    def forward(self, x, times=1):
        return x * times


def test_registered_by_kind():
    m = Pair()
    assert list(m._parameters) == ["weight"]
    assert list(m._buffers) == ["seen"]
    assert list(m._modules) == ["inner"]
    assert m.weight is m._parameters["weight"] and m.inner is m._modules["inner"]
    assert m.number == 3 and m._non_persistent_buffers_set == {"seen"}


def test_names_move_between_kinds():
    m = Pair()
    m.number = Identity()
    assert "number" in m._modules and m.number.forward(4) == 4
    m.inner = nn.Parameter(torch.ones(1))
    assert "inner" in m._parameters and "inner" not in m._modules
    with pytest.raises(TypeError, match="cannot assign 'int' as parameter 'weight'"):
        m.weight = 3
    m.weight = None
    assert m.weight is None and "weight" in m._parameters
    with pytest.raises(TypeError, match="as buffer 'seen'"):
        m.seen = 3
    del m.seen
    assert not hasattr(m, "seen") and m._non_persistent_buffers_set == set()


def test_before_init():
    class Late(nn.Module):
        def __init__(self):
            self.inner = Identity()

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Late()
    assert not hasattr(Identity.__new__(Identity), "_parameters")


def test_class_attribute_wins_over_module():
    class Shadow(nn.Module):
        inner = 7

    m = Shadow()
    m.inner = Identity()
    assert m.inner == 7 and isinstance(m._modules["inner"], Identity)


def test_property_error_survives():
    class Broken(nn.Module):
        @property
        def value(self):
            raise AttributeError("from inside")

    with pytest.raises(AttributeError, match="from inside"):
        print(Broken().value)
    with pytest.raises(AttributeError, match="'Broken' object has no attribute 'other'"):
        print(Broken().other)


def test_getattr_override_falls_back():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

    m = Wrapper(Pair())
    assert m.number == 3 and isinstance(m.inner, Pair)


def test_dict_is_torchs():
    m = Pair()
    state = m.__getstate__()
    assert list(state)[:3] == ["training", "_parameters", "_buffers"]
    assert list(state)[-3:] == ["_load_state_dict_post_hooks", "_modules", "number"]
    assert m.__dict__["_parameters"] is m._parameters
    m.__dict__["_modules"] = {"other": Identity()}
    assert not hasattr(m, "inner") and isinstance(m.other, Identity)
    assert m(torch.ones(1)).item() == 1


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(duplicate):
    m = Pair()
    m.eval()
    n = duplicate(m)
    assert n.number == 3 and n.training is False and n.weight is not m.weight
    assert torch.equal(n.weight, m.weight) and n.inner is not m.inner
    assert list(n.state_dict()) == ["weight"]


def test_user_state_of_own_dict():
    class Own(nn.Module):
        def __getstate__(self):
            return {**self.__dict__, "extra": 1}

        def __setstate__(self, state):
            self.__dict__.update(state)

    m = Own()
    m.inner = Identity()
    n = copy.deepcopy(m)
    assert n.extra == 1 and isinstance(n.inner, Identity) and n.inner is not m.inner


def test_cycles_are_collected():
    m = Pair()
    m.me = [m]
    m.inner.parent = m.me
    ref = weakref.ref(m)
    del m
    gc.collect()
    assert ref() is None


def test_forward_on_the_instance_comes_first():
    m = Pair()
    assert m(torch.ones(1), times=2).item() == 2
    m.forward = lambda x: x * 10
    assert m(torch.ones(1)).item() == 10
    del m.forward
    assert m(torch.ones(1)).item() == 1


def test_hooks_run_and_leave():
    m, seen = Identity(), []
    before = m.register_forward_pre_hook(lambda mod, args: seen.append("before"))
    after = m.register_forward_hook(lambda mod, args, out: out + 1)
    assert m(1) == 2 and seen == ["before"]
    before.remove()
    after.remove()
    assert m(1) == 1 and seen == ["before"]


def test_hook_dicts_may_be_changed_directly():
    m = Identity()
    m._forward_hooks[0] = lambda mod, args, out: "changed"
    assert m(1) == "changed"
    m._forward_hooks.clear()
    assert m(1) == 1


def _ns(function, number=20_000):
    return min(timeit.repeat(function, number=number, repeat=7)) / number * 1e9


@pytest.mark.measured
def test_a_call_costs_little_more_than_forward():
    m = Identity()
    forward = Identity.forward
    assert _ns(lambda: m(1)) < 3 * _ns(lambda: forward(m, 1))


def test_errors_name_the_module():
    model = nn.Sequential(nn.Linear(8, 4), nn.Sequential(nn.ReLU(), nn.Linear(5, 2)))
    with pytest.raises(RuntimeError) as caught:
        model(torch.ones(3, 8))
    assert "in module 1.1: Linear(in_features=5, out_features=2" in str(caught.value)


def test_errors_of_users_stay_as_they_are():
    class Raises(nn.Module):
        def forward(self, x):
            raise ValueError("mine")

    with pytest.raises(ValueError) as caught:
        nn.Sequential(Raises())(1)
    assert caught.value.args == ("mine",)
