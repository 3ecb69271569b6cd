"""Datasets, samplers, collation and the loader, in one process and with workers."""

import collections
import os
import random
import signal
import time

import pytest

import flambeau as fl
from flambeau.utils import data


class Squares(data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i * i


class Counting(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        worker = data.get_worker_info()
        return iter(range(worker.id, self.n, worker.num_workers) if worker else range(self.n))


class Raising(Squares):
    def __getitem__(self, i):
        if i == 2:
            raise KeyError("no sample 2")
        return i


class Dying(Squares):
    def __getitem__(self, i):
        if i == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return i


class Who(Squares):
    def __getitem__(self, i):
        info = data.get_worker_info()
        return info.id, info.seed - info.id, random.random()


def lists(loader):
    return [batch.tolist() for batch in loader]


# ---- datasets ----


def test_tensor_dataset_gives_rows():
    rows = data.TensorDataset(fl.arange(6).reshape(3, 2), fl.tensor([7, 8, 9]))
    x, y = rows[1]
    assert (len(rows), x.tolist(), y.item()) == (3, [2, 3], 8)
    with pytest.raises(AssertionError, match=r"got \[3, 2\]"):
        data.TensorDataset(fl.zeros(3), fl.zeros(2))


def test_concat_finds_the_part_of_an_index():
    joined = Squares(2) + Squares(0) + Squares(3)
    assert (len(joined), list(joined[i] for i in range(5)), joined[-1]) == (5, [0, 1, 0, 1, 4], 4)
    assert data.ConcatDataset([[1], [2, 3]]).cumulative_sizes == [1, 3]
    with pytest.raises(ValueError, match="at least -5, got -6"):
        joined[-6]


def test_chain_runs_one_after_another():
    assert list(Counting(2) + Counting(3)) == [0, 1, 0, 1, 2]


def test_stack_pairs_samples():
    assert data.StackDataset([1, 2], "ab")[1] == (2, "b")
    named = data.StackDataset(x=[1, 2], y=Squares(2))
    assert named.__getitems__([1, 0]) == [{"x": 2, "y": 1}, {"x": 1, "y": 0}]
    with pytest.raises(ValueError, match=r"got \[1, 2\]"):
        data.StackDataset([1], [1, 2])


def test_subset_of_subset():
    outer = data.Subset(data.Subset(Squares(5), [4, 3, 2]), [2, 0])
    assert [outer[i] for i in range(len(outer))] == [4, 16]
    assert outer.__getitems__([1, 0]) == [16, 4]


def test_random_split_covers_everything_once():
    parts = data.random_split(Squares(10), [0.5, 0.3, 0.2], fl.Generator().manual_seed(0))
    assert [len(p) for p in parts] == [5, 3, 2]
    assert sorted(i for p in parts for i in p.indices) == list(range(10))
    parts = data.random_split(Squares(7), [0.5, 0.5])
    assert [len(p) for p in parts] == [4, 3]
    with pytest.raises(ValueError, match="dataset's 10, got 9"):
        data.random_split(Squares(10), [4, 5])


# ---- samplers ----


def test_random_sampler_wants_a_bool():
    with pytest.raises(TypeError, match="replacement must be a bool, got 3"):
        data.RandomSampler([1], replacement=3)
    with pytest.raises(ValueError, match="replacement must be a bool, got 3"):
        data.WeightedRandomSampler([1.0], 1, replacement=3)


def test_random_sampler_repeats_permutations():
    order = list(data.RandomSampler(range(4), num_samples=10))
    assert sorted(order[:4]) == sorted(order[4:8]) == [0, 1, 2, 3] and len(set(order[8:])) == 2
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=70))
    assert len(drawn) == 70 and set(drawn) == {0, 1, 2}


def test_random_sampler_gives_torchs_order_for_a_seed():
    g = fl.Generator().manual_seed(0)
    assert list(data.RandomSampler(range(5), generator=g)) == [4, 0, 1, 3, 2]


def test_samplers_refuse_nonsense():
    with pytest.raises(ValueError, match="positive int, got 0"):
        data.RandomSampler([])
    with pytest.raises(ValueError, match="positive int, got True"):
        data.BatchSampler(range(3), True, False)
    with pytest.raises(ValueError, match=r"one dim, got shape \(1, 1\)"):
        data.WeightedRandomSampler([[1.0]], 1)


def test_weighted_sampler_leaves_out_weight_zero():
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0], 20)) == {1}
    assert sorted(data.WeightedRandomSampler([1.0, 1.0], 2, replacement=False)) == [0, 1]


@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_sampler_shares_an_order(drop_last):
    parts = [data.DistributedSampler(range(10), 4, r, drop_last=drop_last) for r in range(4)]
    seen = [i for p in parts for i in p]
    assert len(seen) == (8 if drop_last else 12) and len({len(p) for p in parts}) == 1
    assert len(set(seen)) == (8 if drop_last else 10)
    before = list(parts[0])
    parts[0].set_epoch(1)
    assert list(parts[0]) != before
    with pytest.raises(ValueError, match=r"in \[0, 3\], got 4"):
        data.DistributedSampler(range(10), 4, 4)


# ---- collation ----


def test_collate_enters_containers():
    Point = collections.namedtuple("Point", "x y")
    batch = data.default_collate([{"p": Point(1, 2.0), "s": "a"}, {"p": Point(3, 4.0), "s": "b"}])
    assert batch["p"].x.tolist() == [1, 3] and batch["p"].y.dtype == fl.float64
    assert list(batch["s"]) == ["a", "b"] and isinstance(batch["p"], Point)
    x, y = data.default_collate([(fl.ones(2), [1, 2]), (fl.zeros(2), [3, 4])])
    assert x.tolist() == [[1, 1], [0, 0]] and [t.tolist() for t in y] == [[1, 3], [2, 4]]


def test_collate_names_what_it_cannot_do():
    with pytest.raises(TypeError, match="got <class 'object'>"):
        data.default_collate([object()])
    with pytest.raises(RuntimeError, match=r"equal size, got \[1, 2\]"):
        data.default_collate([[1], [1, 2]])


def test_collate_stacks_arrays():
    np = pytest.importorskip("numpy")
    assert data.default_collate([np.arange(2), np.arange(2)]).tolist() == [[0, 1], [0, 1]]
    assert data.default_collate([np.float32(1), np.float32(2)]).dtype == fl.float32
    with pytest.raises(TypeError, match="got <U1"):
        data.default_collate([np.array(["a"])])


# ---- the loader ----


def test_loader_batches_and_drops():
    assert lists(data.DataLoader(Squares(5), 2)) == [[0, 1], [4, 9], [16]]
    assert lists(data.DataLoader(Squares(5), 2, drop_last=True)) == [[0, 1], [4, 9]]
    assert list(data.DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    assert lists(data.DataLoader(Squares(5), batch_sampler=[[0, 2], [4]])) == [[0, 4], [16]]
    assert [len(data.DataLoader(Squares(5), 2, drop_last=d)) for d in (False, True)] == [3, 2]


def test_loader_iterates_an_iterable():
    assert lists(data.DataLoader(Counting(5), 2)) == [[0, 1], [2, 3], [4]]
    assert lists(data.DataLoader(Counting(5), 2, drop_last=True)) == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    "options, text",
    [
        ({"num_workers": -1}, "got -1"),
        ({"prefetch_factor": 2}, "num_workers > 0"),
        ({"persistent_workers": True}, "num_workers > 0"),
        ({"shuffle": True, "sampler": [0]}, "exclude each other"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "excludes batch_size"),
        ({"batch_size": None, "drop_last": True}, "drop_last must be False"),
        ({"batch_size": 0}, "positive int, got 0"),
        ({"multiprocessing_context": "fork"}, "num_workers > 0"),
    ],
)
def test_loader_refuses_contradictions(options, text):
    with pytest.raises(ValueError, match=text):
        data.DataLoader(Squares(3), **options)


def test_loader_freezes_its_order():
    loader = data.DataLoader(Squares(3))
    with pytest.raises(ValueError, match="batch_size cannot change"):
        loader.batch_size = 2


class Slow(data.TensorDataset):
    """Not a plain TensorDataset: takes the way of any dataset."""


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [12, 13])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_whole_batches_equal_sample_by_sample(size, drop_last, own, split):
    tensors = fl.randn(size + 2, 3), fl.arange(size + 2), fl.randn(2, size + 2).t()

    def run(kind):
        rows = kind(*tensors)
        if split:
            rows = data.Subset(rows, list(range(size, 0, -1)))
        fl.manual_seed(5)
        g = fl.Generator().manual_seed(6) if own else None
        out = []
        for shuffle in (True, False):
            loader = data.DataLoader(rows, 4, shuffle=shuffle, drop_last=drop_last, generator=g)
            out += [(type(b), [x.tolist() for x in b]) for b in loader]
        return out, fl.rand(2).tolist(), fl.rand(2, generator=g).tolist()

    assert run(data.TensorDataset) == run(Slow)


def test_whole_batches_do_not_share_memory_with_the_data():
    x = fl.zeros(4)
    for (batch,) in data.DataLoader(data.TensorDataset(x), 2):
        batch.add_(1)
    assert x.tolist() == [0, 0, 0, 0]


# ---- workers ----


def test_workers_give_batches_in_order():
    expected = lists(data.DataLoader(Squares(11), 3))
    assert lists(data.DataLoader(Squares(11), 3, num_workers=2)) == expected
    assert lists(data.DataLoader(Squares(11), 3, num_workers=3, prefetch_factor=1)) == expected


def test_worker_tensors_keep_dtype_shape_and_flags():
    rows = [(fl.ones(2, 3, dtype=fl.bfloat16), fl.zeros(0), True, "text")] * 2
    x, empty, flag, text = next(iter(data.DataLoader(rows, 2, num_workers=1)))
    assert (x.dtype, x.shape, x.sum().item()) == (fl.bfloat16, (2, 2, 3), 12)
    assert empty.shape == (2, 0) and flag.tolist() == [True, True] and list(text) == ["text"] * 2
    x += 1  # the memory is ours
    assert x.sum().item() == 24


def test_workers_know_who_they_are():
    g = fl.Generator().manual_seed(11)
    ids, seeds, drawn = zip(*data.DataLoader(Who(4), None, num_workers=2, generator=g))
    assert ids == (0, 1, 0, 1) and len(set(seeds)) == 1 and len(set(drawn)) == 4
    assert data.get_worker_info() is None


def test_workers_share_an_iterable():
    assert lists(data.DataLoader(Counting(6), 2, num_workers=2)) == [[0, 2], [1, 3], [4], [5]]


def test_persistent_workers_live_on():
    loader = data.DataLoader(Squares(4), 2, num_workers=1, persistent_workers=True)
    next(iter(loader))  # an iteration that was left
    pid = loader._iterator._workers[0].process.pid
    assert lists(loader) == lists(loader) == [[0, 1], [4, 9]]
    assert loader._iterator._workers[0].process.pid == pid


def test_a_workers_error_carries_its_traceback():
    with pytest.raises(KeyError, match="(?s)worker process 0.*Traceback.*no sample 2"):
        list(data.DataLoader(Raising(4), num_workers=1))


def test_a_dead_worker_is_named():
    with pytest.raises(RuntimeError, match=r"worker 0 \(pid \d+\) ended unexpectedly by signal 9"):
        list(data.DataLoader(Dying(4), num_workers=1))


def test_a_slow_worker_times_out():
    slow = data.DataLoader(
        Squares(2), num_workers=1, timeout=0.2, worker_init_fn=lambda i: time.sleep(2)
    )
    with pytest.raises(RuntimeError, match="timeout=0.2"):
        list(slow)


class Large(Squares):
    def __getitem__(self, i):
        return fl.full((6000,), float(i)), i


def test_memory_of_dropped_batches_is_used_again_and_of_held_ones_is_not():
    held = []
    for k, (x, i) in enumerate(data.DataLoader(Large(60), 2, num_workers=2)):
        assert (x == i[:, None]).all()
        if k % 3 == 0:
            held.append((x, i))
    assert len(held) == 10
    for x, i in held:
        assert (x == i[:, None]).all()


def test_held_batches_keep_no_descriptors():
    before = len(os.listdir("/proc/self/fd"))
    held = list(data.DataLoader(Large(40), 1, num_workers=1))
    assert len(os.listdir("/proc/self/fd")) - before < 10 and len(held) == 40
