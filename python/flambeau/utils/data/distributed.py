"""The share of a dataset that one of several processes visits."""

import itertools
import math

import flambeau
from flambeau.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


def _from_group(name, value):
    """How many processes there are, or which of them this is, unless it was given."""
    if value is not None:
        return value
    from flambeau import distributed

    if not distributed.is_available():
        raise RuntimeError(f"DistributedSampler: {name} must be given, no process group exists")
    return distributed.get_world_size() if name == "num_replicas" else distributed.get_rank()


class DistributedSampler(Sampler):
    """Every num_replicas-th index from `rank` on, of one order that all processes share.

    The order is made even by repeating its first indices, or with drop_last by leaving out its
    last. Call set_epoch before each epoch: it decides the order.
    """

    def __init__(
        self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False
    ):
        num_replicas = _from_group("num_replicas", num_replicas)
        rank = _from_group("rank", rank)
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: rank must be in [0, {num_replicas - 1}], got {rank}"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self):
        size = len(self.dataset)
        if self.shuffle:
            generator = flambeau.Generator().manual_seed(self.seed + self.epoch)
            indices = flambeau.randperm(size, generator=generator).tolist()
        else:
            indices = list(range(size))
        if self.drop_last:
            indices = indices[: self.total_size]
        elif indices:
            indices = list(itertools.islice(itertools.cycle(indices), self.total_size))
        if len(indices) != self.total_size:
            raise AssertionError(
                f"DistributedSampler: the dataset had {self.total_size} indices to share at first, "
                f"now {len(indices)}"
            )
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Sets the epoch, on which the order depends."""
        self.epoch = epoch
