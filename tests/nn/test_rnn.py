"""Recurrent layers: one step by hand, layers against cells, packed against padded."""

import math

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import rnn


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def scalar(cell):
    """The cell's four parameters as lists of numbers."""
    return [p.detach().reshape(-1).tolist() for p in cell.parameters()]


def test_cells_by_hand():
    x, h, c = 0.7, -0.3, 0.4
    X, H, C = (fl.tensor([[v]]) for v in (x, h, c))
    cell = nn.RNNCell(1, 1)
    (wi,), (wh,), (bi,), (bh,) = scalar(cell)
    assert cell(X, H).item() == pytest.approx(math.tanh(wi * x + bi + wh * h + bh), rel=1e-5)

    cell = nn.LSTMCell(1, 1)
    wi, wh, bi, bh = scalar(cell)
    i, f, g, o = (wi[k] * x + bi[k] + wh[k] * h + bh[k] for k in range(4))
    c_new = sigmoid(f) * c + sigmoid(i) * math.tanh(g)
    got_h, got_c = cell(X, (H, C))
    assert got_c.item() == pytest.approx(c_new, rel=1e-5)
    assert got_h.item() == pytest.approx(sigmoid(o) * math.tanh(c_new), rel=1e-5)

    cell = nn.GRUCell(1, 1)
    wi, wh, bi, bh = scalar(cell)
    r = sigmoid(wi[0] * x + bi[0] + wh[0] * h + bh[0])
    z = sigmoid(wi[1] * x + bi[1] + wh[1] * h + bh[1])
    n = math.tanh(wi[2] * x + bi[2] + r * (wh[2] * h + bh[2]))
    assert cell(X, H).item() == pytest.approx((1 - z) * n + z * h, rel=1e-5)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_layer_is_a_loop_over_its_cell(name):
    layer, cell = getattr(nn, name)(3, 4), getattr(nn, name + "Cell")(3, 4)
    cell.load_state_dict({k[:-3]: v for k, v in layer.state_dict().items()})
    x = fl.randn(5, 2, 3)
    out, last = layer(x)
    state = None
    for t in range(5):
        state = cell(x[t], state)
        h = state[0] if name == "LSTM" else state
        assert (out[t] - h).abs().max().item() < 1e-6
    h = last[0] if name == "LSTM" else last
    assert (h[0] - out[4]).abs().max().item() < 1e-6


KINDS = [("LSTM", {}), ("GRU", {}), ("RNN", {}), ("RNN", {"nonlinearity": "relu"})]


def layer_and_cell(name, inputs, hidden, dtype, **options):
    layer = getattr(nn, name)(inputs, hidden, **options).to(dtype)
    cell = getattr(nn, name + "Cell")(inputs, hidden, **options).to(dtype)
    cell.load_state_dict({k[:-3]: v for k, v in layer.state_dict().items()})
    return layer, cell


def assert_equal_grads(one, other):
    for p, q in zip(one.parameters(), other.parameters()):
        assert fl.allclose(p.grad, q.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch, hidden", [(1, 33), (15, 70), (40, 16)])
@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
@pytest.mark.parametrize("name, options", KINDS)
def test_many_units_equal_their_cell_in_both_passes(name, options, batch, hidden, dtype):
    layer, cell = layer_and_cell(name, 3, hidden, dtype, **options)
    x, state, steps = fl.randn(5, batch, 3).to(dtype), None, []
    out, last = layer(x)
    for t in range(5):
        state = cell(x[t], state)
        steps.append(state[0] if name == "LSTM" else state)
    expected = fl.stack(steps)
    assert (out - expected).abs().max().item() < 1e-6
    weights = fl.randn(5, batch, hidden).to(dtype)
    end, expected_end = (last[1], state[1]) if name == "LSTM" else (last, state)
    ((out * weights).sum() + end.sum()).backward()
    ((expected * weights).sum() + expected_end.sum()).backward()
    assert_equal_grads(layer, cell)


@pytest.mark.parametrize("name, options", [*KINDS, ("LSTM", {"proj_size": 7})])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_packed_batch_has_the_gradients_of_its_sequences(name, options, bidirectional):
    fl.manual_seed(2)
    m = getattr(nn, name)(5, 40, num_layers=2, bidirectional=bidirectional, **options).double()
    other = getattr(nn, name)(5, 40, num_layers=2, bidirectional=bidirectional, **options).double()
    other.load_state_dict(m.state_dict())
    sequences = [fl.randn(n, 5, dtype=fl.float64) for n in (9, 7, 7, 6, 5, 5, 2, 1)]
    packed, last = m(rnn.pack_sequence(sequences))
    padded = rnn.pad_packed_sequence(packed)[0]
    alone = [other(s) for s in sequences]
    for i, s in enumerate(sequences):
        assert fl.allclose(padded[: len(s), i], alone[i][0])
    weights = fl.cos(fl.arange(float(padded.size(-1))))
    ends = last if name == "LSTM" else (last,)
    ((padded**2 * weights).sum() + sum((e**2).sum() for e in ends)).backward()
    for out, end in alone:
        ends = end if name == "LSTM" else (end,)
        ((out**2 * weights).sum() + sum((e**2).sum() for e in ends)).backward()
    assert_equal_grads(m, other)


@pytest.mark.parametrize("name, options", KINDS)
def test_gradients_reach_what_requires_them_and_nothing_else(name, options):
    layer, _ = layer_and_cell(name, 3, 4, fl.float32, **options)
    layer.requires_grad_(False)
    x, h = fl.randn(5, 2, 3), fl.zeros(1, 2, 4, requires_grad=True)
    start = (h, fl.zeros(1, 2, 4)) if name == "LSTM" else h
    layer(x, start)[0].sum().backward()
    assert h.grad.abs().sum().item() > 0 and x.grad is None
    assert all(p.grad is None for p in layer.parameters())
    with fl.no_grad():
        assert not layer(x, start)[0].requires_grad


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
@pytest.mark.parametrize("name, options", KINDS)
def test_half_types_compute_in_float32(name, options, dtype):
    layer, _ = layer_and_cell(name, 3, 40, dtype, **options)
    wide, _ = layer_and_cell(name, 3, 40, fl.float32, **options)
    wide.load_state_dict(layer.state_dict())
    x = fl.randn(20, 4, 3).to(dtype)
    out, last = layer(x)
    expected, _ = wide(x.float())
    assert out.dtype is dtype and (last[0] if name == "LSTM" else last).dtype is dtype
    assert fl.equal(out, expected.to(dtype))  # rounded once, after all steps
    out.sum().backward()
    assert all(p.grad.dtype is dtype for p in layer.parameters())


def test_layers_know_their_shapes_without_values():
    m = nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2, device="meta")
    out, (h, c) = m(fl.empty(7, 4, 3, device="meta"))
    assert (out.shape, h.shape, c.shape) == ((7, 4, 4), (4, 4, 2), (4, 4, 5))
    out.sum().backward()
    assert m.weight_hr_l0.grad.shape == (2, 5)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_shapes_of_layers_directions_and_missing_batch(name):
    m = getattr(nn, name)(3, 4, num_layers=2, batch_first=True, bidirectional=True)
    out, h = m(fl.zeros(5, 7, 3))
    h = h[0] if name == "LSTM" else h
    assert out.shape == (5, 7, 8) and h.shape == (4, 5, 4)
    out, h = m(fl.zeros(7, 3))
    h = h[0] if name == "LSTM" else h
    assert out.shape == (7, 8) and h.shape == (4, 4)
    assert list(m._parameters)[4:8] == [
        f"{kind}_l0_reverse" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]


def test_backward_direction_is_the_forward_one_on_reversed_input():
    m = nn.GRU(2, 3, bidirectional=True)
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(m, kind + "_l0_reverse", getattr(m, kind + "_l0"))
    x = fl.randn(4, 1, 2)
    out, flipped = m(x)[0], m(x.flip(0))[0]
    assert (out[..., 3:].flip(0) - flipped[..., :3]).abs().max().item() < 1e-6


def test_projection():
    m = nn.LSTM(2, 5, proj_size=3)
    out, (h, c) = m(fl.zeros(4, 1, 2))
    assert out.shape == (4, 1, 3) and h.shape == (1, 1, 3) and c.shape == (1, 1, 5)
    assert m.weight_hr_l0.shape == (3, 5)
    with pytest.raises(ValueError, match="proj_size"):
        nn.LSTM(2, 3, proj_size=3)
    with pytest.raises(ValueError, match="proj_size"):
        nn.GRU(2, 3, proj_size=1)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_packed_batch_equals_each_sequence_alone(name):
    m = getattr(nn, name)(2, 3)
    sequences = [fl.randn(n, 2) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    out, last = m(packed)
    padded, lengths = rnn.pad_packed_sequence(out)
    assert lengths.tolist() == [2, 4, 1]
    h = last[0] if name == "LSTM" else last
    for i, s in enumerate(sequences):
        alone = m(s)[0]
        assert (padded[: len(s), i] - alone).abs().max().item() < 1e-6
        assert (h[0, i] - alone[-1]).abs().max().item() < 1e-6


def test_training_through_time_reaches_all_parameters():
    m = nn.LSTM(2, 3, num_layers=2, dropout=0.5)
    m(fl.randn(6, 4, 2))[0].sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum().item() > 0 for p in m.parameters())


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: nn.LSTM(2, 0), ValueError),
        (lambda: nn.LSTM(2, 3, 0), ValueError),
        (lambda: nn.LSTM(2.0, 3), TypeError),
        (lambda: nn.LSTM(2, 3, dropout=2.0), ValueError),
        (lambda: nn.RNN(2, 3, nonlinearity="some"), ValueError),
        (lambda: nn.LSTM(2, 3)(fl.zeros(4, 1, 3)), RuntimeError),
        (lambda: nn.LSTM(2, 3)(fl.zeros(2)), ValueError),
        (lambda: nn.GRU(2, 3)(fl.zeros(4, 1, 2), fl.zeros(1, 1, 2)), RuntimeError),
        (lambda: nn.GRU(2, 3)(fl.zeros(4, 1, 2, dtype=fl.float64)), ValueError),
        (lambda: nn.GRUCell(2, 3)(fl.zeros(1, 1, 2)), ValueError),
    ],
)
def test_errors(make, error):
    with pytest.raises(error):
        make()


def test_padding_and_packing():
    a, b = fl.tensor([1.0, 2.0, 3.0]), fl.tensor([4.0])
    assert rnn.pad_sequence([a, b]).tolist() == [[1, 4], [2, 0], [3, 0]]
    assert rnn.pad_sequence([b, a], True, -1.0, "left").tolist() == [[-1, -1, 4], [1, 2, 3]]
    packed = rnn.pack_padded_sequence(fl.tensor([[1.0, 4.0], [2.0, 0.0], [3.0, 0.0]]), [3, 1])
    assert packed.data.tolist() == [1, 4, 2, 3] and packed.batch_sizes.tolist() == [2, 1, 1]
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, total_length=4)
    assert padded.tolist() == [[1, 2, 3, 0], [4, 0, 0, 0]] and lengths.tolist() == [3, 1]
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [[1, 2, 3], [4]]
    assert rnn.invert_permutation(fl.tensor([2, 0, 1])).tolist() == [1, 2, 0]
    assert packed.to(fl.float64).data.dtype == fl.float64
    with pytest.raises(ValueError, match="total_length"):
        rnn.pad_packed_sequence(packed, total_length=2)


@pytest.mark.parametrize("layers", [0, -1, 2**62, 2**63 - 1])
def test_a_number_of_layers_that_the_weights_do_not_give_is_refused(layers):
    weights = [fl.ones(2, 2), fl.ones(2, 2), fl.ones(2), fl.ones(2)]
    x, h = fl.ones(1, 1, 2), fl.ones(1, 1, 2)
    with pytest.raises(RuntimeError, match="rnn_tanh: "):
        fl.rnn_tanh(x, h, weights, True, layers, 0.0, False, False, False)
