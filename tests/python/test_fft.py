"""Fourier transforms against NumPy's, in every norm, size and number of dims; spectrograms."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import flambeau as torch
from flambeau import fft

NORMS = [None, "forward", "backward", "ortho"]


def samples(*shape, kind="complex128"):
    rng = np.random.default_rng(5)
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if kind == "complex128" else x


def close(a, b):
    np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize(
    "size, n", [(5, None), (8, None), (7, 12), (9, 4), (96, None), (101, None)]
)
def test_one_dim(name, size, n, norm):
    x = samples(3, size, kind="float64" if name in ("rfft", "ihfft") else "complex128")
    close(getattr(fft, name)(torch.tensor(x), n, norm=norm), getattr(np.fft, name)(x, n, norm=norm))
    x = x.T.copy()
    ours = getattr(fft, name)(torch.tensor(x), n, 0, norm)
    close(ours, getattr(np.fft, name)(x, n, 0, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft2", "ifft2", "fftn", "ifftn", "rfftn", "irfftn", "rfft2"])
def test_several_dims(name, norm):
    x = samples(3, 4, 6, kind="float64" if name.startswith("rfft") else "complex128")
    close(getattr(fft, name)(torch.tensor(x), norm=norm), getattr(np.fft, name)(x, norm=norm))
    given = {"s": (5, 4), "norm": norm}
    close(
        getattr(fft, name)(torch.tensor(x), dim=(0, 2), **given),
        getattr(np.fft, name)(x, axes=(0, 2), **given),
    )


@pytest.mark.parametrize("norm", NORMS)
def test_hermitian_transforms_invert_each_other(norm):
    x = torch.tensor(samples(4, 6, kind="float64"))
    back = fft.hfftn(fft.ihfftn(x, norm=norm), s=(4, 6), norm=norm)
    close(back, x.numpy())
    close(fft.hfft2(fft.ihfft2(x, norm=norm), s=(4, 6), norm=norm), x.numpy())


# Passes of every radix, grids with full and with ragged edges, roots from two tables, chirps for large primes.
LENGTHS = [
    *range(1, 34),
    37,
    49,
    60,
    64,
    101,
    121,
    256,
    343,
    384,
    961,
    1009,
    1024,
    2310,
    8191,
    8192,
]
LENGTHS += [3**10, 65536, 65537, 100_000, 2 * 65537, 1 << 18]


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
@pytest.mark.parametrize("size", LENGTHS)
def test_lengths(size, kind):
    """One line, and in a few lines side by side as rows and as columns: as NumPy's in double precision."""
    single, limit = (kind == "complex64"), (3e-6 if kind == "complex64" else 1e-14)
    rng = np.random.default_rng(size)

    def check(ours, theirs):
        scale = np.sqrt(np.mean(np.abs(theirs) ** 2))
        assert ours.shape == theirs.shape and np.abs(ours.numpy() - theirs).max() < limit * scale

    for lines in (1, 19) if size < 3000 else (1, 2):
        x = (rng.normal(size=(lines, size)) + 1j * rng.normal(size=(lines, size))).astype(kind)
        wide, half = x.astype("complex128"), x[:, : size // 2 + 1]
        real, parts = torch.tensor(x.real.copy()), wide.real
        for t in (torch.tensor(x), torch.tensor(x.T.copy()).mT):
            check(fft.fft(t), np.fft.fft(wide))
            check(fft.ifft(t.mT, dim=0).mT, np.fft.ifft(wide))
            check(fft.irfft(t[:, : size // 2 + 1], size), np.fft.irfft(half, size))
        assert fft.rfft(real).dtype == (torch.complex64 if single else torch.complex128)
        check(fft.rfft(real), np.fft.rfft(parts))
        check(fft.fft(real), np.fft.fft(parts))
        check(fft.rfft(real.mT.contiguous(), dim=0), np.fft.rfft(parts.T, axis=0))


def test_bits_do_not_depend_on_threads():
    x = torch.randn(40, 33, 66)
    line = torch.randn(1 << 19)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        found.append((fft.rfft2(x), fft.fftn(x), fft.irfft2(fft.rfft2(x)), fft.rfft(line)))
    torch.set_num_threads(before)
    for others in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], others))


def test_many_threads_make_and_drop_plans():
    sizes = list(range(2, 202))
    lines = {n: torch.randn(n, dtype=torch.complex64) for n in sizes}
    expected = {n: fft.fft(x) for n, x in lines.items()}

    def run(start):
        return all(torch.equal(fft.fft(lines[n]), expected[n]) for n in sizes[start:] + sizes)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(0, 160, 20)))


def test_long_lines_keep_their_energy():
    for n in (1 << 21, 1_000_003):
        x = torch.zeros(n)
        x[3] = 2.0  # a wave of known phase
        y = fft.rfft(x)
        k = torch.arange(y.numel(), dtype=torch.float64)
        angle = -2 * torch.pi * ((3 * k) % n) / n
        wave = 2 * torch.complex(angle.cos(), angle.sin())
        assert (y - wave).abs().max().item() < (1e-6 if n % 2 == 0 else 2e-5)
        assert (fft.irfft(y, n) - x).abs().max().item() < 1e-5


def test_frequencies_and_shifts():
    for n in (4, 5):
        close(fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5).astype("float32"))
        close(fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5).astype("float32"))
        x = samples(n, 3)
        close(fft.fftshift(torch.tensor(x)), np.fft.fftshift(x))
        close(fft.ifftshift(torch.tensor(x), 0), np.fft.ifftshift(x, 0))


def test_gradients_are_the_adjoint_transform():
    x = torch.tensor(samples(6), requires_grad=True)
    w = torch.tensor(samples(6)[::-1].copy())
    (g,) = torch.autograd.grad(fft.fft(x), x, w)
    close(g, np.fft.ifft(w.numpy()) * 6)


def test_dtypes_and_errors():
    assert fft.fft(torch.arange(4)).dtype == torch.complex64
    assert fft.rfft(torch.ones(4)).dtype == torch.complex64
    assert fft.irfft(torch.ones(4)).dtype == torch.float32
    with pytest.raises(IndexError, match="has 0 dims"):
        fft.fft(torch.tensor(1.0))
    with pytest.raises(RuntimeError, match="at least 1, got 0"):
        fft.fft(torch.ones(3), 0)
    with pytest.raises(RuntimeError, match="real input"):
        fft.rfft(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="norm must be .* got 'x'"):
        fft.fft(torch.ones(3), norm="x")


def test_stft_of_a_wave_peaks_at_its_frequency_and_inverts():
    t = torch.arange(256, dtype=torch.float64)
    wave = torch.cos(2 * torch.pi * t / 8)
    window = torch.hann_window(32, dtype=torch.float64)
    spectrum = torch.stft(wave, 32, 8, window=window, return_complex=True)
    assert spectrum.shape == (17, 33)
    assert spectrum.abs()[:, 5:28].argmax(0).unique().tolist() == [4]
    frame = wave[112:144] * window  # the frame in the middle
    close(spectrum[:, 16], np.fft.rfft(frame.numpy()))
    close(torch.istft(spectrum, 32, 8, window=window), wave.numpy())
    pairs = wave.stft(32, 8, window=window, return_complex=False)
    close(pairs, torch.view_as_real(spectrum).numpy())
    assert torch.stft(wave.to(torch.complex128), 32, return_complex=True).shape == (32, 33)
    with pytest.raises(RuntimeError, match="return_complex"):
        torch.stft(wave, 32)
