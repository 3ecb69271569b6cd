"""Batches of sequences of different lengths: padded, packed, and the ways between."""

from collections import namedtuple

import flambeau
from flambeau import _C

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
    "pack_sequence",
    "unpack_sequence",
]

PackedSequence_ = namedtuple(
    "PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"]
)
PackedSequence_.__name__ = PackedSequence_.__qualname__ = "PackedSequence_"


class PackedSequence(PackedSequence_):
    """Sequences sorted by falling length, cut by time: step t holds batch_sizes[t] elements.

    `sorted_indices` says where the sorted sequences came from, `unsorted_indices` the way back.
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        fields = _packed_fields(data, batch_sizes, sorted_indices, unsorted_indices)
        return super().__new__(cls, *fields)

    def _map(self, fn):
        """`fn` on the data; the indices follow to its device."""
        data = fn(self.data)
        if data is self.data:
            return self
        sorted_, unsorted = self.sorted_indices, self.unsorted_indices
        if sorted_ is not None and sorted_.device != data.device:
            sorted_ = sorted_.to(data.device)
            unsorted = unsorted.to(data.device)
        return type(self)(data, self.batch_sizes, sorted_, unsorted)

    def pin_memory(self):
        """With the data in page-locked memory."""
        return self._map(lambda t: t.pin_memory())

    def to(self, *args, **kwargs):
        """With the data moved and cast as by `Tensor.to`."""
        return self._map(lambda t: t.to(*args, **kwargs))

    def cuda(self, *args, **kwargs):
        """With the data on a CUDA device."""
        return self.to(*args, device=kwargs.pop("device", "cuda"), **kwargs)

    def cpu(self, *args, **kwargs):
        """With the data on the CPU."""
        return self.to(*args, device="cpu", **kwargs)

    def double(self):
        return self.to(dtype=flambeau.double)

    def float(self):
        return self.to(dtype=flambeau.float)

    def half(self):
        return self.to(dtype=flambeau.half)

    def long(self):
        return self.to(dtype=flambeau.long)

    def int(self):
        return self.to(dtype=flambeau.int)

    def short(self):
        return self.to(dtype=flambeau.short)

    def char(self):
        return self.to(dtype=flambeau.int8)

    def byte(self):
        return self.to(dtype=flambeau.uint8)

    @property
    def is_cuda(self):
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self):
        """Whether the data is in page-locked memory."""
        return self.data.is_pinned()


def _packed_fields(data, batch_sizes, sorted_indices, unsorted_indices):
    if unsorted_indices is None:
        unsorted_indices = invert_permutation(sorted_indices)
    if batch_sizes is not None:
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                f"PackedSequence: batch_sizes must be on the CPU, got {batch_sizes.device}"
            )
        return data, batch_sizes, sorted_indices, unsorted_indices
    if not (isinstance(data, (list, tuple)) and len(data) == 2):
        raise AssertionError("PackedSequence: without batch_sizes data must be (data, batch_sizes)")
    return data[0], data[1], sorted_indices, unsorted_indices


def invert_permutation(permutation):
    """The permutation that undoes `permutation`; None for None."""
    if permutation is None:
        return None
    output = flambeau.empty_like(permutation)
    output.scatter_(
        0, permutation, flambeau.arange(0, permutation.numel(), device=permutation.device)
    )
    return output


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs (T, N, *) padded sequences of `lengths`, which must fall unless not enforce_sorted."""
    if not isinstance(lengths, flambeau.Tensor):
        lengths = flambeau.as_tensor(lengths, dtype=flambeau.int64, device="cpu")
    if enforce_sorted:
        sorted_indices = None
    else:
        lengths, sorted_indices = flambeau.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = flambeau._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded (T, N, *), lengths) of a packed batch, in its original order."""
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                f"pad_packed_sequence: total_length must be at least {longest}, the length of the "
                f"longest sequence, got {total_length}"
            )
        longest = total_length
    padded, lengths = flambeau._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, longest
    )
    unsorted = sequence.unsorted_indices
    if unsorted is not None:
        padded = padded.index_select(0 if batch_first else 1, unsorted)
        return padded, lengths[unsorted.cpu()]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stacks sequences (L_i, *) into (T, N, *), T the longest length."""
    if isinstance(sequences, flambeau.Tensor):
        sequences = sequences.unbind(0)
    elif not hasattr(sequences, "__iter__"):
        raise RuntimeError(
            f"pad_sequence: expected an iterable of tensors, got {type(sequences).__name__}"
        )
    else:
        sequences = tuple(sequences)
    return _C._nn.pad_sequence(sequences, batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences (L_i, *) of a padded (T, N, *) batch."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [seq[: int(n)] for seq, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs sequences (L_i, *), whose lengths must fall unless not enforce_sorted."""
    lengths = flambeau.as_tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The sequences (L_i, *) of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
