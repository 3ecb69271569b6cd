"""What small calls cost, measured against plain Python in the same run: the best of many turns."""

import timeit

import pytest

import flambeau as torch
from flambeau import nn, optim

pytestmark = pytest.mark.measured


def times(statements, names, loops=5000, turns=60):
    """The least time of one run of each statement; they take turns, so that noise hits them alike."""
    timers = {key: timeit.Timer(text, globals=names) for key, text in statements.items()}
    best = dict.fromkeys(timers, float("inf"))
    for _ in range(turns):
        for key, timer in timers.items():
            best[key] = min(best[key], timer.timeit(loops) / loops)
    return best


def nothing():
    pass


def test_ops_on_one_element():
    names = {"f": nothing, "x": torch.ones(1), "g": torch.ones(1, requires_grad=True)}
    t = times({"call": "f()", "mul": "x * x", "number": "2 * x", "grad": "g * g"}, names)
    assert t["mul"] <= 5 * t["call"]
    assert t["number"] <= 1.3 * t["mul"]
    assert t["grad"] <= 1.8 * t["mul"]


def test_modules_cost_little():
    class Plain:
        pass

    plain = Plain()
    plain.weight = 1
    names = {"f": nothing, "p": plain, "m": nn.Linear(2, 2), "i": nn.Identity(), "x": 1}
    t = times({"call": "f()", "plain": "p.weight", "weight": "m.weight", "call_i": "i(x)"}, names)
    assert t["weight"] <= 3 * t["plain"]
    assert t["call_i"] <= 6 * t["call"]


def test_adam_over_many_small_tensors():
    params = [nn.Parameter(torch.rand(16)) for _ in range(3000)]
    for p in params:
        p.grad = torch.rand(16) - 0.5
    opt = optim.Adam(params, lr=0.01)
    t = times({"step": "opt.step()"}, {"opt": opt}, 1, 40)
    assert t["step"] <= 1.5e-3


def ulps(a, b):
    """Steps between neighbouring float32 numbers."""
    a, b = a.view(torch.int32).to(torch.int64), b.view(torch.int32).to(torch.int64)
    return (a - b).abs().max().item()


@pytest.mark.parametrize("steps", [1, 5])
def test_one_step_over_many_tensors_is_the_loop_over_them(steps):
    def make():
        torch.manual_seed(1)
        params = [nn.Parameter(torch.rand(16)) for _ in range(50)]
        for p in params:
            p.grad = torch.rand(16) - 0.5
        return params

    together, alone = make(), make()
    opt, loops = optim.Adam(together, lr=0.01), [optim.Adam([p], lr=0.01) for p in alone]
    for _ in range(steps):
        opt.step()
        for one in loops:
            one.step()
    assert max(ulps(a.detach(), b.detach()) for a, b in zip(together, alone)) <= 1
