"""Causal masks that know on which side they are aligned."""

import enum

import flambeau

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Whether the diagonal starts in the upper left corner or ends in the lower right one."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(flambeau.Tensor):
    """A causal mask (seq_len_q, seq_len_kv) for scaled_dot_product_attention: True = attend."""

    @staticmethod
    def __new__(cls, variant, seq_len_q, seq_len_kv):
        shift = seq_len_kv - seq_len_q if variant == CausalVariant.LOWER_RIGHT else 0
        mask = flambeau.ones(seq_len_q, seq_len_kv, dtype=flambeau.bool).tril(diagonal=shift)
        return mask.as_subclass(cls)

    def __init__(self, variant, seq_len_q, seq_len_kv) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"CausalBias: variant must be a CausalVariant, got {variant!r}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv

    def __repr__(self):
        return f"CausalBias({self.variant.name}, {self.seq_len_q}, {self.seq_len_kv})"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        # Results are plain tensors: a piece of a causal mask is no causal mask.
        plain = [a.as_subclass(flambeau.Tensor) if isinstance(a, cls) else a for a in args]
        named = {
            k: a.as_subclass(flambeau.Tensor) if isinstance(a, cls) else a
            for k, a in (kwargs or {}).items()
        }
        if getattr(func, "__name__", "") in ("as_subclass", "__get__"):
            return super().__torch_function__(func, types, args, kwargs or {})
        return func(*plain, **named)


def causal_upper_left(*size):
    """The mask in which query i sees keys 0 to i."""
    if len(size) != 2:
        raise RuntimeError(f"causal_upper_left: expected 2 sizes, got {len(size)}")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size):
    """The mask in which the last query sees all keys, the one before all but the last, ..."""
    if len(size) != 2:
        raise RuntimeError(f"causal_lower_right: expected 2 sizes, got {len(size)}")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
