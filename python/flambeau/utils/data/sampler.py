"""Samplers: in which order a loader visits a dataset."""

import itertools
import types

import flambeau

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


class Sampler:
    """An iterable of indices, or of lists of indices; __len__ is optional."""

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler):
    """0, 1, 2, ..."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


def _check_count(op, count):
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
        raise ValueError(f"{op}: num_samples must be a positive int, got {count!r}")


def _check_flag(op, name, flag, error=ValueError):
    if not isinstance(flag, bool):
        raise error(f"{op}: {name} must be a bool, got {flag!r}")


def fresh_generator():
    """A generator seeded by one draw from the default one."""
    seed = int(flambeau.empty((), dtype=flambeau.int64).random_().item())
    return flambeau.Generator().manual_seed(seed)


class RandomSampler(Sampler):
    """A permutation, several in a row if more samples are asked for, or draws with replacement."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_flag("RandomSampler", "replacement", replacement, TypeError)
        _check_count("RandomSampler", self.num_samples)

    @property
    def num_samples(self):
        # The length of the data may change from epoch to epoch.
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        n, count = len(self.data_source), self.num_samples
        generator = self.generator or fresh_generator()
        if self.replacement:
            # 32 at a time, as torch draws them.
            for start in range(0, count // 32 * 32 + 1, 32):
                size = (min(32, count - start),)
                draw = flambeau.randint(n, size, dtype=flambeau.int64, generator=generator)
                yield from draw.tolist()
            return
        for _ in range(count // n):
            yield from flambeau.randperm(n, generator=generator).tolist()
        yield from flambeau.randperm(n, generator=generator).tolist()[: count % n]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order."""

    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        for i in flambeau.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn with the given weights, which need not sum to one."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        _check_count("WeightedRandomSampler", num_samples)
        _check_flag("WeightedRandomSampler", "replacement", replacement)
        weights = flambeau.as_tensor(weights, dtype=flambeau.float64)
        if weights.dim() != 1:
            raise ValueError(
                f"WeightedRandomSampler: weights have one dim, got shape {tuple(weights.shape)}"
            )
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self):
        drawn = flambeau.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of batch_size indices of another sampler."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"BatchSampler: batch_size must be a positive int, got {batch_size!r}")
        _check_flag("BatchSampler", "drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self):
        rest = 0 if self.drop_last else self.batch_size - 1
        return (len(self.sampler) + rest) // self.batch_size
