"""Discrete Fourier transforms.

`norm` says which direction is divided by n: None and "backward" the inverse, "forward" the other, "ortho" both by its
root.
"""

from flambeau import _C

_ops = _C._VariableFunctions

__all__ = (
    "fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn "
    "irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn"
).split()


def _wrap(name, x, dim):
    if not -max(x.ndim, 1) <= dim < max(x.ndim, 1) or x.ndim == 0:
        raise IndexError(f"{name}: dim {dim} does not exist, the input has {x.ndim} dims")
    return dim % x.ndim


def _normalization(name, norm, forward):
    """What the ops call it: 0 for none, 1 by the root of the number of elements, 2 by the number."""
    if norm is None or norm == "backward":
        return 0 if forward else 2
    if norm not in ("ortho", "forward"):
        raise RuntimeError(f"{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    return 1 if norm == "ortho" else 2 if forward else 0


def _resized(name, x, axes):
    """Along each dim cut or filled with zeros to the size beside it, unless that is None."""
    for dim, n in axes:
        have = x.size(dim)
        n = have if n is None else n
        if n < 1:
            raise RuntimeError(f"{name}: the transformed size must be at least 1, got {n}")
        if have > n:
            x = x.narrow(dim, 0, n)
        elif have < n:
            sizes = list(x.shape)
            sizes[dim] = n - have
            x = _ops.cat([x, _ops.zeros(sizes, dtype=x.dtype, device=x.device)], dim)
    return x


def _inexact(name, x):
    """A floating or complex input; integers become the default float type."""
    if x.dtype in (_C.float16, _C.bfloat16):
        raise RuntimeError(f"{name}: not defined for {x.dtype}; convert to float32")
    return x if x.dtype.is_complex or x.dtype.is_floating_point else x.to(_C.result_type(x, 1.0))


def _as_complex(name, x):
    x = _inexact(name, x)
    return x if x.dtype.is_complex else x.to(_C.result_type(x, 1j))


def _as_real(name, x):
    if x.dtype.is_complex:
        raise RuntimeError(f"{name}: a real input is needed, got {x.dtype}")
    return _inexact(name, x)


def _given(result, out):
    return result if out is None else _ops.alias_copy(result, out=out)


def _full(name, x, axes, norm, forward):
    """The whole spectrum along axes: pairs of a dim and the size to cut or fill it to, None to leave it."""
    x = _resized(name, _inexact(name, x), axes)
    normalization = _normalization(name, norm, forward)
    dims = [d for d, _ in axes]
    if x.dtype.is_complex:
        return _ops._fft_c2c(x, dims, normalization, forward)
    if not dims:
        return _as_complex(name, x)
    return _ops._fft_r2c(x, dims, normalization, False, forward)


def _half(name, x, axes, norm, forward):
    """The first half, along the last of the axes, of a real input's spectrum; it determines the rest."""
    x = _resized(name, _as_real(name, x), axes)
    dims = [d for d, _ in axes]
    return _ops._fft_r2c(x, dims, _normalization(name, norm, forward), True, forward)


def _from_half(name, x, axes, norm, forward):
    """The real numbers whose spectrum has this first half along the last of the axes."""
    x = _as_complex(name, x)
    last, count = axes[-1]
    count = 2 * (x.size(last) - 1) if count is None else count
    if count < 1:
        raise RuntimeError(f"{name}: the transformed size must be at least 1, got {count}")
    x = _resized(name, x, [*axes[:-1], (last, count // 2 + 1)])
    dims = [d for d, _ in axes]
    return _ops._fft_c2r(x, dims, _normalization(name, norm, forward), count, forward)


def fft(input, n=None, dim=-1, norm=None, *, out=None):
    """Sums of input[j] exp(-2 pi i j k / n) over j, for each k."""
    axes = [(_wrap("fft", input, dim), n)]
    return _given(_full("fft", input, axes, norm, True), out)


def ifft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of fft."""
    axes = [(_wrap("ifft", input, dim), n)]
    return _given(_full("ifft", input, axes, norm, False), out)


def rfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The first n // 2 + 1 elements of the fft of a real input."""
    axes = [(_wrap("rfft", input, dim), n)]
    return _given(_half("rfft", input, axes, norm, True), out)


def irfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of rfft: n real numbers, by default an even n."""
    axes = [(_wrap("irfft", input, dim), n)]
    return _given(_from_half("irfft", input, axes, norm, False), out)


def hfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The real fft of the n numbers of a Hermitian input, of which the first half is given."""
    axes = [(_wrap("hfft", input, dim), n)]
    return _given(_from_half("hfft", input, axes, norm, True), out)


def ihfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of hfft: the first half of a Hermitian sequence."""
    axes = [(_wrap("ihfft", input, dim), n)]
    return _given(_half("ihfft", input, axes, norm, False), out)


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


def _some_axes(name, x, s, dim):
    axes = _axes(name, x, s, dim)
    if not axes:
        raise RuntimeError(f"{name}: at least one dim must be transformed")
    return axes


def fftn(input, s=None, dim=None, norm=None, *, out=None):
    """fft along several dims, by default all."""
    axes = _axes("fftn", input, s, dim)
    return _given(_full("fftn", input, axes, norm, True), out)


def ifftn(input, s=None, dim=None, norm=None, *, out=None):
    """The inverse of fftn."""
    axes = _axes("ifftn", input, s, dim)
    return _given(_full("ifftn", input, axes, norm, False), out)


def rfftn(input, s=None, dim=None, norm=None, *, out=None):
    """rfft along the last of several dims, fft along the others."""
    axes = _some_axes("rfftn", input, s, dim)
    return _given(_half("rfftn", input, axes, norm, True), out)


def irfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The inverse of rfftn."""
    axes = _some_axes("irfftn", input, s, dim)
    return _given(_from_half("irfftn", input, axes, norm, False), out)


def hfftn(input, s=None, dim=None, norm=None, *, out=None):
    """hfft along the last of several dims, fft along the others."""
    axes = _some_axes("hfftn", input, s, dim)
    return _given(_from_half("hfftn", input, axes, norm, True), out)


def ihfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The inverse of hfftn."""
    axes = _some_axes("ihfftn", input, s, dim)
    return _given(_half("ihfftn", input, axes, norm, False), out)


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
