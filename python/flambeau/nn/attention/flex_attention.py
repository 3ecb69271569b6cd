"""Attention whose scores and mask are functions of (batch, head, query, key) positions.

The functions are called once with index tensors that broadcast against the scores, so they must be
made of tensor operations.
"""

import math
import warnings
from collections import namedtuple

import flambeau

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128

AuxRequest = namedtuple("AuxRequest", ["lse", "max_scores"], defaults=[False, False])
AuxOutput = namedtuple("AuxOutput", ["lse", "max_scores"], defaults=[None, None])


class FlexKernelOptions(dict):
    """Options of PyTorch's GPU kernels; taken and ignored."""


def noop_mask(batch, head, token_q, token_kv):
    """The mask that hides nothing."""
    return batch.new_ones(size=(), dtype=flambeau.bool, device=batch.device)


def and_masks(*mask_mods):
    """The mask that shows what all of `mask_mods` show."""
    _check_callables(mask_mods)

    def both(b, h, q, kv):
        result = b.new_ones((), dtype=flambeau.bool)
        for mask in mask_mods:
            result = result & mask(b, h, q, kv)
        return result

    return both


def or_masks(*mask_mods):
    """The mask that shows what any of `mask_mods` shows."""
    _check_callables(mask_mods)

    def either(b, h, q, kv):
        result = b.new_zeros((), dtype=flambeau.bool)
        for mask in mask_mods:
            result = result | mask(b, h, q, kv)
        return result

    return either


def _check_callables(mask_mods) -> None:
    if not all(callable(m) for m in mask_mods):
        raise RuntimeError(f"mask functions must be callable, got {mask_mods}")


def _positions(sizes, device):
    """One index tensor per dimension, shaped to broadcast against `sizes`."""
    n = len(sizes)
    return [
        flambeau.arange(size, device=device).reshape([size if i == d else 1 for i in range(n)])
        for d, size in enumerate(sizes)
    ]


def _argument_count(fn) -> int:
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds for p in inspect.signature(fn).parameters.values())


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """(B, H, Q_LEN, KV_LEN): what a mask function shows, or a score function makes of zeros."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    positions = _positions(sizes, device)
    if _argument_count(mod_fn) == 5:
        return mod_fn(flambeau.zeros(sizes, device=device), *positions).expand(sizes)
    return mod_fn(*positions).expand(sizes)


def _block_counts(mask, rows, cols):
    """Shown elements per block of rows x cols; the edge is filled up with hidden ones."""
    b, h, q, kv = mask.shape
    pad = (0, -kv % cols, 0, -q % rows)
    mask = flambeau.nn.functional.pad(mask.to(flambeau.int64), pad)
    q, kv = mask.shape[-2:]
    return mask.reshape(b, h, q // rows, rows, kv // cols, cols).sum((3, 5))


def _ordered(dense):
    """(number of shown blocks, all block indices with the shown ones first) of each row."""
    order = flambeau.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(flambeau.int32), order.to(flambeau.int32)


def _dense(counts, indices):
    """The 0/1 blocks that `_ordered` came from."""
    cols = indices.size(-1)
    shown = flambeau.arange(cols, device=counts.device) < counts.unsqueeze(-1)
    blocks = flambeau.zeros(indices.shape, dtype=flambeau.int32, device=counts.device)
    return blocks.scatter(-1, indices.to(flambeau.int64), shown.to(flambeau.int32))


def _transposed(counts, indices):
    if counts is None:
        return None, None
    return _ordered(_dense(counts, indices).transpose(-2, -1))


def _block_size(size):
    return (size, size) if isinstance(size, int) else tuple(size)


_TENSORS = (
    "kv_num_blocks",
    "kv_indices",
    "full_kv_num_blocks",
    "full_kv_indices",
    "q_num_blocks",
    "q_indices",
    "full_q_num_blocks",
    "full_q_indices",
)


class BlockMask:
    """Which blocks of scores a mask shows at all, and which it shows entirely."""

    def __init__(
        self,
        seq_lengths,
        kv_num_blocks,
        kv_indices,
        full_kv_num_blocks,
        full_kv_indices,
        q_num_blocks,
        q_indices,
        full_q_num_blocks,
        full_q_indices,
        BLOCK_SIZE=(_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod=noop_mask,
        *,
        dq_write_order=None,
        dq_write_order_full=None,
        dq_kv_order=None,
        dq_kv_order_spt=None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError(
                f"BlockMask: kv_indices must have 2 or more dimensions, got {kv_indices.dim()}"
            )
        self.seq_lengths = tuple(seq_lengths)
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = _block_size(BLOCK_SIZE)
        self.mask_mod = mask_mod
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks,
        kv_indices,
        full_kv_num_blocks=None,
        full_kv_indices=None,
        BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod=None,
        seq_lengths=None,
        compute_q_blocks=True,
        *,
        dq_write_order=None,
        dq_write_order_full=None,
        dq_kv_order=None,
    ):
        """A mask from counts (B, H, rows) and indices (B, H, rows, cols) of its blocks."""
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("BlockMask: full_kv_num_blocks and full_kv_indices go together")
        size = _block_size(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = (kv_indices.size(-2) * size[0], kv_indices.size(-1) * size[1])
        backwards = (None,) * 4
        if compute_q_blocks:
            backwards = (
                *_transposed(kv_num_blocks, kv_indices),
                *_transposed(full_kv_num_blocks, full_kv_indices),
            )
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *backwards,
            BLOCK_SIZE=size,
            mask_mod=noop_mask if mask_mod is None else mask_mod,
            dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order,
        )

    def as_tuple(self, flatten=True):
        """The constructor's positional arguments, sizes loose if `flatten`."""
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        sizes = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return (*lengths, *(getattr(self, n) for n in _TENSORS), *sizes, self.mask_mod)

    @property
    def shape(self):
        """(*batch, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def _map(self, fn, **changes):
        tensors = [None if (t := getattr(self, n)) is None else fn(t) for n in _TENSORS]
        options = {"BLOCK_SIZE": self.BLOCK_SIZE, "mask_mod": self.mask_mod, **changes}
        return type(self)(self.seq_lengths, *tensors, **options)

    def __getitem__(self, index):
        """The mask of some batches and heads, or of some rows of blocks."""
        return self._map(lambda t: t[index])

    def to(self, device):
        """The mask with its tensors on `device`."""
        return self._map(lambda t: t.to(device))

    def numel(self) -> int:
        """The number of scores."""
        return math.prod(self.shape)

    def to_dense(self):
        """(B, H, rows, cols) of int32: 1 where a block is shown at least in part."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense

    def sparsity(self) -> float:
        """The share of scores in hidden blocks, in per cent."""
        computed = self.to_dense().sum().item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - computed / self.numel())

    def to_string(self, grid_size=(20, 20), limit=4) -> str:
        """A picture of the blocks for the first `limit` batches and heads."""
        dense = self.to_dense()
        leading = dense.shape[:-2]
        flat = dense.reshape(-1, *dense.shape[-2:])
        pictures = []
        for i, blocks in enumerate(flat[:limit].tolist()):
            rows = ["".join("██" if b else "  " for b in row) for row in blocks]
            where, rest = [], i
            for size in reversed(leading):
                where.append(rest % size)
                rest //= size
            pictures.append("\n".join([str(tuple(reversed(where))), *rows]))
        if len(flat) > limit:
            pictures.append(f"... {len(flat) - limit} more")
        return "\n\n".join(pictures)

    def __str__(self):
        head = f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%"
        return f"{head}, \n{self.to_string()}\n)"

    __repr__ = __str__

    def _shown(self, q_length, kv_length):
        """(B, H, q_length, kv_length) of bool: exactly what is shown."""
        rows, cols = self.BLOCK_SIZE
        blocks = self.to_dense().bool()
        blocks = blocks.repeat_interleave(rows, -2).repeat_interleave(cols, -1)
        blocks = blocks[..., :q_length, :kv_length]
        sizes = (*blocks.shape[:-2], q_length, kv_length)
        return blocks & self.mask_mod(*_positions(sizes, blocks.device))


def create_block_mask(
    mask_mod,
    B,
    H,
    Q_LEN,
    KV_LEN,
    device=None,
    BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
    _compile=False,
    separate_full_blocks=True,
    compute_dq_write_order=False,
    dq_kv_order=True,
):
    """The BlockMask of a mask function; B and H None where it does not look at them."""
    rows, cols = _block_size(BLOCK_SIZE)
    counts = _block_counts(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), rows, cols)
    full = (counts == rows * cols) if separate_full_blocks else flambeau.zeros_like(counts).bool()
    partial = _ordered(((counts > 0) & ~full).to(flambeau.int32))
    entire = _ordered(full.to(flambeau.int32)) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(
        *partial, *entire, BLOCK_SIZE=(rows, cols), mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


def _check(query, key, value, enable_gqa) -> None:
    if any(t.dim() != 4 for t in (query, key, value)):
        raise NotImplementedError("flex_attention: query, key and value must be 4D")
    if query.size(-3) != key.size(-3) and not enable_gqa:
        raise ValueError(
            "flex_attention: query and key must have equally many heads unless enable_gqa=True, "
            f"got {query.size(-3)} and {key.size(-3)}"
        )
    if query.size(-3) % key.size(-3) != 0:
        raise ValueError(
            "flex_attention: heads of query must be a multiple of those of key, got "
            f"{query.size(-3)} and {key.size(-3)}"
        )


def flex_attention(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    """softmax(score_mod(query @ key.T * scale)) @ value over (B, H, length, dim).

    score_mod(score, b, h, q, kv) changes scores, block_mask hides them; rows that are all hidden
    give zeros. `return_aux` asks for log-sum-exp or maxima of the scores as well.
    """
    _check(query, key, value, enable_gqa)
    groups = query.size(-3) // key.size(-3)
    if groups > 1:
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    scale = query.size(-1) ** -0.5 if scale is None else scale
    wide = flambeau.float64 if query.dtype == flambeau.float64 else flambeau.float32
    scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale
    if score_mod is not None:
        scores = score_mod(scores, *_positions(scores.shape, query.device)).to(wide)
    if block_mask is not None:
        lengths = (query.size(-2), key.size(-2))
        if any(a > b for a, b in zip(lengths, block_mask.seq_lengths)):
            raise ValueError(
                f"flex_attention: block_mask covers {block_mask.seq_lengths} positions, needs {lengths}"
            )
        scores = scores.masked_fill(~block_mask._shown(*lengths), float("-inf"))
    hidden = (scores == float("-inf")).all(-1, keepdim=True)
    weights = scores.masked_fill(hidden, 0.0).softmax(-1).masked_fill(hidden, 0.0)
    out = (weights @ value.to(wide)).to(query.dtype)
    if return_lse:
        warnings.warn(
            "return_lse is deprecated, use return_aux=AuxRequest(lse=True)",
            FutureWarning,
            stacklevel=2,
        )
        return out, scores.logsumexp(-1)
    if return_aux is None:
        return out
    lse = scores.logsumexp(-1) if return_aux.lse else None
    return out, AuxOutput(lse, scores.amax(-1) if return_aux.max_scores else None)
