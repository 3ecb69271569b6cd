"""Automatic mixed precision."""

import pytest

import flambeau as torch
from flambeau.amp import GradScaler, autocast, custom_bwd, custom_fwd


@pytest.fixture
def xw():
    torch.manual_seed(0)
    return torch.randn(3, 4), torch.randn(5, 4, requires_grad=True)


def test_products_run_in_the_lower_type(xw):
    x, w = xw
    with autocast("cpu"):
        y = torch.nn.functional.linear(x, w)
        assert y.dtype is torch.bfloat16
        assert (x @ w.t()).dtype is torch.bfloat16
        assert (x + 1).dtype is torch.float32
        assert torch.cat([x, x.bfloat16()]).dtype is torch.float32
        assert torch.mm(x.double(), x.double().t()).dtype is torch.float64
    assert torch.nn.functional.linear(x, w).dtype is torch.float32
    y.float().sum().backward()
    assert w.grad.dtype is torch.float32 and w.grad.shape == w.shape


def test_values_are_those_of_cast_arguments(xw):
    x, w = xw
    with autocast("cpu", dtype=torch.float16):
        y = torch.nn.functional.linear(x, w)
    expected = torch.nn.functional.linear(x.half(), w.half())
    assert y.dtype is torch.float16 and y.tolist() == expected.tolist()


def test_nesting_and_state(xw):
    x, w = xw
    assert not torch.is_autocast_enabled("cpu")
    with autocast("cpu"):
        assert torch.is_autocast_enabled("cpu") and torch.is_autocast_cpu_enabled()
        with autocast("cpu", enabled=False):
            assert torch.mm(x, w.t()).dtype is torch.float32
        assert torch.mm(x, w.t()).dtype is torch.bfloat16
        assert torch.get_autocast_dtype("cpu") is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_decorator(xw):
    @torch.autocast("cpu")
    def f(a, b):
        return a @ b

    assert f(xw[0], xw[1].t()).dtype is torch.bfloat16


def test_devices_that_are_not_there_stay_off():
    with pytest.warns(UserWarning, match="cuda"):
        context = autocast("cuda")
    with context:
        assert not torch.is_autocast_enabled("cuda")


def test_custom_function_keeps_its_state():
    seen = []

    class F(torch.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x):
            seen.append((x.dtype, torch.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            return g * 2

    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    with autocast("cpu"):
        F.apply(x).float().sum().backward()
    assert seen == [(torch.float32, False)] and x.grad.tolist() == [2, 2]


def test_scaler_skips_infinite_steps_and_moves_the_scale():
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = GradScaler("cpu", init_scale=8.0, growth_interval=1)
    scaler.scale((p * 0.5).sum()).backward()
    assert p.grad.tolist() == [4, 4]
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, 0.5] and scaler.get_scale() == 16
    p.grad = torch.tensor([float("inf"), 0.0])
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, 0.5] and scaler.get_scale() == 8
    other = GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8
    with pytest.raises(RuntimeError, match="already"):
        scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)


@pytest.mark.parametrize("name, lower", [("LSTM", True), ("GRU", False), ("RNN", True)])
def test_recurrent_layers_run_in_the_lower_type(name, lower):
    torch.manual_seed(0)
    net, x = getattr(torch.nn, name)(3, 4), torch.rand(5, 2, 3)
    plain = net(x)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, last = net(x)
    dtype = torch.bfloat16 if lower else torch.float32
    assert out.dtype is dtype and (last[0] if name == "LSTM" else last).dtype is dtype
    assert torch.allclose(out.float(), plain, atol=0.05)
    out.float().sum().backward()
    assert all(p.grad.dtype is torch.float32 for p in net.parameters())
