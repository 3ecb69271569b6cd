"""flambeau._record: the ops of a call as text, and their replay on inputs of other sizes."""

import pytest

import flambeau as fl
from flambeau import nn


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    assert fl.equal(a, b)


def check(f, first, other):
    """The replay of f, recorded on `first`, is f on `other`."""
    recording = fl._record(f, *first)
    same(recording(*first), f(*first))
    same(recording(*other), f(*other))
    return str(recording)


def test_text():
    weight = fl.ones(4, 3)

    def f(x):
        y = nn.functional.linear(x, weight)
        y.relu_()
        return y.view(x.shape[0] * 2, -1)

    assert str(fl._record(f, fl.ones(2, 3))).splitlines() == [
        "input %0: float32[2, 3]",
        "constant %1: float32[4, 3]",
        "%2 = linear(%0, %1, None)",
        "%2 = relu_(%2)  # writes %2",
        "%3 = view(%2, [(size(%0, 0) * 2), -1])  # views %2",
        "return %3",
    ]


def net():
    fl.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(10)
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * 2 + 1,
        lambda x: x.reshape(x.shape[0] // 2, 2, -1).sum(1),
        lambda x: x[1:, -1] + x[: x.size(0) - 1, 0],
        lambda x: x[x.shape[0] - 1],
        lambda x: x[-1, ::2],
        lambda x: fl.cat([x, fl.zeros(x.shape[0], 1)], 1).mT,
        lambda x: x / x.numel() + x.shape[1] % 3,
        lambda x: fl.stack([x.sum(), x.max()]).expand(len(x.shape), 2),
        lambda x: fl.split(x, 2)[0].softmax(-1),
        lambda x: x.clone().index_put_((fl.tensor([0]),), fl.tensor(5.0)),
        lambda x: fl.arange(x.shape[1]) + x,
        lambda x: x.topk(2)[0],
        lambda x: (x.shape[1] - x) / x.shape[0] + x.shape[1] / (x + 9) + x.shape[1] ** (x / 9),
        lambda x: x.clone().mul_(x.shape[1]).add_(1, alpha=x.shape[1]),
        lambda x: fl.full((x.shape[1],), x.shape[1]) * 1.0,
        lambda x: x.narrow(1, 0, x.shape[1] - 1),
        lambda x: fl.einsum("ij,kj->ik", x, x),
    ],
)
def test_replay_on_other_sizes(f):
    fl.manual_seed(1)
    check(f, [fl.randn(4, 6)], [fl.randn(4, 8)])


def test_batch_size_of_a_net_is_free():
    model = net()
    model(fl.zeros(1, 1, 8, 8))
    text = check(lambda x: model(x), [fl.randn(2, 1, 8, 8)], [fl.randn(5, 1, 8, 8)])
    assert "conv2d" in text and "relu_" in text and "max_pool2d" in text


def test_operators_with_sizes():
    def f(x):
        n, y = x.shape[0], x.clone()
        y += n
        y *= n + 1
        return n - y, n / y, n // y, y > n, n > y, y**n, y // n, n % y

    recording = fl._record(f, fl.ones(3))
    for found, expected in zip(recording(fl.ones(5)), f(fl.ones(5))):
        same(found, expected)


def test_with_the_tape_and_without():
    w = fl.randn(3, 3, requires_grad=True)
    recording = fl._record(lambda x: ((x @ w).tanh() ** 2).sum(), fl.randn(2, 3))
    x = fl.randn(4, 3)
    expected = ((x @ w).tanh() ** 2).sum()
    (g,) = fl.autograd.grad(expected, w)
    found = recording(x)
    same(found, expected)
    same(fl.autograd.grad(found, w)[0], g)
    with fl.no_grad():
        assert not recording(x).requires_grad


def test_no_grad_parts_stay_so():
    def f(x):
        with fl.no_grad():
            scale = x.sum()
        return x * scale

    x = fl.ones(3, requires_grad=True)
    recording = fl._record(f, x)
    assert "# no grad" in str(recording)
    (g,) = fl.autograd.grad(recording(x).sum(), x)
    assert g.tolist() == [3.0, 3.0, 3.0]


def test_parameters_are_used_as_they_are_now():
    layer = nn.Linear(2, 1)
    recording = fl._record(layer, fl.ones(1, 2))
    with fl.no_grad():
        layer.weight.fill_(2)
        layer.bias.fill_(1)
    assert recording(fl.ones(1, 2)).tolist() == [[5.0]]


def test_containers_numbers_and_sizes():
    recording = fl._record(
        lambda d: {"sum": d["x"].sum(), "n": d["x"].shape[0], "k": 3}, {"x": fl.ones(2)}
    )
    found = recording({"x": fl.ones(5)})
    assert found["sum"].item() == 5 and found["n"] == 5 and found["k"] == 3
    with pytest.raises(TypeError, match="called with"):
        recording([fl.ones(5)])


def test_comparisons_of_sizes_are_conditions():
    def f(x):
        return x + 1 if x.shape[0] > 3 else x - 1

    recording = fl._record(f, fl.ones(5))
    assert "guard (3 < size(%0, 0)) is True" in str(recording)
    assert recording(fl.ones(4)).tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="whether 3 < 2; the answer was True"):
        recording(fl.ones(2))


def test_values_read_are_conditions():
    recording = fl._record(lambda x: x * x.sum().item(), fl.tensor([1.0, 2.0]))
    assert recording(fl.tensor([2.0, 1.0])).tolist() == [6.0, 3.0]
    with pytest.raises(RuntimeError, match="read a value"):
        recording(fl.tensor([2.0, 2.0]))


@pytest.mark.parametrize(
    "f, match",
    [
        (lambda x: fl.add(x, x, out=fl.empty(2)), "out= cannot be recorded"),
        (lambda x: (x * 1).data + 1, "no op made it"),
        (lambda x: fl.tensor((x * 2).tolist()), "tolist"),
        (lambda x: (x * 2).numpy(), "numpy"),
        (lambda x: (x * 2).sum().backward(), "backward"),
        (lambda x: fl._record(lambda y: y, x), "going on already"),
    ],
)
def test_what_cannot_be_recorded(f, match):
    x = fl.ones(2, requires_grad=match == "backward")
    with pytest.raises((NotImplementedError, RuntimeError), match=match):
        fl._record(f, x)
    assert fl._record(lambda x: x + 1, x)(x).tolist() == [2.0, 2.0]  # the failed one has ended
    assert type(x.shape[0]) is int
