"""Optimizers against their formulas, layouts and dtypes; groups, state, hooks, schedules."""

import copy
import math
import pickle

import pytest

import flambeau as torch
from flambeau import nn, optim


def parameter(values, grad, dtype=torch.float64):
    p = nn.Parameter(torch.tensor(values, dtype=dtype))
    p.grad = torch.tensor(grad, dtype=dtype)
    return p


def test_sgd_with_everything():
    p = parameter([1.0, -2.0], [0.5, 0.25])
    opt = optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, maximize=True)
    expected, buffer = [1.0, -2.0], [None, None]
    for _ in range(3):
        opt.step()
        for i, g in enumerate([0.5, 0.25]):
            g = -g + 0.01 * expected[i]
            buffer[i] = g if buffer[i] is None else 0.9 * buffer[i] + g
            expected[i] -= 0.1 * (g + 0.9 * buffer[i])
    assert p.tolist() == pytest.approx(expected, rel=1e-14)
    assert opt.state[p]["momentum_buffer"].tolist() == pytest.approx(buffer, rel=1e-14)


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("beta1", [0.9, 0.3])
def test_adam(decoupled, amsgrad, beta1):
    p = parameter([1.0, -2.0], [0.5, 0.25])
    kind = optim.AdamW if decoupled else optim.Adam
    opt = kind([p], lr=0.1, betas=(beta1, 0.99), weight_decay=0.01, amsgrad=amsgrad)
    x, m, v, top = [1.0, -2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    for t in range(1, 5):
        p.grad = torch.tensor([0.5 / t, 0.25], dtype=torch.float64)
        opt.step()
        for i, g in enumerate([0.5 / t, 0.25]):
            if decoupled:
                x[i] *= 1 - 0.1 * 0.01
            else:
                g += 0.01 * x[i]
            m[i] += (1 - beta1) * (g - m[i])
            v[i] = 0.99 * v[i] + 0.01 * g * g
            top[i] = max(top[i], v[i])
            root = math.sqrt((top if amsgrad else v)[i] / (1 - 0.99**t)) + 1e-8
            x[i] -= 0.1 / (1 - beta1**t) * m[i] / root
    assert p.tolist() == pytest.approx(x, rel=1e-12)
    assert opt.state[p]["step"].item() == 4


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam])
@pytest.mark.parametrize(
    "dtype, tolerance", [("float32", 1e-6), ("float16", 2e-3), ("bfloat16", 2e-2)]
)
def test_narrow_dtypes_follow_float64(kind, dtype, tolerance):
    values = [0.5 + 0.01 * i for i in range(37)]
    grads = [1 + 0.5 * math.sin(i) for i in range(37)]
    wide, narrow = parameter(values, grads), parameter(values, grads, getattr(torch, dtype))
    options = {"momentum": 0.9} if kind is optim.SGD else {}
    for p in (wide, narrow):
        opt = kind([p], lr=0.05, **options)
        for _ in range(3):
            opt.step()
    assert narrow.dtype == getattr(torch, dtype)
    assert narrow.double().tolist() == pytest.approx(wide.tolist(), abs=2 * tolerance)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam])
def test_strided_parameters_and_gradients(kind):
    values = [[float(i * 5 + j) for j in range(5)] for i in range(4)]
    plain = parameter(values, values)
    base = torch.tensor(values, dtype=torch.float64)
    transposed = nn.Parameter(base.t().contiguous().t())
    transposed.grad = base.clone()
    spread = nn.Parameter(torch.zeros(4, 10, dtype=torch.float64)[:, ::2])
    with torch.no_grad():
        spread.copy_(base)
    spread.grad = base.t().contiguous().t()
    for p in (plain, transposed, spread):
        opt = kind([p], lr=0.1)
        opt.step()
        opt.step()
    assert transposed.tolist() == plain.tolist() and spread.tolist() == plain.tolist()


def test_step_raises_the_version_and_names_itself():
    p = nn.Parameter(torch.ones(2))
    loss = (p * p).sum()
    p.grad = torch.ones(2)
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="SGD.step"):
        loss.backward()


def test_wrong_gradients_are_refused():
    p = nn.Parameter(torch.ones(2))
    with pytest.raises(TypeError, match="7 arguments|8 arguments"):
        torch._C._sgd_step([p], {}, 0.1)
    with pytest.raises(TypeError, match="parameter"):
        torch._C._zero_grad([3], True)


def test_missing_gradients_and_zero_grad():
    a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    opt = optim.Adam([a, b])
    a.grad = torch.ones(2)
    opt.step()
    assert b.tolist() == [1, 1] and len(opt.state) == 1
    opt.zero_grad(set_to_none=False)
    assert a.grad.tolist() == [0, 0]
    opt.zero_grad()
    assert a.grad is None


def test_groups_and_their_errors():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    opt = optim.SGD([{"params": [a], "lr": 0.5}, {"params": b}], lr=0.1)
    assert [g["lr"] for g in opt.param_groups] == [0.5, 0.1]
    with pytest.raises(ValueError, match="more than one parameter group"):
        opt.add_param_group({"params": [a]})
    with pytest.raises(TypeError, match="a set"):
        opt.add_param_group({"params": {nn.Parameter(torch.ones(1))}})
    with pytest.raises(ValueError, match="leaves"):
        optim.SGD([a * 2], lr=0.1)
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([])
    with pytest.raises(ValueError, match="learning rate value: -1"):
        optim.SGD([a], lr=-1)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_keep_the_state(duplicate):
    p = parameter([1.0], [1.0])
    opt = optim.Adam([p])
    opt.step()
    other = duplicate(opt)
    (q,) = other.param_groups[0]["params"]
    assert other.state[q]["exp_avg"].tolist() == opt.state[p]["exp_avg"].tolist()
    q.grad = torch.ones(1, dtype=torch.float64)
    other.step()


def test_load_state_dict_casts():
    p = parameter([1.0], [1.0], torch.float32)
    opt = optim.Adam([p])
    opt.step()
    q = parameter([1.0], [1.0])
    other = optim.Adam([q])
    other.load_state_dict(opt.state_dict())
    assert other.state[q]["exp_avg"].dtype == torch.float64
    assert other.state[q]["step"].dtype == torch.float32
    with pytest.raises(ValueError, match="parameter group 0 has 2 parameters, in the state dict 3"):
        optim.Adam([p, q]).load_state_dict(optim.Adam([q, p, parameter([1.0], [1.0])]).state_dict())


def test_hooks_and_closure():
    p, log = parameter([1.0], [1.0]), []
    opt = optim.SGD([p], lr=1.0)
    opt.register_step_pre_hook(lambda o, args, kwargs: log.append("before"))
    opt.register_step_post_hook(lambda o, args, kwargs: log.append("after"))

    def closure():
        assert torch.is_grad_enabled()
        log.append("closure")
        return 5

    with torch.no_grad():
        assert opt.step(closure) == 5
    assert log == ["before", "closure", "after"] and p.item() == 0


@pytest.mark.parametrize(
    "kind",
    "Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD NAdam RAdam RMSprop Rprop SGD".split(),
)
def test_every_optimizer_goes_down(kind):
    p = nn.Parameter(torch.tensor([3.0, -2.0]))
    opt = getattr(optim, kind)([p], lr=0.05)
    losses = []
    for _ in range(30):
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_solves_a_quadratic(search):
    p = nn.Parameter(torch.tensor([3.0, -2.0]))
    opt = optim.LBFGS([p], lr=0.5, line_search_fn=search, max_iter=50)

    def closure():
        opt.zero_grad()
        loss = ((p - torch.tensor([1.0, 2.0])) ** 2 * torch.tensor([1.0, 10.0])).sum()
        loss.backward()
        return loss

    opt.step(closure)
    assert p.tolist() == pytest.approx([1, 2], abs=1e-3)


def test_clipping_is_one_norm():
    a, b = parameter([0.0], [3.0]), parameter([0.0], [4.0])
    norm = nn.utils.clip_grad_norm_([a, b], 1.0)
    assert norm.item() == 5 and a.grad.item() == pytest.approx(0.6)
    assert nn.utils.clip_grad_norm_([a, b], 1.0).item() == pytest.approx(1)
    a.grad.fill_(math.inf)
    with pytest.raises(RuntimeError, match="norm"):
        nn.utils.clip_grad_norm_([a, b], 1.0, error_if_nonfinite=True)


def test_schedule_writes_the_rate():
    p = parameter([1.0], [1.0])
    opt = optim.SGD([p], lr=1.0)
    schedule = optim.lr_scheduler.StepLR(opt, 2, gamma=0.5)
    rates = []
    for _ in range(5):
        opt.step()
        schedule.step()
        rates.append(opt.param_groups[0]["lr"])
    assert rates == [1.0, 0.5, 0.5, 0.25, 0.25] and schedule.get_last_lr() == [0.25]
