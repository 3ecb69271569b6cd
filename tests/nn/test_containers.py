"""Sequences and dictionaries of modules and parameters."""

from collections import OrderedDict

import pytest

import flambeau as fl
from flambeau import nn


def kinds(modules):
    return [type(m).__name__ for m in modules]


def test_sequential_edits_renumber():
    m = nn.Sequential(nn.ReLU())
    m.append(nn.Tanh()).insert(0, nn.Sigmoid()).extend([nn.GELU()])
    m[1] = nn.ELU()
    del m[0]
    assert kinds(m) == ["ELU", "Tanh", "GELU"] and list(m._modules) == ["0", "1", "2"]
    assert type(m.pop(0)).__name__ == "ELU" and len(m) == 2
    assert kinds(m[1:]) == ["GELU"] and isinstance(m[1:], nn.Sequential)
    assert kinds(m + nn.Sequential(nn.ReLU())) == ["Tanh", "GELU", "ReLU"]
    assert kinds(m * 2) == ["Tanh", "GELU"] * 2
    with pytest.raises(IndexError):
        m[2]
    with pytest.raises(ValueError):
        m * 0


def test_sequential_calls_in_order():
    double, add = nn.Identity(), nn.Identity()
    double.forward = lambda x: 2 * x
    add.forward = lambda x: x + 1
    assert nn.Sequential(OrderedDict(a=double, b=add))(3) == 7


def test_module_list():
    m = nn.ModuleList([nn.ReLU(), nn.ReLU()])
    m.insert(1, nn.Tanh())
    m += [nn.GELU()]
    assert kinds(m) == ["ReLU", "Tanh", "ReLU", "GELU"] and kinds(m[1:3]) == ["Tanh", "ReLU"]
    del m[1:3]
    assert kinds(m) == ["ReLU", "GELU"] and isinstance(m[-1], nn.GELU)
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU()])) == "ModuleList(\n  (0-1): 2 x ReLU()\n)"
    with pytest.raises(TypeError):
        m.extend(3)
    with pytest.raises(NotImplementedError):
        m(1)


def test_module_dict():
    m = nn.ModuleDict({"a": nn.ReLU()})
    m["b"] = nn.Linear(1, 1)
    m.update([("c", nn.Tanh())])
    assert list(m) == ["a", "b", "c"] and "b" in m and kinds(m.values())[2] == "Tanh"
    assert list(m.state_dict()) == ["b.weight", "b.bias"]
    assert isinstance(m.pop("c"), nn.Tanh) and len(m) == 2
    for bad, error in (([1], TypeError), ([("a",)], ValueError), (3, TypeError)):
        with pytest.raises(error):
            m.update(bad)


def test_parameter_list_takes_tensors_as_parameters():
    m = nn.ParameterList([fl.ones(2), nn.Parameter(fl.zeros(1))])
    m.append(fl.ones(3))
    m[0] = fl.zeros(4)
    assert [len(p) for p in m] == [4, 1, 3] and all(isinstance(p, nn.Parameter) for p in m)
    assert list(m.state_dict()) == ["0", "1", "2"] and len(m[1:]) == 2
    with pytest.raises(TypeError):
        m.extend(fl.ones(2))
    with pytest.raises(IndexError):
        m[3]
    with pytest.raises(RuntimeError):
        m()


def test_parameter_dict():
    m = nn.ParameterDict({"b": fl.ones(2), "a": fl.zeros(1)})
    assert list(m.keys()) == ["a", "b"]
    m["c"] = 3
    assert m.get("d", 5) == 5 and m["c"] == 3 and m.setdefault("e", fl.ones(1)).shape == (1,)
    assert [n for n, _ in m.named_parameters()] == ["a", "b", "e"]
    assert list((m | {"z": fl.ones(1)}).keys()) == ["a", "b", "c", "e", "z"]
    key, value = m.popitem()
    assert key == "e" and value.tolist() == [1.0] and "e" not in m
    with pytest.raises(TypeError):
        m[1] = fl.ones(1)
