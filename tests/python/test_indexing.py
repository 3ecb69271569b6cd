"""x[...] and x[...] = v: every kind of key against NumPy, views, gradients, errors."""

import random

import numpy as np
import pytest

import flambeau as fl

SHAPE = (3, 4, 5)
COUNT = 60


def tensor():
    return fl.arange(float(COUNT)).reshape(SHAPE)


def array():
    return np.arange(float(COUNT)).reshape(SHAPE)


def as_array_key(key):
    """The same key for NumPy."""
    if isinstance(key, tuple):
        return tuple(as_array_key(k) for k in key)
    return key.numpy() if isinstance(key, fl.Tensor) else key


def long(*values):
    return fl.tensor(values)


BASIC = [
    0,
    -1,
    np.int64(2),
    slice(None),
    slice(1, None),
    slice(-2, 100),
    slice(None, None, 2),
    slice(2, 1),
    None,
    ...,
    (),
    (1, 2),
    (1, 2, 3),
    (0, slice(1, 3)),
    (slice(None), 1),
    (..., 0),
    (0, ..., None),
    (None, slice(None), None, 1),
    (slice(None), slice(None), slice(1, 5, 3)),
    (..., slice(0, 0)),
]
ADVANCED = [
    long(0, 2),
    [0, 2],
    [-1],
    range(2),
    np.array([1, 0]),
    fl.tensor([[0, 1], [2, 2]]),
    (long(0, 2), long(1, 3)),
    ([0, 2], [1, 3]),
    (slice(None), long(1, 1)),
    (slice(None), [0], [1, 2]),
    (long(0, 1), slice(None), long(1, 2)),
    (long(0, 1), ..., long(1, 2)),
    (0, long(1, 2)),
    (long(0, 2), 1),
    (None, long(0, 2)),
    (slice(1, 3), fl.tensor([[0], [3]]), long(1, 2)),
    fl.tensor([True, False, True]),
    [True, False, True],
    np.array([True, False, True]),
    (slice(None), fl.tensor([True, False, False, True])),
    (fl.tensor([True, False, True]), 1),
    (fl.tensor([True, False, True]), slice(1, 3)),
    fl.arange(12).reshape(3, 4) % 5 == 0,
    (fl.arange(12).reshape(3, 4) % 5 == 0, 2),
    fl.arange(COUNT).reshape(SHAPE) % 7 == 0,
    True,
    False,
    (True, 1),
    (0, False),
    fl.zeros(0, dtype=fl.int64),
]


def name(key):
    return repr(key).replace("\n", " ")


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=name)
def test_get_is_numpys(key):
    result, expected = tensor()[key], array()[as_array_key(key)]
    assert result.shape == expected.shape
    assert np.array_equal(result.numpy(), expected)


@pytest.mark.parametrize("key", BASIC, ids=name)
def test_basic_keys_give_views(key):
    x = tensor()
    view = x[key]
    assert view is not x
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    version = x._version
    view.mul_(2)
    assert x._version > version
    expected = array()
    expected[key] *= 2
    assert np.array_equal(x.numpy(), expected)


@pytest.mark.parametrize("key", ADVANCED, ids=name)
def test_advanced_keys_give_copies(key):
    x = tensor()
    x[key].zero_()
    assert np.array_equal(x.numpy(), array())


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=name)
def test_set_number_is_numpys(key):
    x, expected = tensor(), array()
    x[key] = -1
    expected[as_array_key(key)] = -1
    assert np.array_equal(x.numpy(), expected)


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=name)
def test_set_tensor_is_numpys(key):
    x, expected = tensor(), array()
    shape = expected[as_array_key(key)].shape
    values = np.arange(float(np.prod(shape))).reshape(shape) - 1000
    x[key] = fl.tensor(values, dtype=fl.float32)
    expected[as_array_key(key)] = values
    assert np.array_equal(x.numpy(), expected)


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=name)
def test_gradient_goes_to_what_was_read(key):
    x = tensor().double().requires_grad_()
    y = x[key]
    weights = fl.arange(1.0, y.numel() + 1, dtype=fl.float64).reshape(y.shape)
    (grad,) = fl.autograd.grad(y, x, weights)
    expected = np.zeros(SHAPE)
    flat = np.arange(COUNT).reshape(SHAPE)[as_array_key(key)]
    np.add.at(expected.reshape(-1), flat.reshape(-1), weights.numpy().reshape(-1))
    assert np.array_equal(grad.numpy(), expected)


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=name)
def test_gradient_of_an_assignment(key):
    x = tensor().double().requires_grad_()
    value = fl.tensor(2.0, dtype=fl.float64, requires_grad=True)
    y = x * 1
    y[key] = value
    y.sum().backward()
    written = np.zeros(SHAPE)
    written[as_array_key(key)] = 1
    assert np.array_equal(x.grad.numpy(), 1 - written)
    assert value.grad.item() == y[key].numel()


def random_key(rng, shape):
    """Keys that NumPy and torch read alike."""
    keys, length = [], rng.choice([1, 2, 3])
    for size in shape:
        kind = rng.choice(["int", "slice", "all", "list", "mask"])
        if kind == "int":
            keys.append(rng.randrange(-size, size))
        elif kind == "slice":
            keys.append(
                slice(rng.randrange(-size, size + 1), rng.randrange(size + 2), rng.choice([1, 2]))
            )
        elif kind == "list":
            keys.append(fl.tensor([rng.randrange(-size, size) for _ in range(length)]))
        elif kind == "mask":
            keys.append(fl.tensor([i < length for i in range(size)]))
        else:
            keys.append(slice(None))
    cut = rng.randrange(1, len(keys) + 1)
    keys = keys[:cut]
    if rng.random() < 0.3:
        keys.insert(rng.randrange(len(keys) + 1), None)
    if rng.random() < 0.3:
        keys.append(...)
    return tuple(keys)


def mixes_ints_and_lists(key):
    """NumPy counts an int beside lists as an index tensor of its own: the index dims may move."""
    kinds = [isinstance(k, fl.Tensor) for k in key]
    return any(kinds) and any(isinstance(k, int) for k in key)


@pytest.mark.parametrize("seed", range(300))
def test_random_keys_are_numpys(seed):
    rng = random.Random(seed)
    x, expected = tensor(), array()
    key = random_key(rng, SHAPE)
    if mixes_ints_and_lists(key):
        return
    order = rng.choice([(0, 1, 2), (2, 0, 1), (1, 0, 2)])
    if max(SHAPE) <= 5:  # the same key on a permuted tensor whose sizes it may not fit
        try:
            wanted = expected.transpose(order)[as_array_key(key)]
        except IndexError:
            with pytest.raises(IndexError):
                x.permute(order)[key]
            return
    result = x.permute(order)[key]
    assert result.shape == wanted.shape
    assert np.array_equal(result.numpy(), wanted)


def test_index_tensors_apart_put_their_dims_in_front():
    x = fl.zeros(2, 3, 4, 5)
    assert x[:, long(0, 1), :, long(0, 1)].shape == (2, 2, 4)
    assert x[:, long(0, 1), long(0, 1)].shape == (2, 2, 5)


def test_an_int_beside_an_index_tensor_selects_first():
    assert fl.zeros(2, 3, 4)[0, :, long(1, 2)].shape == (3, 2)


def test_zero_dim_integer_tensor_is_an_int():
    x = tensor()
    view = x[fl.tensor(1)]
    view.zero_()
    assert x[1].sum().item() == 0


def test_uint8_is_a_mask():
    x = fl.arange(3)
    assert x[fl.tensor([1, 0, 1], dtype=fl.uint8)].tolist() == [0, 2]


def test_leading_ones_of_a_value_are_dropped():
    x = fl.zeros(2, 3)
    x[0] = fl.ones(1, 1, 3)
    x[[1]] = fl.full((1, 1, 3), 2.0)
    assert x.tolist() == [[1, 1, 1], [2, 2, 2]]


def test_assignment_between_overlapping_parts():
    x = fl.arange(5)
    x[1:] = x[:-1].clone()
    y = fl.arange(5)
    y[1:] = y[:-1]
    assert x.tolist() == y.tolist() == [0, 0, 1, 2, 3]


def test_augmented_assignment_writes_back():
    x = fl.zeros(3)
    x[[0, 2]] += 1
    x[1] -= 1
    assert x.tolist() == [1, -1, 1]


def test_assigning_into_a_leaf_that_requires_grad_fails():
    x = fl.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x[0] = 1.0
    with fl.no_grad():
        x[0] = 1.0
    assert x[0].item() == 1


def test_a_later_write_to_the_index_is_noticed():
    x, i = fl.zeros(3, requires_grad=True), fl.tensor([0])
    y = x[i]
    i.add_(1)
    with pytest.raises(RuntimeError, match="index"):
        y.sum().backward()


def test_history_of_views_has_torchs_names():
    x = fl.zeros(2, 3, requires_grad=True)
    assert [type(y.grad_fn).__name__ for y in (x[0], x[:, 1:], x[None], x[[0]])] == [
        "SelectBackward0",
        "SliceBackward0",
        "UnsqueezeBackward0",
        "IndexBackward0",
    ]


def test_iteration_and_unpacking():
    a, b = tensor()[:2]
    assert (a.sum() + b.sum()).item() == sum(range(40))


ERRORS = [
    (3, IndexError, r"3 is out of range for dim 0 of size 3 \(shape \(3, 4, 5\)\)"),
    ((0, -5), IndexError, "-5 .*dim 1 of size 4"),
    ((0, 0, 0, 0), IndexError, "4 indices for a tensor of 3 dims"),
    (long(3), IndexError, "index 3 .*dim 0 of size 3"),
    ((slice(None), long(0, 9)), IndexError, "index 9 .element 1 .*dim 1 of size 4"),
    ((long(0, 1), long(0, 1, 2)), IndexError, r"shapes \(2,\), \(3,\)"),
    (fl.tensor([True, False]), IndexError, r"\(2,\) at dim 0 of \(3, 4, 5\)"),
    (1.5, IndexError, "got float"),
    ({}, IndexError, "got dict"),
    ("a", TypeError, "got str"),
    (fl.tensor([1.5]), IndexError, "got float32"),
    (slice(None, None, -1), ValueError, "positive, got -1"),
    (slice("a"), TypeError, "indices|index"),
    (2**70, ValueError, "64 bits"),
]


@pytest.mark.parametrize("key, kind, text", ERRORS, ids=lambda v: name(v))
def test_errors_name_index_and_sizes(key, kind, text):
    with pytest.raises(kind, match=text):
        tensor()[key]
    x = tensor()
    with pytest.raises(kind, match=text):
        x[key] = 1.0
    assert np.array_equal(x.numpy(), array()), "nothing may be written before the error"


@pytest.mark.parametrize("value", ["a", None, [1, 2], object()])
def test_only_tensors_and_numbers_can_be_assigned(value):
    with pytest.raises(TypeError, match="assigned"):
        tensor()[0] = value


def test_values_must_broadcast():
    with pytest.raises(RuntimeError, match=r"\(2, 3, 4\).*\(4, 5\)"):
        tensor()[0] = fl.ones(2, 3, 4)
    with pytest.raises(RuntimeError, match=r"\(3,\).*\(2, 4, 5\)"):
        tensor()[[0, 1]] = fl.ones(3)
    with pytest.raises(RuntimeError, match="1.0j"):
        tensor()[0] = 1j


def test_elements_cannot_be_deleted():
    with pytest.raises(TypeError, match="deleted"):
        del tensor()[0]


def test_zero_dim_tensors():
    x = fl.tensor(5.0)
    assert x[()].item() == x[...].item() == 5
    assert x[None].shape == (1,) and x[True].shape == (1,) and x[False].shape == (0,)
    for key in (0, slice(None)):
        with pytest.raises(IndexError):
            x[key]
    x[x > 3] = 1
    assert x.item() == 1


def test_meta_tensors_have_the_right_shapes():
    x = fl.zeros(3, 4, device="meta")
    assert x[0].shape == (4,) and x[:, 1:3].shape == (3, 2)
    assert x[fl.zeros(2, dtype=fl.int64, device="meta")].shape == (2, 4)
    with pytest.raises(NotImplementedError, match="meta"):
        x[x > 0]


def test_index_without_values_needs_a_tensor_without_values():
    one, nowhere = fl.tensor(1), fl.tensor(1, device="meta")
    x = fl.zeros(2, 3)
    for indices in ([nowhere], [one, nowhere], [None, nowhere]):
        with pytest.raises(RuntimeError, match="indices must be on"):
            fl.index(x, indices)
        with pytest.raises(RuntimeError, match="indices must be on"):
            x.index_put_(indices, fl.tensor(1.0))


class Marked(fl.Tensor):
    pass


def test_subclasses_stay():
    x = fl.arange(4.0).as_subclass(Marked)
    assert type(x[0]) is type(x[:2]) is type(x[[0, 1]]) is Marked


def test_nonzero_as_tuple():
    x = fl.tensor([[0, 1], [2, 0]])
    assert [t.tolist() for t in x.nonzero(as_tuple=True)] == [[0, 1], [1, 0]]
    assert [t.tolist() for t in fl.where(x)] == [[0, 1], [1, 0]]
    assert fl.nonzero(x).tolist() == [[0, 1], [1, 0]]


def test_unique_returns_what_was_asked_for():
    x = fl.tensor([3, 1, 3])
    assert fl.unique(x).tolist() == x.unique().tolist() == [1, 3]
    values, inverse, counts = fl.unique(x, return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 3], [1, 0, 1], [1, 2])
    rows = fl.tensor([[1, 2], [0, 5], [1, 2]])
    assert fl.unique(rows, dim=0).tolist() == [[0, 5], [1, 2]]
