"""The loader: batches of a dataset, made in this process or in workers."""

import collections
import itertools
import multiprocessing.connection
import os
import types
import warnings

import flambeau
from flambeau.utils.data import _utils
from flambeau.utils.data._utils.collate import default_collate, default_convert
from flambeau.utils.data._utils.fetch import make_fetcher, row_batches
from flambeau.utils.data._utils.worker import (
    BATCH,
    ERROR,
    RESUME,
    TASK,
    Settings,
    Worker,
    context_of,
    get_worker_info,
    rethrow,
)
from flambeau.utils.data.dataset import IterableDataset
from flambeau.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

default_collate = default_collate
_FROZEN = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _DatasetKind:
    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler):
    """None for ever: an iterable dataset has no indices."""

    def __iter__(self):
        return itertools.repeat(None)


def _check(condition, message):
    if not condition:
        raise ValueError(f"DataLoader: {message}")


class DataLoader:
    """Batches of a dataset.

    Args: as torch's. Samples are drawn in the order of `sampler` (or at random with shuffle=True),
    batch_size at a time, and joined by collate_fn. num_workers processes make batches ahead of
    time; with 0 they are made here.
    """

    _initialized = False
    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor=None,
        persistent_workers=False,
        pin_memory_device="",
        in_order=True,
    ):
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.generator = generator
        self._check_workers()
        self.multiprocessing_context = multiprocessing_context
        self._iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if self._iterable else _DatasetKind.Map
        self._check_sampling(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle) and not self._iterable)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._initialized = True
        self._length_used = None  # of an iterable dataset, once somebody asked
        self._iterator = None
        self.check_worker_number_rationality()

    def _check_workers(self):
        _check(self.num_workers >= 0, f"num_workers must not be negative, got {self.num_workers}")
        _check(self.timeout >= 0, f"timeout must not be negative, got {self.timeout}")
        if self.num_workers == 0:
            _check(self.prefetch_factor is None, "prefetch_factor needs num_workers > 0")
            _check(not self.persistent_workers, "persistent_workers needs num_workers > 0")
        elif self.prefetch_factor is None:
            self.prefetch_factor = 2
        else:
            _check(
                self.prefetch_factor >= 0,
                f"prefetch_factor must not be negative, got {self.prefetch_factor}",
            )

    def _check_sampling(self, batch_size, shuffle, sampler, batch_sampler, drop_last):
        if self._iterable:
            _check(not shuffle, f"an IterableDataset cannot be shuffled, got shuffle={shuffle}")
            _check(sampler is None, f"an IterableDataset takes no sampler, got {sampler}")
            _check(batch_sampler is None, "an IterableDataset takes no batch_sampler")
        _check(sampler is None or not shuffle, "sampler and shuffle exclude each other")
        if batch_sampler is not None:
            alone = batch_size == 1 and not shuffle and sampler is None and not drop_last
            _check(alone, "batch_sampler excludes batch_size, shuffle, sampler and drop_last")
        elif batch_size is None:
            _check(not drop_last, "batch_size=None makes no batches, so drop_last must be False")

    def _default_sampler(self, shuffle):
        if self._iterable:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    @property
    def multiprocessing_context(self):
        return self.__context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            _check(
                self.num_workers > 0,
                f"multiprocessing_context needs num_workers > 0, got {context}",
            )
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                _check(
                    context in methods,
                    f"multiprocessing_context must be one of {methods}, got {context!r}",
                )
                context = multiprocessing.get_context(context)
            elif not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "DataLoader: multiprocessing_context must be a context or its name, "
                    f"got {type(context).__name__}"
                )
        self.__context = context

    def __setattr__(self, attr, val):
        if self._initialized and attr in _FROZEN:
            raise ValueError(f"DataLoader: {attr} cannot change once the loader exists")
        super().__setattr__(attr, val)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self):
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def __len__(self):
        if not self._iterable:
            return len(self._index_sampler)
        length = self._length_used = len(self.dataset)
        if self.batch_size is None:
            return length
        return (length + (0 if self.drop_last else self.batch_size - 1)) // self.batch_size

    def check_worker_number_rationality(self):
        """Warns of more workers than processors."""
        if not self.num_workers or not hasattr(os, "sched_getaffinity"):
            return
        have = len(os.sched_getaffinity(0))
        if self.num_workers > have:
            warnings.warn(
                f"DataLoader: {self.num_workers} workers share {have} processors, "
                "which may be slower than fewer workers",
                stacklevel=3,
            )


class _BaseDataLoaderIter:
    """One pass over a loader."""

    def __init__(self, loader):
        self._loader = loader
        self._pin = loader.pin_memory and flambeau.cuda.is_available()
        self._said_length = loader._length_used  # asked for later, it says nothing of this pass
        self._reset(loader)
        # torch draws this once an iterator, workers or not: the stream after it must be the same.
        seed = flambeau.empty((), dtype=flambeau.int64).random_(generator=loader.generator)
        self._base_seed = seed.item()

    def _reset(self, loader):
        self._sampler_iter = iter(loader._index_sampler)
        self._num_yielded = 0

    def __iter__(self):
        return self

    def __next__(self):
        batch = self._next_data()
        self._num_yielded += 1
        if self._said_length is not None and self._num_yielded > self._said_length:
            self._warn_of_length()
        return _utils.pin_memory.pin_memory(batch) if self._pin else batch

    next = __next__

    def _warn_of_length(self):
        warnings.warn(
            f"DataLoader: the IterableDataset {type(self._loader.dataset).__name__} said it has "
            f"{self._said_length} samples, {self._num_yielded} batches were fetched",
            stacklevel=3,
        )

    def __len__(self):
        return len(self._loader._index_sampler)

    def __getstate__(self):
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Makes each batch when it is asked for."""

    def __init__(self, loader):
        if loader.timeout:
            raise AssertionError(f"DataLoader: timeout needs num_workers > 0, got {loader.timeout}")
        super().__init__(loader)

    def _reset(self, loader):
        self._fetcher = make_fetcher(
            loader.dataset,
            loader._iterable,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
        )
        super()._reset(loader)
        self._sampler_iter = row_batches(loader, self._fetcher) or self._sampler_iter

    def _next_data(self):
        return self._fetcher.fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Hands indices to workers ahead of time and gives their batches out in order."""

    def __init__(self, loader):
        self._workers = []
        self._owner = os.getpid()
        self._task = 0  # the next to hand out
        super().__init__(loader)
        context = context_of(loader.multiprocessing_context)
        settings = Settings(loader, self._base_seed)
        for i in range(loader.num_workers):
            self._workers.append(Worker(context, settings, i, self._workers))
        self._prefetch()

    def _reset(self, loader):
        super()._reset(loader)
        self._first = self._task  # older results belong to an iteration that was left
        self._open = collections.OrderedDict()  # task -> worker
        self._ready = {}  # task -> (kind, value)
        self._turn = 0
        for worker in self._workers:
            worker.active = True
            worker.channel.send(0, RESUME, None, wait=False)
        if self._workers:
            self._prefetch()

    def _prefetch(self):
        for _ in range(self._loader.prefetch_factor * len(self._workers)):
            self._hand_out()

    def _hand_out(self):
        """Gives the next indices to the next worker that still has data."""
        for _ in self._workers:
            worker = self._workers[self._turn % len(self._workers)]
            self._turn += 1
            if worker.active:
                break
        else:
            return
        try:
            indices = next(self._sampler_iter)
        except StopIteration:
            return
        try:
            worker.channel.send(self._task, TASK, indices, wait=False)
        except ConnectionError:
            worker.fail()
        self._open[self._task] = worker
        self._task += 1

    def _next_data(self):
        while self._open:
            task = next(iter(self._open))
            if not self._loader.in_order and self._ready:
                task = next(iter(self._ready))
            if task not in self._ready:
                self._receive()
                continue
            worker = self._open.pop(task)
            kind, value = self._ready.pop(task)
            self._hand_out()
            if kind == BATCH:
                return value
            if kind == ERROR:
                rethrow(value, worker.id)
        if not self._loader.persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _receive(self):
        """Waits for a message and files it."""
        waiting = {worker for worker in self._open.values()}
        timeout = self._loader.timeout or None
        found = multiprocessing.connection.wait(waiting, timeout)
        if not found:
            raise RuntimeError(f"DataLoader: no batch came within timeout={timeout} seconds")
        for worker in found:
            try:
                task, kind, value = worker.channel.receive()
                worker.channel.flush()
            except (EOFError, ConnectionError):
                worker.fail()
            if task < self._first:
                continue
            if kind not in (BATCH, ERROR):
                worker.active = False
            self._ready[task] = (kind, value)

    def _shutdown_workers(self):
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()

    def __del__(self):
        if self._owner == os.getpid():  # and not a forked worker of another iterator
            self._shutdown_workers()
