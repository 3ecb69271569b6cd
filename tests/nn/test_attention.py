"""Multi-head attention against the plain formula; masks; the Transformer's parts."""

import math

import pytest

import flambeau as fl
from flambeau import nn


def attend(m, q, k, v, mask=None):
    """The formula, one head after the other: inputs (length, E), `mask` to add."""
    e, d = m.embed_dim, m.head_dim
    rows = [m.in_proj_weight[i * e : (i + 1) * e] for i in range(3)]
    bias = [m.in_proj_bias[i * e : (i + 1) * e] for i in range(3)]
    q, k, v = (x @ w.T + b for x, w, b in zip((q, k, v), rows, bias))
    heads, weights = [], []
    for h in range(m.num_heads):
        part = slice(h * d, (h + 1) * d)
        scores = q[:, part] @ k[:, part].T / math.sqrt(d)
        w = (scores if mask is None else scores + mask).softmax(-1)
        heads.append(w @ v[:, part])
        weights.append(w)
    return m.out_proj(fl.cat(heads, dim=1)), sum(weights) / m.num_heads


@pytest.fixture
def attention():
    m = nn.MultiheadAttention(4, 2)
    with fl.no_grad():
        m.in_proj_bias.normal_()
        m.out_proj.bias.normal_()
    return m


def apart(a, b):
    return (a - b).abs().max().item()


@pytest.mark.parametrize("need_weights", [True, False])
def test_matches_the_formula(attention, need_weights):
    q, k, v = fl.randn(3, 4), fl.randn(5, 4), fl.randn(5, 4)
    out, weights = attention(q, k, v, need_weights=need_weights)
    expected, expected_weights = attend(attention, q, k, v)
    assert apart(out, expected) < 1e-5
    if need_weights:
        assert apart(weights, expected_weights) < 1e-5
    else:
        assert weights is None


@pytest.mark.parametrize("need_weights", [True, False])
def test_masks(attention, need_weights):
    x = fl.randn(3, 2, 4)
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    padding = fl.tensor([[False, False, True], [False, False, False]])
    out = attention(x, x, x, attn_mask=causal, key_padding_mask=padding, need_weights=need_weights)[
        0
    ]
    for n in range(2):
        hidden = fl.tensor([[0.0, 0.0, -math.inf]]) if n == 0 else 0
        expected = attend(attention, x[:, n], x[:, n], x[:, n], causal + hidden)[0]
        assert apart(out[:, n], expected) < 1e-5
    as_bool = attention(x, x, x, attn_mask=causal != 0, need_weights=need_weights)[0]
    as_float = attention(x, x, x, attn_mask=causal, need_weights=need_weights)[0]
    hinted = attention(x, x, x, attn_mask=causal, need_weights=need_weights, is_causal=True)[0]
    assert apart(as_bool, as_float) < 1e-6 and apart(hinted, as_float) < 1e-5


def test_layouts_and_other_sizes():
    m = nn.MultiheadAttention(4, 2, kdim=3, vdim=5, batch_first=True, add_bias_kv=True)
    out, w = m(fl.randn(2, 6, 4), fl.randn(2, 7, 3), fl.randn(2, 7, 5), average_attn_weights=False)
    assert out.shape == (2, 6, 4) and w.shape == (2, 2, 6, 8)
    assert apart(w.sum(-1), fl.ones(2, 2, 6)) < 1e-5
    zero = nn.MultiheadAttention(4, 2, add_zero_attn=True)
    assert zero(*[fl.randn(3, 4)] * 3)[1].shape == (3, 4)


def test_errors(attention):
    x = fl.zeros(3, 2, 4)
    with pytest.raises(RuntimeError):
        attention(x, x, x, attn_mask=fl.zeros(2, 3))
    with pytest.raises(AssertionError):
        attention(x, x[0], x)
    with pytest.raises(RuntimeError, match="is_causal"):
        attention(x, x, x, is_causal=True)
    with pytest.raises(AssertionError):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(ValueError):
        nn.MultiheadAttention(0, 1)


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer_is_its_parts(norm_first):
    m = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, norm_first=norm_first)
    x = fl.randn(3, 2, 4)

    def net(y):
        return m.linear2(m.linear1(y).relu())

    if norm_first:
        y = m.norm1(x)
        h = x + m.self_attn(y, y, y)[0]
        expected = h + net(m.norm2(h))
    else:
        h = m.norm1(x + m.self_attn(x, x, x)[0])
        expected = m.norm2(h + net(h))
    assert apart(m(x), expected) < 1e-5


def test_causal_encoder_does_not_look_ahead():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), 2)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    x = fl.randn(4, 1, 4)
    changed = x.clone()
    changed[3] += 1
    a, b = encoder(x, mask=mask), encoder(changed, mask=mask)
    assert apart(a[:3], b[:3]) == 0 and apart(a[3], b[3]) > 1e-4
    assert apart(encoder(x, mask=mask, is_causal=True), a) < 1e-5


def test_transformer_trains_end_to_end():
    m = nn.Transformer(4, 2, 1, 1, 8, batch_first=True)
    src, tgt = fl.randn(2, 5, 4), fl.randn(2, 3, 4)
    out = m(src, tgt, tgt_mask=m.generate_square_subsequent_mask(3))
    assert out.shape == (2, 3, 4)
    out.square().sum().backward()
    assert all(p.grad is not None for p in m.parameters())
    with pytest.raises(RuntimeError, match="features"):
        m(src, fl.zeros(2, 3, 5))
    with pytest.raises(RuntimeError, match="batch"):
        m(src, fl.zeros(3, 3, 4))
    with pytest.raises(RuntimeError, match="some"):
        nn.TransformerEncoderLayer(4, 2, activation="some")
