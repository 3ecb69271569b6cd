"""Window functions of M points. `sym=False` gives the periodic form: a window of M + 1 points without its last."""

import math

import flambeau as torch

__all__ = (
    "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann "
    "kaiser nuttall"
).split()


def _options(name, M, dtype, layout, device, requires_grad):
    dtype = dtype or torch.get_default_dtype()
    if M < 0:
        raise ValueError(f"{name}: M must not be negative, got {M}")
    if layout not in (None, torch.strided):
        raise ValueError(f"{name}: only the strided layout is supported, got {layout}")
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name}: dtype must be float32 or float64, got {dtype}")
    return {"dtype": dtype, "device": device, "requires_grad": requires_grad}


def _window(name, formula):
    """A window from a formula of its points' numbers 0 .. M - 1, their count and the options."""

    def window(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False, **given):
        options = _options(name, M, dtype, layout, device, requires_grad)
        if M < 2:
            return torch.ones(M, **options)
        if sym and given.get("center") is not None:
            raise ValueError(f"{name}: center is for sym=False, a symmetric window has its own")
        last = M - 1 if sym else M

        def points(start, step):
            stop = start + (M - 1) * step
            return torch.linspace(start, stop, M, dtype=options["dtype"], device=device)

        return formula(points, last, **given).requires_grad_(requires_grad)

    window.__name__ = window.__qualname__ = name
    return window


def _cosines(points, last, *, a):
    weights = list(a)
    if not weights:
        raise ValueError("general_cosine: at least one coefficient is needed, got none")
    angle = points(0.0, 2 * math.pi / last)
    terms = [(-1) ** i * w * torch.cos(i * angle) for i, w in enumerate(weights)]
    return sum(terms)


def _exponential(points, last, *, center=None, tau=1.0):
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got {tau}")
    center = last / 2 if center is None else center
    return torch.exp(-torch.abs(points(-center / tau, 1 / tau)))


def _gaussian(points, last, *, std=1.0):
    if std <= 0:
        raise ValueError(f"gaussian: std must be positive, got {std}")
    step = 1 / (std * math.sqrt(2))
    return torch.exp(-(points(-last / 2 * step, step) ** 2))


def _kaiser(points, last, *, beta=12.0):
    if beta < 0:
        raise ValueError(f"kaiser: beta must not be negative, got {beta}")
    k = torch.clamp(points(-beta, 2 * beta / last), max=beta)
    edge = torch.tensor(beta, dtype=k.dtype, device=k.device)
    return torch.i0(torch.sqrt(beta * beta - k * k)) / torch.i0(edge)


def _cosine(points, last):
    step = math.pi / (last + 1)
    return torch.sin(points(0.5 * step, step))


def _of_cosines(*weights):
    return lambda points, last: _cosines(points, last, a=weights)


bartlett = _window("bartlett", lambda points, last: 1 - torch.abs(points(-1.0, 2 / last)))
blackman = _window("blackman", _of_cosines(0.42, 0.5, 0.08))
cosine = _window("cosine", _cosine)
exponential = _window("exponential", _exponential)
gaussian = _window("gaussian", _gaussian)
general_cosine = _window("general_cosine", _cosines)
general_hamming = _window(
    "general_hamming",
    lambda points, last, *, alpha=0.54: _cosines(points, last, a=[alpha, 1 - alpha]),
)
hamming = _window("hamming", _of_cosines(0.54, 0.46))
hann = _window("hann", _of_cosines(0.5, 0.5))
kaiser = _window("kaiser", _kaiser)
nuttall = _window("nuttall", _of_cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411))
