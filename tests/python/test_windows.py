"""Windows of signal.windows against their formulas."""

import math

import pytest

import flambeau as torch
from flambeau.signal import windows


def cosines(*weights):
    return lambda k, last: sum(
        (-1) ** i * w * math.cos(2 * math.pi * i * k / last) for i, w in enumerate(weights)
    )


FORMULAS = {
    "bartlett": ({}, lambda k, last: 1 - abs(2 * k / last - 1)),
    "blackman": ({}, cosines(0.42, 0.5, 0.08)),
    "cosine": ({}, lambda k, last: math.sin(math.pi * (k + 0.5) / (last + 1))),
    "exponential": ({"tau": 2.0}, lambda k, last: math.exp(-abs(k - last / 2) / 2)),
    "gaussian": ({"std": 1.5}, lambda k, last: math.exp(-0.5 * ((k - last / 2) / 1.5) ** 2)),
    "general_cosine": ({"a": [0.3, 0.7]}, cosines(0.3, 0.7)),
    "general_hamming": ({"alpha": 0.6}, cosines(0.6, 0.4)),
    "hamming": ({}, cosines(0.54, 0.46)),
    "hann": ({}, cosines(0.5, 0.5)),
    "nuttall": ({}, cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411)),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("sym", [True, False])
def test_window(name, sym):
    options, formula = FORMULAS[name]
    f = getattr(windows, name)
    got = f(6, sym=sym, dtype=torch.float64, **options)
    last = 5 if sym else 6
    assert got.tolist() == pytest.approx([formula(k, last) for k in range(6)], abs=1e-12)
    assert f(0, **options).shape == (0,) and f(1, **options).tolist() == [1.0]
    with pytest.raises(ValueError, match=f"{name}: M must not be negative"):
        f(-1, **options)


def test_kaiser_has_its_shape():
    w = windows.kaiser(5, beta=4.0, dtype=torch.float64)
    assert w[2].item() == pytest.approx(1) and w[0].item() == pytest.approx(w[4].item())
    i0 = sum((2.0**k / math.factorial(k)) ** 2 for k in range(40))
    assert w[0].item() == pytest.approx(1 / i0)


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="float32 or float64, got torch.int64"):
        windows.hann(3, dtype=torch.int64)
    with pytest.raises(ValueError, match="std must be positive, got 0"):
        windows.gaussian(3, std=0)
    with pytest.raises(ValueError, match="center is for sym=False"):
        windows.exponential(3, center=1.0)
    assert windows.hann(3, requires_grad=True).requires_grad
