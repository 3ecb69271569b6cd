"""Training does not grow: after a warm-up, thousands of steps of every kind leave memory as it was.

The steps run in a process of their own, where nothing that other tests left behind could be reused and hide a leak.
Run as a program, this file prints what each kind of step left behind.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.measured
STEPS = {"train": 100_000}
MOST_STEPS = 10_000  # of the others
# What may be left behind after the warm-up. One block of 64 bytes a step would be 640,000 bytes.
BOUNDS = {
    "tensors": 0,  # bytes in live tensors
    "small": 256 << 10,  # bytes taken from the system for small ones: one more slab
    "malloc": 64 << 10,  # bytes in use by C++: nodes, shapes, hooks
    "objects": 200,  # Python's blocks
    "resident": 512 << 10,
}
SCENARIOS = {}


def scenario(make):
    """`make()` gives the function of one step."""
    SCENARIOS[make.__name__] = make
    return make


def mlp():
    from flambeau import nn

    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))


@scenario
def train():
    import flambeau as torch
    from flambeau.nn import functional as F

    nets = [mlp(), mlp()]
    optimizers = [
        torch.optim.SGD(nets[0].parameters(), lr=0.01, momentum=0.9),
        torch.optim.Adam(nets[1].parameters(), lr=0.001),
    ]

    def step(i):
        x = torch.randn(8, 4)
        loss = F.mse_loss(nets[i % 2](x), x.sum(1, keepdim=True))
        optimizers[i % 2].zero_grad()
        loss.backward()
        optimizers[i % 2].step()
        return loss.item()

    return step


@scenario
def load_batches():
    import flambeau as torch
    from flambeau.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(32, 4), torch.arange(32))

    def step(i):
        if i % 10 == 0:
            step.batches = iter(DataLoader(data, batch_size=3, shuffle=True))
        x, y = next(step.batches)
        rows = torch.tensor([[float(i), 1.0], [2.0, 3.0]])
        return torch.stack([x[0], x[1]]).tolist(), rows.tolist(), y.float().mean().item()

    return step


@scenario
def views_in_place():
    import flambeau as torch

    w = torch.randn(6, 8, requires_grad=True)

    def step(i):
        x = w * 1.0
        x[1:3, ::2] *= 2.0
        x.t()[3].add_(x[0, 0])
        x.view(-1)[5:9].mul_(0.5)
        parts = x.split(2)
        (parts[0] * parts[1].flip(0) + x.narrow(0, 4, 2).clone().zero_()).sum().backward()
        w.grad = None

    return step


@scenario
def wide_tensors():
    import flambeau as torch

    w = torch.randn(64, 64, requires_grad=True)

    def step(i):
        x = torch.cat([w.tanh(), w], 1)[:, : 65 + i % 60]
        torch.sort(x, 1)[0].softmax(1).max().backward()
        w.grad.zero_()

    return step


@scenario
def hooks_and_retained_gradients():
    import flambeau as torch

    net = mlp()
    x = torch.randn(8, 4, requires_grad=True)

    def step(i):
        handles = [
            x.register_hook(lambda g: g * 2),
            net.register_forward_hook(lambda module, args, result: result + 1),
            net[0].weight.register_post_accumulate_grad_hook(lambda p: None),
        ]
        y = net(x)
        y.retain_grad()
        y.register_hook(lambda g: g.clone())
        y.grad_fn.register_hook(lambda sent, grads: None)
        y.sum().backward()
        assert y.grad is not None
        for handle in handles:
            handle.remove()
        x.grad = None
        net.zero_grad()

    return step


@scenario
def higher_derivatives():
    import flambeau as torch

    x = torch.randn(5, requires_grad=True)

    def step(i):
        (first,) = torch.autograd.grad((x.exp() * x.sin()).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first * x).sum(), x, create_graph=True)
        (second * second).sum().backward()
        x.grad = None
        torch.exp(x).sum()  # never run backwards

    return step


@scenario
def exceptions():
    import flambeau as torch
    from flambeau import nn

    class Fails(nn.Module):
        def forward(self, x):
            self.seen = x * 2
            raise ValueError("in forward")

    def refuse(g):
        raise ValueError("in a hook")

    net = nn.Sequential(nn.Linear(4, 4), Fails())
    x = torch.randn(3, 4, requires_grad=True)

    def save_two():
        left = [0, 1]
        with torch.autograd.graph.saved_tensors_hooks(lambda t: left.pop(), lambda i: x):
            x * x.exp()

    def step(i):
        y = x.exp()
        spoilt = y.sum()
        y.mul_(2)
        hooked = x * 3
        hooked.register_hook(refuse)
        calls = [
            lambda: net(x),
            lambda: torch.matmul(x, x),
            lambda: x.sum(7),
            lambda: torch.zeros(2).add("text"),
            lambda: x.index_select(0, torch.tensor([9])),
            spoilt.backward,
            hooked.sum().backward,
            save_two,
        ]
        for call in calls:
            with pytest.raises((ValueError, RuntimeError, IndexError, TypeError)):
                call()
        x.grad = None

    return step


@scenario
def functions():
    import flambeau as torch

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, note):
            result = x * x * x
            ctx.save_for_backward(x, result)
            ctx.note = note
            return result, x.sign()

        @staticmethod
        def backward(ctx, g, unused):
            x, result = ctx.saved_tensors
            return g * 3 * x * x + 0 * result, None

    x = torch.randn(5, requires_grad=True)

    def step(i):
        y, _ = Cube.apply(x, [i])
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        g.sum().backward()
        Cube.apply(x, {"i": i})  # never run backwards
        x.grad = None

    return step


@scenario
def transforms():
    import flambeau as torch
    from flambeau.utils.checkpoint import checkpoint

    x = torch.randn(3, 4)
    w = torch.randn(4, requires_grad=True)

    def step(i):
        torch.func.vmap(torch.func.grad(lambda row: (row * row).sin().sum()))(x)
        checkpoint(lambda a: (a * a).exp(), w, use_reentrant=False).sum().backward()
        w.grad = None

    return step


@scenario
def objects():
    import flambeau as torch

    class Sub(torch.Tensor):
        pass

    def step(i):
        t = torch.ones(2, requires_grad=True)
        t.mine = [t]  # a cycle through an attribute
        s = torch.randn(2).as_subclass(Sub)
        net = mlp()
        net.load_state_dict(net.state_dict())
        return (s + 1).shape, torch.Size([i, 2]), t.storage() if i % 100 == 0 else None

    return step


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def in_use():
    """Bytes that malloc has given out, counting those of Python too large for its own blocks."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    return mallinfo().uordblks


def measure():
    import flambeau as torch

    gc.collect()
    stats = torch.memory.stats()
    return {
        "tensors": stats["live_bytes"],
        "small": stats["small_bytes"],
        "malloc": in_use(),
        "objects": sys.getallocatedblocks(),
        "resident": resident(),
    }


def growth(step, steps):
    """What `steps` steps leave behind, after a fifth as many that may."""
    for i in range(steps // 5):
        step(i)
    before = measure()
    for i in range(steps):
        step(i)
    after = measure()
    return {name: after[name] - before[name] for name in before}


def main():
    import flambeau as torch

    torch.set_num_threads(1)
    for name, make in SCENARIOS.items():
        torch.manual_seed(0)
        print(json.dumps({name: growth(make(), STEPS.get(name, MOST_STEPS))}), flush=True)


@pytest.fixture(scope="module")
def found():
    done = subprocess.run(
        [sys.executable, __file__],
        capture_output=True,
        text=True,
        timeout=900,  # 10 s of computing, on a machine that may be shared
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: left for line in lines for name, left in line.items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_steps_leave_nothing_behind(found, name):
    too_much = {
        what: f"{left}, at most {BOUNDS[what]}"
        for what, left in found[name].items()
        if left > BOUNDS[what]
    }
    assert not too_much


if __name__ == "__main__":
    main()
