"""Attention by functions of positions; masks in blocks; DataParallel's pieces; nn.grad."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn import parallel
from flambeau.nn.attention import SDPBackend, sdpa_kernel
from flambeau.nn.attention import flex_attention as flex
from flambeau.nn.attention.bias import causal_lower_right, causal_upper_left
from flambeau.nn.attention.varlen import varlen_attn


def causal(b, h, q, kv):
    return q >= kv


def apart(a, b):
    return (a - b).abs().max().item()


@pytest.fixture
def qkv():
    return [fl.randn(2, 2, 6, 4) for _ in range(3)]


def test_flex_attention_is_attention_with_a_mask_and_a_bias(qkv):
    mask = flex.create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=2)
    assert (
        apart(
            flex.flex_attention(*qkv, block_mask=mask),
            F.scaled_dot_product_attention(*qkv, is_causal=True),
        )
        < 1e-5
    )
    slopes = fl.tensor([0.5, 0.25])
    out = flex.flex_attention(*qkv, score_mod=lambda s, b, h, q, kv: s + slopes[h] * (kv - q))
    distance = fl.arange(6) - fl.arange(6).reshape(6, 1)
    bias = slopes.reshape(1, 2, 1, 1) * distance
    assert apart(out, F.scaled_dot_product_attention(*qkv, attn_mask=bias)) < 1e-5
    with pytest.raises(ValueError, match="heads"):
        flex.flex_attention(qkv[0], qkv[1][:, :1], qkv[2][:, :1])


def test_hidden_rows_give_zeros_and_lse_is_minus_infinity(qkv):
    mask = flex.create_block_mask(lambda b, h, q, kv: q > 3, None, None, 6, 6)
    out, aux = flex.flex_attention(*qkv, block_mask=mask, return_aux=flex.AuxRequest(lse=True))
    assert out[:, :, :4].abs().max().item() == 0 and aux.lse[0, 0, 0].item() == float("-inf")


def test_block_mask_counts_partial_and_full_blocks():
    mask = flex.create_block_mask(causal, 1, 1, 6, 6, BLOCK_SIZE=2)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 2]]]
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert mask.q_num_blocks.tolist() == [[[1, 1, 1]]] and mask.shape == (1, 1, 6, 6)
    assert mask.sparsity() == pytest.approx(100 / 3)
    either = flex.or_masks(causal, lambda b, h, q, kv: kv == 5)
    both = flex.and_masks(either, lambda b, h, q, kv: q < 2)
    expected = [[1, 0, 0, 0, 0, 1], [1, 1, 0, 0, 0, 1]] + [[0] * 6] * 4
    assert flex.create_mask(both, None, None, 6, 6)[0, 0].int().tolist() == expected


def test_causal_biases_and_kernel_choice(qkv):
    assert causal_upper_left(2, 3).int().tolist() == [[1, 0, 0], [1, 1, 0]]
    assert causal_lower_right(2, 3).int().tolist() == [[1, 1, 0], [1, 1, 1]]
    with sdpa_kernel([SDPBackend.MATH]):
        out = F.scaled_dot_product_attention(*qkv)
    assert apart(out, F.scaled_dot_product_attention(*qkv)) < 1e-5


def test_attention_over_sequences_laid_end_to_end():
    q, k, v = (fl.randn(7, 2, 4) for _ in range(3))
    starts = fl.tensor([0, 3, 7], dtype=fl.int32)
    out = varlen_attn(q, k, v, starts, starts, 4, 4, window_size=(-1, 0))
    for part in (slice(0, 3), slice(3, 7)):
        one = [t[part].transpose(0, 1) for t in (q, k, v)]
        alone = F.scaled_dot_product_attention(*one, is_causal=True).transpose(0, 1)
        assert apart(out[part], alone) < 1e-5


def test_gradients_of_convolutions():
    x, w = fl.randn(2, 4, 5, 5, requires_grad=True), fl.randn(6, 2, 3, 3, requires_grad=True)
    y = F.conv2d(x, w, None, 2, 1, 1, 2)
    g = fl.randn(y.shape)
    dx, dw = fl.autograd.grad(y, (x, w), g)
    x, w = x.detach(), w.detach()
    assert apart(nn.grad.conv2d_input(x.shape, w, g, 2, 1, 1, 2), dx) < 1e-4
    assert apart(nn.grad.conv2d_weight(x, w.shape, g, 2, 1, 1, 2), dw) < 1e-4


def test_replicas_share_gradients_with_the_original():
    m = nn.Linear(2, 1, bias=False)
    parts = parallel.scatter((fl.ones(4, 2), "kept"), ["cpu", "cpu"])
    assert [p[1] for p in parts] == ["kept", "kept"]
    copies = parallel.replicate(m, ["cpu", "cpu"])
    outputs = parallel.parallel_apply(copies, [p[:1] for p in parts])
    parallel.gather(outputs, "cpu").sum().backward()
    assert m.weight.grad.tolist() == [[4.0, 4.0]]


def test_data_parallel_without_a_gpu_calls_the_module():
    m = nn.Linear(2, 1)
    wrapped = nn.DataParallel(m)
    if not wrapped.device_ids:
        assert wrapped(fl.ones(3, 2)).tolist() == m(fl.ones(3, 2)).tolist()
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
