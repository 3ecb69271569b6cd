"""Masked reductions and normalisations against loops over the selected elements."""

import math

import pytest

import flambeau as torch
from flambeau import masked

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], dtype=torch.float64)
MASK = torch.tensor([[True, False, True], [True, True, False]])
KEPT = [[1.0, 3.0], [0.5, 4.0]]


@pytest.mark.parametrize(
    "name, f",
    [
        ("sum", sum),
        ("prod", math.prod),
        ("amax", max),
        ("amin", min),
        ("mean", lambda r: sum(r) / len(r)),
        ("logsumexp", lambda r: math.log(sum(map(math.exp, r)))),
        ("norm", lambda r: math.sqrt(sum(x * x for x in r))),
        ("var", lambda r: (r[0] - r[1]) ** 2 / 2),
        ("std", lambda r: abs(r[0] - r[1]) / math.sqrt(2)),
        ("median", min),
    ],
)
def test_reductions(name, f):
    got = getattr(masked, name)(X, dim=1, mask=MASK)
    assert got.tolist() == pytest.approx([f(r) for r in KEPT])
    if name != "median":
        whole = getattr(masked, name)(X, mask=MASK)
        assert whole.shape == () and getattr(masked, name)(X, dim=1, keepdim=True).shape == (2, 1)


def test_arguments_of_extremes():
    assert masked.argmax(X, 1, mask=MASK).tolist() == [2, 1]
    assert masked.argmin(X, 1, mask=MASK).tolist() == [0, 0]


def test_softmax_gives_nothing_to_what_is_left_out():
    p = masked.softmax(X, 1, mask=MASK)
    share = math.exp(1) / (math.exp(1) + math.exp(3))
    assert p[0].tolist() == pytest.approx([share, 0, 1 - share])
    q = masked.softmin(X, 1, mask=MASK)
    assert q[0].tolist() == pytest.approx([1 - share, 0, share])
    assert masked.log_softmax(X, 1, mask=MASK)[0, 0].item() == pytest.approx(math.log(share))


def test_running_and_normalised():
    assert masked.cumsum(X, 1, mask=MASK).tolist() == [[1, 1, 4], [0.5, 4.5, 4.5]]
    assert masked.cumprod(X, 1, mask=MASK).tolist() == [[1, 1, 3], [0.5, 2, 2]]
    assert masked.normalize(X, 1, 1, mask=MASK)[0].tolist() == pytest.approx([0.25, 0, 0.75])
    both = masked.logaddexp(X[0], X[1], input_mask=MASK[0])
    assert both[1].item() == 4.0


def test_gradients_pass_through_the_selected_only():
    x = X.clone().requires_grad_()
    masked.sum(x * x, mask=MASK).backward()
    assert x.grad.tolist() == [[2, 0, 6], [1, 8, 0]]


def test_integers():
    whole = torch.tensor([3, 1, 2], dtype=torch.int32)
    keep = torch.tensor([False, True, True])
    assert masked.sum(whole, mask=keep).dtype == torch.int64
    assert masked.amax(whole, mask=keep).item() == 2
    with pytest.raises(ValueError, match="integers have no value"):
        masked.median(whole, mask=keep)
    with pytest.raises(RuntimeError, match="each dim once"):
        masked.sum(X, (0, 0))
