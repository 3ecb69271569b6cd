"""Attention over sequences of different lengths that are laid one after the other."""

from collections import namedtuple

import flambeau
from flambeau import _C

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]

AuxRequest = namedtuple("AuxRequest", ["lse"], defaults=[False])


def _band(length, source, window, device):
    """(length, source) True where attended: a window around the diagonal, aligned at the end."""
    left, right = window
    q = flambeau.arange(length, device=device).unsqueeze(1) + (source - length)
    k = flambeau.arange(source, device=device).unsqueeze(0)
    mask = flambeau.ones(length, source, dtype=flambeau.bool, device=device)
    if left >= 0:
        mask = mask & (k >= q - left)
    if right >= 0:
        mask = mask & (k <= q + right)
    return mask


def varlen_attn(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    return_aux=None,
    scale=None,
    window_size=(-1, -1),
    enable_gqa=False,
    seqused_k=None,
    block_table=None,
    num_splits=None,
):
    """Attention within each sequence: (total, heads, dim), sequence i from cu_seq[i] to [i + 1].

    window_size (left, right) limits how far a query sees, -1 for no limit; (-1, 0) is causal.
    """
    if block_table is not None:
        raise NotImplementedError("varlen_attn: paged keys (block_table) are not supported")
    if return_aux is not None and return_aux.lse:
        raise NotImplementedError("varlen_attn: returning lse is not supported")
    starts_q, starts_k = cu_seq_q.tolist(), cu_seq_k.tolist()
    used = None if seqused_k is None else seqused_k.tolist()
    parts = []
    for i in range(len(starts_q) - 1):
        q = query[starts_q[i] : starts_q[i + 1]].transpose(0, 1)
        end = starts_k[i + 1] if used is None else starts_k[i] + used[i]
        k = key[starts_k[i] : end].transpose(0, 1)
        v = value[starts_k[i] : end].transpose(0, 1)
        mask = None
        if tuple(window_size) != (-1, -1):
            mask = _band(q.size(1), k.size(1), window_size, q.device)
        out = _C._nn.scaled_dot_product_attention(
            q.unsqueeze(0),
            k.unsqueeze(0),
            v.unsqueeze(0),
            mask,
            scale=scale,
            enable_gqa=enable_gqa,
        )
        parts.append(out.squeeze(0).transpose(0, 1))
    return flambeau.cat(parts, dim=0)


def varlen_attn_out(
    out,
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    return_aux=None,
    scale=None,
    window_size=(-1, -1),
    enable_gqa=False,
    seqused_k=None,
    block_table=None,
    num_splits=None,
):
    """`varlen_attn` written into `out`."""
    result = varlen_attn(
        query,
        key,
        value,
        cu_seq_q,
        cu_seq_k,
        max_q,
        max_k,
        return_aux=return_aux,
        scale=scale,
        window_size=window_size,
        enable_gqa=enable_gqa,
        seqused_k=seqused_k,
        block_table=block_table,
    )
    return out.copy_(result)
