"""One Python object per tensor: identity, attributes, classes and weak references survive C++."""

import gc
import pickle
import sys
import weakref

import pytest

import flambeau as torch


def held_by_tape(x):
    """A result whose history keeps `x` alive in C++."""
    return x * 2


def test_same_object_from_every_door():
    x = torch.full((2,), 1.0, requires_grad=True)
    x.grad = torch.full((2,), 1.0)
    assert x.grad is x.grad
    assert x.contiguous() is x
    assert x.to(torch.float32) is x
    assert x.requires_grad_() is x


def test_attributes_survive_while_only_cpp_holds_the_tensor():
    x = torch.full((2,), 1.0, requires_grad=True)
    g = torch.zeros(2)
    g.note = ["kept"]
    x.grad = g
    address = id(g)
    del g
    gc.collect()
    assert x.grad.note == ["kept"]
    assert id(x.grad) == address


def test_subclass_survives_while_only_cpp_holds_the_tensor():
    class Sub(torch.Tensor):
        pass

    x = torch.full((2,), 1.0, requires_grad=True)
    x.grad = torch.zeros(2).as_subclass(Sub)
    for _ in range(3):  # resurrected again and again
        gc.collect()
        assert type(x.grad) is Sub


def test_weak_reference_lives_as_long_as_the_tensor():
    x = torch.full((2,), 1.0, requires_grad=True)
    g = torch.zeros(2)
    ref = weakref.ref(g)
    x.grad = g
    del g
    gc.collect()
    assert ref() is x.grad
    x.grad = None
    gc.collect()
    assert ref() is None


def test_cycle_through_an_attribute_is_collected():
    class Canary:
        pass

    x, canary = torch.full((1,), 1.0), Canary()
    x.me, x.canary = x, canary
    ref = weakref.ref(canary)
    del x, canary
    gc.collect()
    assert ref() is None


def test_cycle_that_cpp_holds_is_not_collected():
    x = torch.full((1,), 1.0, requires_grad=True)
    g = torch.zeros(1)
    g.me, g.note = g, "kept"
    x.grad = g
    del g
    gc.collect()
    assert x.grad.note == "kept"
    x.grad.me = None


@pytest.mark.measured
def test_plain_objects_are_reused_without_leaking():
    import resource

    def churn():
        x = torch.full((4,), 1.0)
        for _ in range(50_000):
            x = (x * 1.0).detach()

    churn()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    churn()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2_000


def test_parameter_type_comes_back_from_cpp():
    p = torch.nn.Parameter(torch.full((2,), 1.0))
    held = held_by_tape(p)
    del p
    gc.collect()
    leaf = held.grad_fn.next_functions[0][0].variable
    assert type(leaf) is torch.nn.Parameter


def test_storage_has_one_object():
    x = torch.full((3,), 1.0)
    assert x.untyped_storage() is x.untyped_storage()
    assert x.untyped_storage() == x.detach().untyped_storage()


def test_hash_is_identity():
    x = torch.full((1,), 1.0)
    assert hash(x) == id(x) and x in {x: 1}


def test_constants_pickle_by_name():
    for c in (torch.float32, torch.strided, torch.channels_last):
        assert pickle.loads(pickle.dumps(c)) is c
    assert pickle.loads(pickle.dumps(torch.device("cpu"))) == torch.device("cpu")
    size = pickle.loads(pickle.dumps(torch.Size([1, 2])))
    assert type(size) is torch.Size and size == (1, 2)


def test_objects_that_come_and_go_hold_the_type_only_while_they_wait():
    before = sys.getrefcount(torch.Tensor)
    for _ in range(20):
        kept = [torch.ones(1) for _ in range(600)]
        del kept
    assert sys.getrefcount(torch.Tensor) - before <= 256  # objects that wait to be used again
