"""Named tuples of ops with several results."""

import copy
import pickle

import pytest

import flambeau as torch

NAMES = [n for n in torch._C._op_names() if torch._C._return_type(n)]


@pytest.mark.parametrize("name", NAMES)
def test_named_tuple(name):
    kind = getattr(torch.return_types, name)
    values = [torch.tensor([float(i)]) for i in range(len(kind._fields))]
    result = kind(values)
    for i, field in enumerate(kind._fields):
        assert getattr(result, field) is values[i] is result[i]
    assert isinstance(result, tuple) and tuple(result) == tuple(values)
    assert kind.__name__ == name and kind is getattr(torch.return_types, name)
    first = kind._fields[0]
    assert repr(result).startswith(f"torch.return_types.{name}(\n{first}=tensor([0.])")
    again = copy.copy(result)
    assert type(again) is kind and again[0] is values[0]
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_wrong_number_of_values():
    kind = getattr(torch.return_types, NAMES[0])
    with pytest.raises(TypeError, match=f"takes {len(kind._fields)} values, got 1"):
        kind([1])


def test_what_has_none():
    with pytest.raises(AttributeError):
        print(torch.return_types.nothing_like_it)
