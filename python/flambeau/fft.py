"""Discrete Fourier transforms, composed of matrix products with small factors of the size.

A size n = a b is a transforms of size b, twiddle factors and b transforms of size a (Cooley and Tukey 1965);
a prime size is one product. `norm` says which direction is divided by n: None and "backward" the inverse,
"forward" the other, "ortho" both by its root.
"""

import math

from flambeau import _C

_ops = _C._VariableFunctions

__all__ = (
    "fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn "
    "irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn"
).split()

_LARGEST = 32  # a matrix of roots up to this size is not split further


def _roots(rows, columns, n, sign, like):
    """exp(sign 2 pi i j k / n), with j k reduced before it is rounded."""
    j = _ops.arange(rows, device=like.device).unsqueeze(1)
    k = _ops.arange(columns, device=like.device)
    angle = ((j * k) % n).to(_C.float64) * (sign * 2 * math.pi / n)
    return _ops.complex(angle.cos(), angle.sin()).to(like.dtype)


def _split(n):
    """A factor of n of at most _LARGEST, as large as possible; n itself where there is none."""
    if n > _LARGEST:
        for a in range(_LARGEST, 1, -1):
            if n % a == 0:
                return a
    return n


def _transform(x, sign):
    """The transform of complex numbers along the last dim, without a factor."""
    n = x.size(-1)
    a = _split(n)
    if a == n:
        return x @ _roots(n, n, n, sign, x)
    b = n // a
    grid = x.reshape(x.shape[:-1] + (b, a)).mT  # element (j, k) stands at k a + j
    inner = _transform(grid, sign) * _roots(a, b, n, sign, x)
    return _transform(inner.mT, sign).mT.reshape(x.shape)


def _wrap(name, x, dim):
    if not -max(x.ndim, 1) <= dim < max(x.ndim, 1) or x.ndim == 0:
        raise IndexError(f"{name}: dim {dim} does not exist, the input has {x.ndim} dims")
    return dim % x.ndim


def _factor(name, norm, n, inverse):
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f"{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if inverse == (norm != "forward") else 1.0


def _resized(name, x, n, dim):
    """Cut or filled with zeros to n elements along dim."""
    if n < 1:
        raise RuntimeError(f"{name}: the transformed size must be at least 1, got {n}")
    have = x.size(dim)
    if have >= n:
        return x.narrow(dim, 0, n)
    sizes = list(x.shape)
    sizes[dim] = n - have
    return _ops.cat([x, _ops.zeros(sizes, dtype=x.dtype, device=x.device)], dim)


def _as_complex(name, x):
    if x.dtype in (_C.float16, _C.bfloat16):
        raise RuntimeError(f"{name}: not defined for {x.dtype}; convert to float32")
    return x if x.dtype.is_complex else x.to(_C.result_type(x, 1j))


def _as_real(name, x):
    if x.dtype.is_complex:
        raise RuntimeError(f"{name}: a real input is needed, got {x.dtype}")
    return _as_complex(name, x)


def _given(result, out):
    return result if out is None else _ops.alias_copy(result, out=out)


def _one(name, x, n, dim, norm, inverse):
    """A transform of complex numbers along one dim."""
    dim = _wrap(name, x, dim)
    x = _resized(name, _as_complex(name, x), x.size(dim) if n is None else n, dim)
    factor = _factor(name, norm, x.size(dim), inverse)
    y = _transform(x.movedim(dim, -1), 1 if inverse else -1).movedim(-1, dim)
    return y if factor == 1 else y * factor


def _half(name, x, n, dim, norm, inverse):
    """The first half of a real input's spectrum, which determines the rest."""
    x = _as_real(name, x)
    y = _one(name, x, n, dim, norm, inverse)
    dim = _wrap(name, y, dim)
    return y.narrow(dim, 0, y.size(dim) // 2 + 1)


def _from_half(name, x, n, dim, norm, inverse):
    """The real numbers whose spectrum has this first half."""
    dim = _wrap(name, x, dim)
    n = 2 * (x.size(dim) - 1) if n is None else n
    if n < 1:
        raise RuntimeError(f"{name}: the transformed size must be at least 1, got {n}")
    x = _resized(name, _as_complex(name, x), n // 2 + 1, dim)
    mirrored = x.narrow(dim, 1, (n - 1) // 2).flip(dim).conj()
    return _one(name, _ops.cat([x, mirrored], dim), n, dim, norm, inverse).real


def fft(input, n=None, dim=-1, norm=None, *, out=None):
    """Sums of input[j] exp(-2 pi i j k / n) over j, for each k."""
    return _given(_one("fft", input, n, dim, norm, False), out)


def ifft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of fft."""
    return _given(_one("ifft", input, n, dim, norm, True), out)


def rfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The first n // 2 + 1 elements of the fft of a real input."""
    return _given(_half("rfft", input, n, dim, norm, False), out)


def irfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of rfft: n real numbers, by default an even n."""
    return _given(_from_half("irfft", input, n, dim, norm, True), out)


def hfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The real fft of the n numbers of a Hermitian input, of which the first half is given."""
    return _given(_from_half("hfft", input, n, dim, norm, False), out)


def ihfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of hfft: the first half of a Hermitian sequence."""
    return _given(_half("ihfft", input, n, dim, norm, True), out)


def _axes(name, x, s, dim):
    """The dims that are transformed, and their sizes; -1 keeps one."""
    if dim is not None:
        dims = [_wrap(name, x, d) for d in ((dim,) if isinstance(dim, int) else dim)]
    else:
        if s is not None and len(s) > x.ndim:
            raise RuntimeError(f"{name}: s has {len(s)} sizes, the input {x.ndim} dims")
        dims = list(range(x.ndim - len(s) if s is not None else 0, x.ndim))
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"{name}: dims must differ, got {dim}")
    s = [None] * len(dims) if s is None else [s] if isinstance(s, int) else list(s)
    if len(s) != len(dims):
        raise RuntimeError(f"{name}: s and dim must be of one length, got {len(s)} and {len(dims)}")
    return [(d, None if n == -1 else n) for d, n in zip(dims, s)]


def _last(name, x, s, dim):
    axes = _axes(name, x, s, dim)
    if not axes:
        raise RuntimeError(f"{name}: at least one dim must be transformed")
    return axes[:-1], axes[-1]


def _several(name, x, axes, norm, inverse):
    for d, n in axes:
        x = _one(name, x, n, d, norm, inverse)
    return x


def fftn(input, s=None, dim=None, norm=None, *, out=None):
    """fft along several dims, by default all."""
    x = _as_complex("fftn", input)
    return _given(_several("fftn", x, _axes("fftn", x, s, dim), norm, False), out)


def ifftn(input, s=None, dim=None, norm=None, *, out=None):
    """The inverse of fftn."""
    x = _as_complex("ifftn", input)
    return _given(_several("ifftn", x, _axes("ifftn", x, s, dim), norm, True), out)


def _half_several(name, input, s, dim, norm, inverse):
    others, (d, n) = _last(name, input, s, dim)
    return _several(name, _half(name, input, n, d, norm, inverse), others, norm, inverse)


def _from_half_several(name, input, s, dim, norm, inverse):
    others, (d, n) = _last(name, input, s, dim)
    n = 2 * (input.size(d) - 1) if n is None else n
    x = _several(name, _as_complex(name, input), others, norm, inverse)
    return _from_half(name, x, n, d, norm, inverse)


def rfftn(input, s=None, dim=None, norm=None, *, out=None):
    """rfft along the last of several dims, fft along the others."""
    return _given(_half_several("rfftn", input, s, dim, norm, False), out)


def irfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The inverse of rfftn."""
    return _given(_from_half_several("irfftn", input, s, dim, norm, True), out)


def hfftn(input, s=None, dim=None, norm=None, *, out=None):
    """hfft along the last of several dims, fft along the others."""
    others, (d, n) = _last("hfftn", input, s, dim)
    n = 2 * (input.size(d) - 1) if n is None else n
    x = _several("hfftn", _as_complex("hfftn", input), others, norm, False)
    return _given(_from_half("hfftn", x, n, d, norm, False), out)


def ihfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The inverse of hfftn."""
    return _given(_half_several("ihfftn", input, s, dim, norm, True), out)


def _of_two(name, function):
    def two(input, s=None, dim=(-2, -1), norm=None, *, out=None):
        return function(input, s, dim, norm, out=out)

    two.__name__ = two.__qualname__ = name
    two.__doc__ = f"{function.__name__} along two dims."
    return two


fft2, ifft2 = _of_two("fft2", fftn), _of_two("ifft2", ifftn)
rfft2, irfft2 = _of_two("rfft2", rfftn), _of_two("irfft2", irfftn)
hfft2, ihfft2 = _of_two("hfft2", hfftn), _of_two("ihfft2", ihfftn)


def fftfreq(n, d=1.0, *, out=None, **options):
    """The frequencies of fft's n results, negative ones last, for samples d apart."""
    positive = _ops.arange(0, (n + 1) // 2, **options)
    both = _ops.cat([positive, _ops.arange(-(n // 2), 0, **options)])
    return _given(both * (1.0 / (n * d)), out)


def rfftfreq(n, d=1.0, *, out=None, **options):
    """The frequencies of rfft's n // 2 + 1 results, for samples d apart."""
    return _given(_ops.arange(n // 2 + 1, **options) * (1.0 / (n * d)), out)


def _shift(x, dim, back):
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    steps = [(x.size(d) + 1) // 2 if back else x.size(d) // 2 for d in dims]
    return x.roll(steps, list(dims)) if steps else x.clone()


def fftshift(input, dim=None):
    """Frequency zero in the middle."""
    return _shift(input, dim, False)


def ifftshift(input, dim=None):
    """The inverse of fftshift."""
    return _shift(input, dim, True)
