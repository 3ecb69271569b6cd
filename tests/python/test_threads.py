"""Threads of a Python program: they run while another's op is long, and share generators and leaves."""

import math
import threading
import time

import pytest

import flambeau as torch
from flambeau import nn


def run_in_threads(count, work):
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()


def product():
    x = torch.ones(1200, 1200)
    return lambda: x @ x


def convolution():
    x, w = torch.ones(8, 64, 64, 64), torch.ones(64, 64, 3, 3)
    return lambda: nn.functional.conv2d(x, w)


def pointwise():
    x = torch.ones(3_000_000, dtype=torch.float64)
    return lambda: torch.lgamma(x)


@pytest.mark.parametrize("make", [product, convolution, pointwise])
def test_other_threads_run_during_long_work(make):
    work, marks, stop = make(), [], threading.Event()

    def mark():
        while not stop.is_set():
            marks.append(time.perf_counter())
            time.sleep(1e-4)

    marker = threading.Thread(target=mark, daemon=True)
    marker.start()
    inside = 0
    for _ in range(20):
        start = time.perf_counter()
        work()
        end = time.perf_counter()
        inside = max(inside, sum(start < m < end for m in marks))
        if inside > 3:
            break
    stop.set()
    marker.join()
    # A thread that must wait for the whole op leaves one mark at each of its ends at most.
    assert inside > 3


def test_threads_share_a_generator():
    drawn = [None] * 3

    def draw(i):
        drawn[i] = [torch.randn(300_000).sum().item() for _ in range(5)]

    torch.manual_seed(3)
    run_in_threads(3, draw)
    torch.manual_seed(3)
    expected = [torch.randn(300_000).sum().item() for _ in range(15)]
    assert sorted(sum(drawn, [])) == sorted(expected)


def test_threads_that_train_side_by_side_get_what_one_alone_gets():
    x = torch.arange(256 * 256, dtype=torch.float64).reshape(256, 256) / 65536

    def train(results, i):
        w = nn.Parameter(torch.full((256, 256), 1e-3 * (i + 1), dtype=torch.float64))
        for _ in range(5):
            ((x @ w).tanh() ** 2).mean().backward()
            with torch.no_grad():
                w -= w.grad
            w.grad = None
        results[i] = w.detach()

    together, alone = [None] * 3, [None] * 3
    run_in_threads(3, lambda i: train(together, i))
    for i in range(3):
        train(alone, i)
        assert torch.equal(together[i], alone[i])


def test_threads_add_up_in_one_leaf():
    w = nn.Parameter(torch.zeros(400_000))
    scale = torch.ones(400_000)
    run_in_threads(4, lambda i: [(w * scale).sum().backward() for _ in range(5)])
    assert w.grad.min().item() == w.grad.max().item() == 20


def test_a_pass_that_found_a_node_in_use_keeps_its_gradient():
    # The other pass ends between the arrival of this one's gradient and its visit.
    w = torch.tensor([1.0], requires_grad=True)
    shared = w.exp()
    leaves = [torch.tensor([1.0], requires_grad=True) for _ in range(2)]
    wait, go_on = (leaf.sin() for leaf in leaves)
    first = shared * 2 + wait
    second = shared * 3 + go_on
    arrived, ended = threading.Event(), threading.Event()
    found = []

    def other_pass():
        found.append(torch.autograd.grad(second, [w, leaves[1]], retain_graph=True)[0])

    thread = threading.Thread(target=other_pass)

    def start_other(grad):
        thread.start()
        assert arrived.wait(20)

    def let_first_end(grad):
        arrived.set()
        assert ended.wait(20)

    wait.register_hook(start_other)
    go_on.register_hook(let_first_end)
    first.sum().backward(retain_graph=True)
    ended.set()
    thread.join()
    assert w.grad.item() == pytest.approx(2 * math.e)
    assert found[0].item() == pytest.approx(3 * math.e)
