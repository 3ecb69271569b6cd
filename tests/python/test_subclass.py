"""Subclasses of Tensor and classes that override torch's functions."""

import flambeau as torch


class Plain(torch.Tensor):
    """Overrides nothing: results keep the class."""


class Logged(torch.Tensor):
    """Remembers the names of the functions it went through."""

    names = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Foreign:
    """No tensor at all."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "handled", func.__name__, tuple(t.__name__ for t in types)


def test_results_keep_a_plain_subclass():
    x = torch.tensor([1.0, 2.0]).as_subclass(Plain)
    for y in (x + 1, 1 + x, x * x, -x, x.sum(), torch.exp(x), x > 0, x.float(), x.view(2, 1)):
        assert type(y) is Plain
    assert type(x.tolist()[0]) is float
    x += 1
    assert type(x) is Plain and x.tolist() == [2, 3]


def test_constructing_a_subclass():
    x = Plain([1, 2])
    assert type(x) is Plain and x.dtype is torch.float32
    assert type(Plain(torch.tensor([1]))) is Plain
    x.note = "kept"
    assert x.note == "kept"


def test_override_sees_functions_methods_and_operators():
    Logged.names.clear()
    x = torch.tensor([1.0]).as_subclass(Logged)
    y = torch.exp(x + 1).sum()
    assert type(y) is Logged
    assert Logged.names == ["add", "exp", "sum"]


def test_foreign_class_is_asked():
    f = Foreign(1)
    assert torch.exp(f) == ("handled", "exp", ("Foreign",))
    assert torch.add(torch.zeros(1), f) == ("handled", "add", ("Foreign",))
    assert torch.zeros(1) + f == ("handled", "add", ("Foreign",))


def test_modes_see_every_call_and_nest():
    class Spy(torch.overrides.TorchFunctionMode):
        def __init__(self, name, seen):
            self.name, self.seen = name, seen

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    seen, x = [], torch.tensor([1.0])
    with Spy("outer", seen):
        with Spy("inner", seen):
            y = torch.exp(-x)
        z = 2 - x
        x += 1
    assert seen[:4] == [("inner", "neg"), ("outer", "neg"), ("inner", "exp"), ("outer", "exp")]
    assert seen[4:] == [("outer", "__rsub__"), ("outer", "add_")]
    assert y.shape == z.shape == (1,) and x.tolist() == [2]
    assert torch.exp(x).shape == (1,) and len(seen) == 6


def test_parameter_results_are_plain_tensors():
    p = torch.nn.Parameter(torch.zeros(1))
    assert type(p + 1) is torch.Tensor and type(p.detach()) is torch.Tensor
    assert isinstance(p, torch.Tensor) and p.is_leaf


def test_unknown_operands():
    x = torch.zeros(1)
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    for call in (lambda: x + "a", lambda: x + [1], lambda: x @ 2, lambda: x < None):
        try:
            call()
        except TypeError:
            continue
        raise AssertionError("TypeError expected")
