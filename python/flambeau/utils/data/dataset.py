"""Datasets: by index, by iteration, and made of others."""

import bisect
import itertools
import math
import types
import warnings

import flambeau
from flambeau import default_generator

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


class Dataset:
    """Samples by index: a subclass defines __getitem__, usually __len__, and may define
    __getitems__, which takes a list of indices and returns a list of samples.
    """

    __class_getitem__ = classmethod(types.GenericAlias)

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples by iteration: a subclass defines __iter__. A loader cannot shuffle it."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Rows of tensors: sample i is the tuple of every tensor's [i]."""

    def __init__(self, *tensors):
        sizes = [t.size(0) for t in tensors]
        if any(size != sizes[0] for size in sizes):
            raise AssertionError(f"TensorDataset: sizes of dim 0 must be equal, got {sizes}")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)


def _samples(dataset, indices):
    """Several samples of a dataset, at once where it can."""
    if callable(getattr(dataset, "__getitems__", None)):
        found = dataset.__getitems__(indices)
        if len(found) != len(indices):
            raise ValueError(
                f"{type(dataset).__name__}.__getitems__: must give one sample an index, "
                f"got {len(found)} for {len(indices)}"
            )
        return found
    return [dataset[i] for i in indices]


class StackDataset(Dataset):
    """Datasets side by side: sample i is a tuple, or a dict, of every dataset's [i]."""

    def __init__(self, *args, **kwargs):
        if bool(args) == bool(kwargs):
            raise ValueError(
                "StackDataset: give datasets either by position or by name, "
                f"got {len(args)} and {len(kwargs)}"
            )
        self.datasets = args or kwargs
        sizes = [len(d) for d in args or kwargs.values()]
        self._length = sizes[0]
        if any(size != sizes[0] for size in sizes):
            raise ValueError(f"StackDataset: lengths must be equal, got {sizes}")

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices):
        if isinstance(self.datasets, dict):
            columns = [_samples(d, indices) for d in self.datasets.values()]
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*(_samples(d, indices) for d in self.datasets)))

    def __len__(self):
        return self._length


class ConcatDataset(Dataset):
    """Datasets one after another."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: at least one dataset is needed, got none")
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise AssertionError("ConcatDataset: an IterableDataset has no indices; chain it")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence):
        return list(itertools.accumulate(len(part) for part in sequence))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        if idx < 0:
            if -idx > len(self):
                raise ValueError(f"ConcatDataset: index must be at least {-len(self)}, got {idx}")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - before]

    @property
    def cummulative_sizes(self):
        warnings.warn("use cumulative_sizes", DeprecationWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Iterable datasets one after another."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(
                    f"ChainDataset: parts must be IterableDatasets, got {type(dataset).__name__}"
                )
            yield from dataset

    def __len__(self):
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset):
    """Some samples of a dataset, by a list of their indices."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices):
        chosen = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)
        return [self.dataset[i] for i in chosen]

    def __len__(self):
        return len(self.indices)


def _whole_lengths(total, fractions):
    """Lengths of the parts that fractions of a total make; what is left over goes round."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"random_split: fraction {i} must be in [0, 1], got {fraction}")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warnings.warn(f"random_split: part {i} is empty", stacklevel=3)
    return lengths


def random_split(dataset, lengths, generator=default_generator):
    """Parts of a dataset, drawn without overlap: by lengths, or by fractions that sum to 1."""
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _whole_lengths(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise ValueError(
            f"random_split: lengths must sum to the dataset's {len(dataset)}, got {sum(lengths)}"
        )
    indices = flambeau.randperm(sum(lengths), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[end - n : end]) for end, n in zip(ends, lengths)]
