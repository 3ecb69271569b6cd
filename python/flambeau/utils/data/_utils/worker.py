"""Worker processes: each makes the batches whose indices it is sent."""

import multiprocessing
import os
import pickle
import random
import signal
import sys
import traceback

import flambeau
from flambeau.utils.data._utils import collate
from flambeau.utils.data._utils.fetch import make_fetcher
from flambeau.utils.data._utils.transport import Channel

# Kinds of messages: to a worker, and from it.
TASK, RESUME = 0, 1
BATCH, END, ERROR = 0, 1, 2


class WorkerInfo:
    """Which worker this is: id, num_workers, seed, and dataset, its own copy."""

    def __init__(self, id, num_workers, seed, dataset):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset

    def __repr__(self):
        return (
            f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed}, "
            f"dataset={self.dataset!r})"
        )


_worker_info = None


def get_worker_info():
    """In a worker process its WorkerInfo, elsewhere None."""
    return _worker_info


class Settings:
    """What a worker needs to know of its loader."""

    def __init__(self, loader, base_seed):
        self.dataset = loader.dataset
        self.iterable = loader._iterable
        self.auto_collation = loader._auto_collation
        self.collate_fn = loader.collate_fn
        self.drop_last = loader.drop_last
        self.init_fn = loader.worker_init_fn
        self.num_workers = loader.num_workers
        self.base_seed = base_seed

    def fetcher(self):
        return make_fetcher(
            self.dataset, self.iterable, self.auto_collation, self.collate_fn, self.drop_last
        )


def _seed_all(base_seed, worker_id):
    """Every source of random numbers differs from worker to worker."""
    seed = base_seed + worker_id
    random.seed(seed)
    flambeau.manual_seed(seed)
    if numpy := sys.modules.get("numpy"):
        words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
        numpy.random.seed(numpy.random.SeedSequence(words).generate_state(4))


def _described(error):
    """An exception as its type and its text, with the traceback."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.dumps(type(error))
    except Exception:
        return RuntimeError, text
    return type(error), text


def _serve(channel, settings, worker_id):
    """Answers tasks until the other side goes."""
    failure = fetcher = None
    try:
        if settings.init_fn is not None:
            settings.init_fn(worker_id)
        fetcher = settings.fetcher()
    except Exception as error:
        failure = _described(error)
    while True:
        task, kind, indices = channel.receive()
        if kind == RESUME:
            fetcher = settings.fetcher()
            continue
        if failure:
            channel.send(task, ERROR, failure)
            failure = None
            continue
        try:
            kind, value = BATCH, fetcher.fetch(indices)
        except Exception as error:
            ended = settings.iterable and isinstance(error, StopIteration)
            kind, value = (END, None) if ended else (ERROR, _described(error))
        try:
            channel.send(task, kind, value)
        except ConnectionError:
            return
        except Exception as error:  # the batch cannot be pickled
            channel.send(task, ERROR, _described(error))
        del value  # its memory is for the next batch


def _main(channel, foreign, settings, worker_id):
    global _worker_info
    for other in foreign:  # a copy held here would hide the loader's death from its workers
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collate.place = channel.place
    flambeau.set_num_threads(1)
    _seed_all(settings.base_seed, worker_id)
    seed = settings.base_seed + worker_id
    _worker_info = WorkerInfo(worker_id, settings.num_workers, seed, settings.dataset)
    try:
        _serve(channel, settings, worker_id)
    except (EOFError, ConnectionError):
        pass


class Worker:
    """The loader's side of a worker process."""

    def __init__(self, context, settings, worker_id, others):
        self.id = worker_id
        self.active = True
        self.channel, theirs = Channel.pair()
        forked = context.get_start_method() == "fork"
        foreign = [w.channel for w in others] + [self.channel] if forked else []
        self.process = context.Process(
            target=_main, args=(theirs, foreign, settings, worker_id), daemon=True
        )
        self.process.start()
        theirs.close()

    def fileno(self):
        return self.channel.fileno()

    def fail(self):
        """The process is gone without being asked to."""
        self.process.join(5)
        code = self.process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = f"signal {-code} ({signal.Signals(-code).name})"
        raise RuntimeError(
            f"DataLoader: worker {self.id} (pid {self.process.pid}) ended unexpectedly by {how}; "
            "what it printed before says more"
        )

    def stop(self):
        self.channel.close()

    def join(self):
        self.process.join(5)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()


def rethrow(described, worker_id):
    """Raises a worker's exception here, with its traceback in the text."""
    kind, text = described
    message = f"Caught {kind.__name__} in DataLoader worker process {worker_id}.\nOriginal {text}"
    if issubclass(kind, KeyError):
        raise kind(_Verbatim(message))
    try:
        error = kind(message)
    except Exception:
        error = RuntimeError(message)
    raise error


class _Verbatim(str):
    """KeyError shows the repr of its text: keep the lines apart."""

    def __repr__(self):
        return str(self)


def context_of(chosen):
    """The multiprocessing context: fork on Linux, since the thread pool survives it."""
    if chosen is not None:
        return chosen
    started = multiprocessing.get_start_method(allow_none=True)
    return multiprocessing.get_context(started or ("fork" if os.name == "posix" else None))
