"""Losses against their formulas in plain Python; reductions; errors."""

import math

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

X = [0.5, -1.0, 2.0, 0.3]
T = [1.0, 0.0, 1.0, 0.0]
S = [1.0, -1.0, 1.0, -1.0]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


ELEMENTWISE = [
    (nn.MSELoss, {}, X, T, lambda x, t: (x - t) ** 2),
    (nn.L1Loss, {}, X, T, lambda x, t: abs(x - t)),
    (nn.SmoothL1Loss, {"beta": 0.5}, X, T, lambda x, t: smooth(abs(x - t), 0.5)),
    (nn.SmoothL1Loss, {"beta": 0.0}, X, T, lambda x, t: abs(x - t)),
    (nn.HuberLoss, {"delta": 0.6}, X, T, lambda x, t: huber(abs(x - t), 0.6)),
    (nn.BCEWithLogitsLoss, {}, X, T, lambda x, t: bce(sigmoid(x), t)),
    (nn.BCELoss, {}, [0.2, 0.9, 0.5, 0.7], T, lambda x, t: bce(x, t)),
    (nn.SoftMarginLoss, {}, X, S, lambda x, t: math.log1p(math.exp(-t * x))),
    (nn.HingeEmbeddingLoss, {"margin": 0.7}, X, S, lambda x, t: x if t == 1 else max(0, 0.7 - x)),
    (nn.PoissonNLLLoss, {}, X, T, lambda x, t: math.exp(x) - t * x),
    (nn.KLDivLoss, {"log_target": True}, X, T, lambda x, t: math.exp(t) * (t - x)),
]


def smooth(d, beta):
    return d * d / (2 * beta) if d < beta else d - beta / 2


def huber(d, delta):
    return d * d / 2 if d < delta else delta * (d - delta / 2)


def bce(p, t):
    return -(t * math.log(p) + (1 - t) * math.log(1 - p))


@pytest.mark.parametrize("kind, options, x, t, formula", ELEMENTWISE)
def test_elementwise_loss(kind, options, x, t, formula):
    expected = [formula(a, b) for a, b in zip(x, t)]
    x, t = fl.tensor(x), fl.tensor(t)
    each = kind(reduction="none", **options)(x, t)
    assert each.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    total = kind(reduction="sum", **options)(x, t).item()
    assert total == pytest.approx(sum(expected), rel=1e-5)
    assert kind(**options)(x, t).item() == pytest.approx(sum(expected) / 4, rel=1e-5)


LOGITS = [[1.0, 2.0, 0.5], [0.1, -0.3, 0.7]]


def log_softmax(row):
    total = math.log(sum(math.exp(v) for v in row))
    return [v - total for v in row]


def test_cross_entropy_indices_weights_smoothing_and_ignored():
    x = fl.tensor(LOGITS)
    lp = [log_softmax(r) for r in LOGITS]
    assert nn.CrossEntropyLoss()(x, fl.tensor([1, 2])).item() == pytest.approx(
        -(lp[0][1] + lp[1][2]) / 2, rel=1e-5
    )
    weight = fl.tensor([1.0, 2.0, 4.0])
    assert F.cross_entropy(x, fl.tensor([1, 2]), weight).item() == pytest.approx(
        -(2 * lp[0][1] + 4 * lp[1][2]) / 6, rel=1e-5
    )
    assert F.cross_entropy(x, fl.tensor([1, -100])).item() == pytest.approx(-lp[0][1], rel=1e-5)
    assert F.cross_entropy(x, fl.tensor([0, 2]), ignore_index=0, reduction="none").tolist() == (
        pytest.approx([0.0, -lp[1][2]], rel=1e-5)
    )
    smoothed = F.cross_entropy(x, fl.tensor([1, 2]), label_smoothing=0.3, reduction="none")
    expected = [-0.7 * r[i] - 0.1 * sum(r) for r, i in zip(lp, (1, 2))]
    assert smoothed.tolist() == pytest.approx(expected, rel=1e-5)
    odds = fl.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    assert F.cross_entropy(x, odds, reduction="sum").item() == pytest.approx(
        -(0.2 * lp[0][0] + 0.3 * lp[0][1] + 0.5 * lp[0][2] + lp[1][0]), rel=1e-5
    )


def test_nll_of_log_softmax_is_cross_entropy():
    x = fl.randn(2, 3, 4)
    t = fl.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
    a = nn.NLLLoss()(x.log_softmax(1), t).item()
    assert a == pytest.approx(nn.CrossEntropyLoss()(x, t).item(), rel=1e-5)


def test_cross_entropy_gradient_is_probabilities_minus_target():
    x = fl.tensor(LOGITS, requires_grad=True)
    F.cross_entropy(x, fl.tensor([1, 2]), reduction="sum").backward()
    for row, target, grad in zip(LOGITS, (1, 2), x.grad.tolist()):
        expected = [math.exp(v) - (i == target) for i, v in enumerate(log_softmax(row))]
        assert grad == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_linear_cross_entropy_is_both_steps():
    m = nn.LinearCrossEntropyLoss(5, 4, bias=True)
    x, t = fl.randn(3, 5), fl.tensor([0, 3, 1])
    assert m(x, t).item() == pytest.approx(F.cross_entropy(m.linear(x), t).item(), rel=1e-6)
    wide = nn.LinearCrossEntropyLoss(5, 4, out_features=(2,), reduction="none")
    assert wide(x, fl.zeros(3, 2, dtype=fl.int64)).shape == (3, 2)


def test_margins():
    a, b = fl.tensor([0.2, 1.0]), fl.tensor([0.5, 0.1])
    ranking = nn.MarginRankingLoss(0.1, reduction="none")(a, b, fl.tensor([1.0, 1.0]))
    assert ranking.tolist() == pytest.approx([0.4, 0.0], abs=1e-6)
    x = fl.tensor([[0.1, 0.8, 0.4]])
    multi = F.multi_margin_loss(x, fl.tensor([1]), margin=0.5).item()
    assert multi == pytest.approx((max(0, 0.5 - 0.7) + max(0, 0.5 - 0.4)) / 3, abs=1e-6)
    several = F.multilabel_margin_loss(x, fl.tensor([[1, -1, 0]])).item()
    assert several == pytest.approx((1 - 0.7 + 1 - 0.4) / 3, abs=1e-6)
    cosine = F.cosine_embedding_loss(
        fl.tensor([[1.0, 0.0]] * 2),
        fl.tensor([[1.0, 1.0]] * 2),
        fl.tensor([1.0, -1.0]),
        margin=0.2,
        reduction="none",
    )
    c = math.sqrt(0.5)
    assert cosine.tolist() == pytest.approx([1 - c, c - 0.2], rel=1e-5)


def test_triplets():
    anchor, near, far = fl.tensor([[0.0, 0.0]]), fl.tensor([[3.0, 4.0]]), fl.tensor([[0.0, 2.0]])
    assert nn.TripletMarginLoss(0.5)(anchor, near, far).item() == pytest.approx(3.5, rel=1e-5)
    mine = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda x, y: (x - y).abs().sum(-1), margin=0.5
    )
    assert mine(anchor, near, far).item() == pytest.approx(5.5, rel=1e-6)
    with pytest.raises(ValueError, match="margin"):
        F.triplet_margin_loss(anchor, near, far, margin=0)


def test_gaussian_nll():
    x, t, var = fl.tensor([1.0, 2.0]), fl.tensor([0.5, 2.5]), fl.tensor([0.5, 0.0])
    got = nn.GaussianNLLLoss(eps=0.1, full=True, reduction="none")(x, t, var).tolist()
    half = 0.5 * math.log(2 * math.pi)
    expected = [0.5 * (math.log(v) + 0.25 / v) + half for v in (0.5, 0.1)]
    assert got == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(x, t, -var - 1)


def test_ctc_of_two_steps():
    # Two steps, classes (blank, a): "a" is aa, a-, -a.
    p = fl.tensor([[[0.6, 0.4]], [[0.3, 0.7]]])
    loss = F.ctc_loss(p.log(), fl.tensor([[1]]), [2], [1], reduction="sum").item()
    assert loss == pytest.approx(-math.log(0.4 * 0.7 + 0.4 * 0.3 + 0.6 * 0.7), rel=1e-5)


def test_weighted_elementwise_losses():
    x, t, w = fl.tensor([1.0, 3.0]), fl.tensor([0.0, 0.0]), fl.tensor([1.0, 3.0])
    assert F.mse_loss(x, t, weight=w).item() == pytest.approx((1 + 27) / 4)
    assert F.l1_loss(x, t, weight=w, reduction="none").tolist() == [1.0, 9.0]
    with pytest.raises(ValueError):
        F.mse_loss(x, t, weight=w[:1])


def test_reductions():
    x = fl.tensor([[0.1, 0.2], [0.3, 0.4]])
    batch = F.kl_div(x, x.exp(), reduction="batchmean").item()
    assert batch == pytest.approx(F.kl_div(x, x.exp(), reduction="sum").item() / 2, abs=1e-6)
    with pytest.raises(ValueError, match="some"):
        F.mse_loss(x, x, reduction="some")
    with pytest.warns(UserWarning):
        assert F.mse_loss(x, x + 1, size_average=False).item() == pytest.approx(4.0)
    with pytest.warns(UserWarning, match="size"):
        F.mse_loss(x, x[0])
    for loss in (F.binary_cross_entropy, F.binary_cross_entropy_with_logits):
        with pytest.raises(ValueError, match="size"):
            loss(x, x[0])
