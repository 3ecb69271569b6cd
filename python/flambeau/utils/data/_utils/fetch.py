"""From indices to a batch, for datasets by index and by iteration."""

import flambeau
from flambeau import Tensor
from flambeau.utils.data._utils.collate import default_collate
from flambeau.utils.data.dataset import Subset, TensorDataset
from flambeau.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    fresh_generator,
)


class _MapDatasetFetcher:
    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn

    def fetch(self, indices):
        if not self.auto_collation:
            return self.collate_fn(self.dataset[indices])
        if callable(getattr(self.dataset, "__getitems__", None)):
            samples = self.dataset.__getitems__(indices)
        else:
            samples = [self.dataset[i] for i in indices]
        return self.collate_fn(samples)


class _RowsFetcher:
    """Whole batches of a TensorDataset, or of Subsets of one: an op a tensor, not one a sample."""

    def __init__(self, tensors, rows):
        self.tensors = tensors
        self.rows = rows  # which row an index means, where that is not its own number

    def fetch(self, indices):
        if self.rows is not None:
            indices = self.rows[indices]
        elif isinstance(indices, slice):
            whole = flambeau.contiguous_format
            return [t[indices].clone(memory_format=whole) for t in self.tensors]
        return [t[indices] for t in self.tensors]


def _rows_fetcher(dataset):
    """For plain tensors behind any number of Subsets, else None."""
    maps = []
    while type(dataset) is Subset:
        maps.append(dataset.indices)
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset:
        return None
    if not all(isinstance(t, Tensor) and t.layout is flambeau.strided for t in dataset.tensors):
        return None
    rows = None
    for indices in reversed(maps):
        if not all(type(i) is int for i in indices):
            return None
        step = flambeau.tensor(indices, dtype=flambeau.int64)
        rows = step if rows is None else rows[step]
    return _RowsFetcher(dataset.tensors, rows)


def row_batches(loader, fetcher):
    """Indices as slices and tensors where the loader's samplers are the usual two, else None."""
    batches = loader.batch_sampler
    if type(fetcher) is not _RowsFetcher or type(batches) is not BatchSampler:
        return None
    order = batches.sampler
    if type(order) not in (SequentialSampler, RandomSampler):
        return None
    size = len(loader.dataset)
    if len(order.data_source) != size:
        return None
    if type(order) is SequentialSampler:
        return _slices(size, batches)
    plain = not order.replacement and order.num_samples == size
    return _permuted(size, batches, order.generator) if plain else None


def _slices(size, batches):
    step = batches.batch_size
    for start in range(0, size, step):
        if start + step <= size or not batches.drop_last:
            yield slice(start, min(start + step, size))


def _permuted(size, batches, given):
    generator = given or fresh_generator()
    order = flambeau.randperm(size, generator=generator)
    step = batches.batch_size
    whole = size // step * step
    for start in range(0, whole, step):
        yield order[start : start + step]
    if given is not None:  # what the sampler draws at its end
        flambeau.randperm(size, generator=generator)
    if whole < size and not batches.drop_last:
        yield order[whole:]


class _IterableDatasetFetcher:
    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.iterator = iter(dataset)
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.ended = False

    def fetch(self, indices):
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.iterator))
        samples = []
        for _ in indices:
            try:
                samples.append(next(self.iterator))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(indices)):
            raise StopIteration
        return self.collate_fn(samples)


def make_fetcher(dataset, iterable, auto_collation, collate_fn, drop_last):
    """The fetcher of a loader; a shortcut where every sample is a row of plain tensors."""
    if iterable:
        return _IterableDatasetFetcher(dataset, auto_collation, collate_fn, drop_last)
    if auto_collation and collate_fn is default_collate:
        if rows := _rows_fetcher(dataset):
            return rows
    return _MapDatasetFetcher(dataset, auto_collation, collate_fn, drop_last)
