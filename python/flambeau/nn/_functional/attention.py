"""Multi-head attention with separate or packed projections (Vaswani et al. 2017)."""

from __future__ import annotations

import math

import flambeau
from flambeau import _C, Tensor

_nn = _C._nn


def _none_or_dtype(input: Tensor | None) -> int | None:
    return None if input is None else input.dtype


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> list[Tensor]:
    """Projections of q, k, v by one weight (3E, E): one product where they are the same tensor."""
    size = q.size(-1)
    if k is v:
        if q is k:
            parts = _nn.linear(q, w, b).unflatten(-1, (3, size)).unsqueeze(0)
            parts = parts.transpose(0, -2).squeeze(-2).contiguous()
            return parts[0], parts[1], parts[2]
        w_q, w_kv = w.split([size, size * 2])
        b_q, b_kv = (None, None) if b is None else b.split([size, size * 2])
        parts = _nn.linear(k, w_kv, b_kv).unflatten(-1, (2, size)).unsqueeze(0)
        parts = parts.transpose(0, -2).squeeze(-2).contiguous()
        return _nn.linear(q, w_q, b_q), parts[0], parts[1]
    w_q, w_k, w_v = w.chunk(3)
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return _nn.linear(q, w_q, b_q), _nn.linear(k, w_k, b_k), _nn.linear(v, w_v, b_v)


def _in_projection(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Projections of q, k, v by a weight each."""
    eq, ek, ev = q.size(-1), k.size(-1), v.size(-1)
    for name, w, size in (("query", w_q, eq), ("key", w_k, ek), ("value", w_v, ev)):
        if tuple(w.shape) != (eq, size):
            raise AssertionError(
                f"multi_head_attention: {name} weight must have shape {(eq, size)}, "
                f"got {tuple(w.shape)}"
            )
    return _nn.linear(q, w_q, b_q), _nn.linear(k, w_k, b_k), _nn.linear(v, w_v, b_v)


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: int | None,
    other_name: str,
    target_type: int,
    check_other: bool = True,
) -> Tensor | None:
    """A boolean mask (True = leave out) as one to add: -inf where True."""
    if mask is None:
        return None
    if mask.dtype != flambeau.bool and not mask.is_floating_point():
        raise AssertionError(f"{mask_name} must be bool or floating, got {mask.dtype}")
    if check_other and other_type is not None and mask.dtype != other_type:
        import warnings

        warnings.warn(
            f"{mask_name} and {other_name} have different dtypes, which is deprecated",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    zeros = flambeau.zeros_like(mask, dtype=target_type)
    return zeros.masked_fill_(mask, float("-inf"))


def _mha_shape_check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Checks dimensions; returns whether there is a batch dimension."""
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(f"multi_head_attention: query must be 2D or 3D, got {dims}D")
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(
            f"multi_head_attention: key and value must be {dims}D like query, "
            f"got {key.dim()}D and {value.dim()}D"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != dims - 1:
        raise AssertionError(
            f"multi_head_attention: key_padding_mask must be {dims - 1}D, "
            f"got {key_padding_mask.dim()}D"
        )
    if attn_mask is None:
        return dims == 3
    if attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"multi_head_attention: attn_mask must be 2D or 3D, got {attn_mask.dim()}D"
        )
    if dims == 2 and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"multi_head_attention: attn_mask must have shape {expected}, "
                f"got {tuple(attn_mask.shape)}"
            )
    return dims == 3


def _check_sizes(query, key, value, embed_dim, expected_dim, num_heads, separate) -> int:
    if embed_dim != expected_dim:
        raise AssertionError(
            f"multi_head_attention: query must have {expected_dim} features, got {embed_dim}"
        )
    head_dim = embed_dim // num_heads
    if head_dim * num_heads != embed_dim:
        raise AssertionError(
            f"multi_head_attention: embed_dim {embed_dim} must be divisible by {num_heads} heads"
        )
    if separate:
        same = key.shape[:2] == value.shape[:2]
    else:
        same = key.shape == value.shape
    if not same:
        raise AssertionError(
            f"multi_head_attention: key and value must fit, got {tuple(key.shape)} "
            f"and {tuple(value.shape)}"
        )
    return head_dim


def _shape_attn_mask(attn_mask, batch, heads, length, source):
    if attn_mask is None:
        return None
    if attn_mask.dim() == 2:
        if tuple(attn_mask.shape) != (length, source):
            raise RuntimeError(
                f"multi_head_attention: 2D attn_mask must have shape {(length, source)}, "
                f"got {tuple(attn_mask.shape)}"
            )
        return attn_mask.unsqueeze(0)
    expected = (batch * heads, length, source)
    if tuple(attn_mask.shape) != expected:
        raise RuntimeError(
            f"multi_head_attention: 3D attn_mask must have shape {expected}, "
            f"got {tuple(attn_mask.shape)}"
        )
    return attn_mask


def _append(x, extra, dim):
    return x if x is None else flambeau.cat([x, extra], dim=dim)


def _pad_masks(attn_mask, key_padding_mask):
    """Room for one more key at the end of both masks."""
    attn_mask = None if attn_mask is None else _nn.pad(attn_mask, (0, 1))
    if key_padding_mask is not None:
        key_padding_mask = _nn.pad(key_padding_mask, (0, 1))
    return attn_mask, key_padding_mask


def _split_heads(x, static, batch_heads, head_dim, name):
    """(length, batch, E) -> (batch * heads, length, head_dim), or the given `static` one."""
    if static is None:
        return x.view(x.shape[0], batch_heads, head_dim).transpose(0, 1)
    if static.size(0) != batch_heads or static.size(2) != head_dim:
        raise AssertionError(
            f"multi_head_attention: {name} must have shape ({batch_heads}, *, {head_dim}), "
            f"got {tuple(static.shape)}"
        )
    return static


def _merge_masks(attn_mask, key_padding_mask, batch, heads, source):
    if key_padding_mask is None:
        return attn_mask
    if tuple(key_padding_mask.shape) != (batch, source):
        raise AssertionError(
            f"multi_head_attention: key_padding_mask must have shape {(batch, source)}, "
            f"got {tuple(key_padding_mask.shape)}"
        )
    padding = key_padding_mask.view(batch, 1, 1, source).expand(-1, heads, -1, -1)
    padding = padding.reshape(batch * heads, 1, source)
    return padding if attn_mask is None else attn_mask + padding


def _attend_with_weights(q, k, v, mask, dropout_p):
    """(outputs, weights) of (batch * heads, length, head_dim) queries, the weights kept."""
    q = q * math.sqrt(1.0 / float(q.shape[-1]))
    if mask is None:
        scores = flambeau.bmm(q, k.transpose(-2, -1))
    else:
        scores = flambeau.baddbmm(mask, q, k.transpose(-2, -1))
    weights = scores.softmax(dim=-1)
    if dropout_p > 0.0:
        weights = flambeau.dropout(weights, dropout_p, True)
    return flambeau.bmm(weights, v), weights


def _attend_fused(q, k, v, mask, dropout_p, is_causal, batch, heads):
    """Outputs alone, (batch, heads, length, head_dim)."""
    if mask is not None:
        if mask.size(0) == 1 and mask.dim() == 3:
            mask = mask.unsqueeze(0)
        else:
            mask = mask.view(batch, heads, -1, k.size(1))
    shape = (batch, heads, -1, q.size(2))
    return _nn.scaled_dot_product_attention(
        q.view(shape), k.view(shape), v.view(shape), mask, dropout_p, is_causal
    )


def _project(query, key, value, weights, bias, separate):
    in_proj, q_w, k_w, v_w = weights
    if not separate:
        if in_proj is None:
            raise AssertionError("multi_head_attention: in_proj_weight must be given")
        return _in_projection_packed(query, key, value, in_proj, bias)
    for name, w in (("q", q_w), ("k", k_w), ("v", v_w)):
        if w is None:
            raise AssertionError(f"multi_head_attention: {name}_proj_weight must be given")
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return _in_projection(query, key, value, q_w, k_w, v_w, *biases)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of (L, N, E) queries over (S, N, E) keys and values -> (output, weights or None).

    Weights are (N, L, S), averaged over heads, or (N, heads, L, S). No batch: N is left out.
    """
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, embed_dim = query.shape
    source = key.shape[0]
    key_padding_mask = _canonical_mask(
        key_padding_mask,
        "key_padding_mask",
        _none_or_dtype(attn_mask),
        "attn_mask",
        query.dtype,
    )
    if is_causal and attn_mask is None:
        raise RuntimeError("multi_head_attention: is_causal is a hint about attn_mask, give both")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the fused kernel makes the same mask itself
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        is_causal = is_causal and key_padding_mask is None and attn_mask is None
    head_dim = _check_sizes(
        query, key, value, embed_dim, embed_dim_to_check, num_heads, use_separate_proj_weight
    )
    weights = (in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = _project(query, key, value, weights, in_proj_bias, use_separate_proj_weight)
    attn_mask = _shape_attn_mask(attn_mask, batch, num_heads, length, source)

    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("multi_head_attention: bias_k cannot go with static keys")
        k = _append(k, bias_k.repeat(1, batch, 1), 0)
        v = _append(v, bias_v.repeat(1, batch, 1), 0)
        attn_mask, key_padding_mask = _pad_masks(attn_mask, key_padding_mask)
    heads = batch * num_heads
    q = _split_heads(q, None, heads, head_dim, "query")
    k = _split_heads(k, static_k, heads, head_dim, "static_k")
    v = _split_heads(v, static_v, heads, head_dim, "static_v")
    if add_zero_attn:
        k = _append(k, k.new_zeros((heads, 1, head_dim)), 1)
        v = _append(v, v.new_zeros((heads, 1, head_dim)), 1)
        attn_mask, key_padding_mask = _pad_masks(attn_mask, key_padding_mask)
    mask = _merge_masks(attn_mask, key_padding_mask, batch, num_heads, k.size(1))
    dropout_p = dropout_p if training else 0.0

    if need_weights:
        out, attn = _attend_with_weights(q, k, v, mask, dropout_p)
        out = out.transpose(0, 1).contiguous().view(length * batch, embed_dim)
        attn = attn.view(batch, num_heads, length, k.size(1))
        attn = attn.mean(dim=1) if average_attn_weights else attn
    else:
        out = _attend_fused(q, k, v, mask, dropout_p, is_causal, batch, num_heads)
        out = out.permute(2, 0, 1, 3).contiguous().view(batch * length, embed_dim)
        attn = None
    out = _nn.linear(out, out_proj_weight, out_proj_bias).view(length, batch, -1)
    if not batched:
        out = out.squeeze(1)
        attn = None if attn is None else attn.squeeze(0)
    return out, attn
