"""torch.utils._pytree: containers as trees."""

from collections import OrderedDict, defaultdict, namedtuple

import pytest

from flambeau.utils import _pytree as tree

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value, leaves",
    [
        (1, [1]),
        ([1, (2, 3), {"a": 4, "b": [5]}], [1, 2, 3, 4, 5]),
        (Point(1, [2]), [1, 2]),
        (OrderedDict([("b", 1), ("a", 2)]), [1, 2]),
        (defaultdict(list, {"k": (1,)}), [1]),
        ([], []),
        (None, [None]),
    ],
)
def test_flatten_and_back(value, leaves):
    found, spec = tree.tree_flatten(value)
    assert found == leaves and spec.num_leaves == len(leaves)
    back = tree.tree_unflatten(found, spec)
    assert back == value and type(back) is type(value)
    assert tree.tree_structure(value) == spec


def test_map_takes_several_trees_and_leaves_of_types():
    a, b = {"x": 1, "y": [2, 3]}, {"y": [20, 30], "x": 10}
    assert tree.tree_map(lambda p, q: p + q, a, b) == {"x": 11, "y": [22, 33]}
    assert tree.tree_map_only(int, lambda v: -v, [1, "a", 2.0]) == [-1, "a", 2.0]
    assert tree.tree_map(len, [[1, 2], [3]], is_leaf=lambda v: v == [1, 2] or v == [3]) == [2, 1]
    with pytest.raises(ValueError, match="keys must be"):
        tree.tree_map(max, {"x": 1}, {"z": 1})


def test_paths():
    found, _ = tree.tree_flatten_with_path({"a": [1, Point(2, 3)]})
    assert [tree.keystr(p) for p, _ in found] == ["['a'][0]", "['a'][1].x", "['a'][1].y"]


def test_a_class_becomes_a_node():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    tree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda c, _: Pair(*c))
    doubled = tree.tree_map(lambda v: 2 * v, Pair(1, [2]))
    assert (doubled.a, doubled.b) == (2, [4])
    with pytest.raises(ValueError):
        tree.register_pytree_node(Pair, None, None)


def test_wrong_number_of_leaves():
    with pytest.raises(ValueError, match="has 2 leaves, got 1"):
        tree.tree_unflatten([1], tree.tree_structure([1, 2]))
