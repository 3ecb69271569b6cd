"""Functions of the torch namespace whose Python form is not the operator's: mostly those that take
any number of tensors.
"""

import collections
import functools
import itertools
import math

from flambeau import _C

_ops = _C._VariableFunctions

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "eig",
    "einsum",
    "histogramdd",
    "istft",
    "lu",
    "meshgrid",
    "nonzero",
    "norm",
    "pca_lowrank",
    "solve",
    "split",
    "split_with_sizes_copy",
    "spmm",
    "stft",
    "svd_lowrank",
    "tensordot",
    "unbind_copy",
    "unique",
    "unique_consecutive",
    "unravel_index",
]


def _listed(tensors):
    """f(a, b) and f([a, b]) mean the same."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return list(tensors[0])
    return list(tensors)


def meshgrid(*tensors, indexing=None):
    """Coordinates of a grid: the i-th result holds vector i along dim i ("xy" swaps the first two)."""
    if indexing is None:
        return tuple(_ops.meshgrid(_listed(tensors)))
    return tuple(_ops.meshgrid(_listed(tensors), indexing=indexing))


def cartesian_prod(*tensors):
    """All combinations with one element of each vector, one a row."""
    return _ops.cartesian_prod(_listed(tensors))


def block_diag(*tensors):
    """A matrix with the given ones along its diagonal."""
    return _ops.block_diag(_listed(tensors))


def _at_least(op, tensors):
    if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
        return op(tensors[0])
    return tuple(op(t) for t in _listed(tensors))


def atleast_1d(*tensors):
    """Tensors with at least one dim."""
    return _at_least(_ops.atleast_1d, tensors)


def atleast_2d(*tensors):
    """Tensors with at least two dims; new ones come first."""
    return _at_least(_ops.atleast_2d, tensors)


def atleast_3d(*tensors):
    """Tensors with at least three dims."""
    return _at_least(_ops.atleast_3d, tensors)


def broadcast_shapes(*shapes):
    """The shape that all the given ones broadcast to."""
    whole = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    for shape in whole:
        if any(n < 0 for n in shape):
            raise RuntimeError(f"broadcast_shapes: sizes must not be negative, got {shape}")
    result = []
    for sizes in itertools.zip_longest(*(reversed(s) for s in whole), fillvalue=1):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            shown = " and ".join(map(str, whole))
            raise RuntimeError(f"broadcast_shapes: shapes must broadcast, got {shown}")
        result.append(wide.pop() if wide else 1)
    return _C.Size(reversed(result))


def broadcast_tensors(*tensors):
    """Views of the tensors, all with the shape that they broadcast to."""
    tensors = _listed(tensors)
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


def _chosen(values, inverse, counts, return_inverse, return_counts):
    """Only what was asked for; a tensor by itself if that is all."""
    found = [values] + [inverse] * bool(return_inverse) + [counts] * bool(return_counts)
    return tuple(found) if len(found) > 1 else values


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, or slices along dim; with the place of each element among them and
    how often each occurs, if asked for.
    """
    if dim is None:
        found = _ops._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = _ops.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _chosen(*found, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements, or slices along dim, without those equal to the one before them."""
    found = _ops.unique_consecutive(input, return_inverse, return_counts, dim)
    return _chosen(*found, return_inverse, return_counts)


def nonzero(input, *, out=None, as_tuple=False):
    """Indices of the elements that are not zero: one row each, or with as_tuple one tensor a dim."""
    if as_tuple:
        return _ops.nonzero_numpy(input)
    return _ops.nonzero(input, out=out) if out is not None else _ops.nonzero(input)


def unravel_index(indices, shape):
    """Row-major positions as one index tensor a dim."""
    if not isinstance(indices, _C.Tensor):
        raise TypeError(f"unravel_index: indices must be a Tensor, got {type(indices).__name__}")
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype == _C.bool:
        raise TypeError(f"unravel_index: indices must be integers, got {indices.dtype}")
    if not isinstance(shape, (int, list, tuple)):
        raise TypeError(f"unravel_index: shape must be sizes, got {type(shape).__name__}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: sizes must not be negative, got {sizes}")
    steps = list(itertools.accumulate(reversed(sizes[1:]), lambda a, b: a * b, initial=1))
    indices = indices.to(_C.int64)
    return tuple(indices // step % n for step, n in zip(reversed(steps), sizes))


def chain_matmul(*matrices, out=None):
    """The product of several matrices."""
    result = functools.reduce(_ops.matmul, _listed(matrices))
    return result if out is None else out.copy_(result)


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _term(sublist):
    return "".join("..." if s is Ellipsis else _LETTERS[s] for s in sublist)


def einsum(*args):
    """Sums of products in Einstein's notation: einsum("ij,jk->ik", a, b) is a @ b.

    Labels that the output does not name are summed; "..." stands for any leading dims. Instead of an
    equation, each operand may be followed by the list of its labels, and the output's come last.
    """
    if len(args) < 2:
        raise ValueError("einsum: needs an equation and at least one operand")
    if isinstance(args[0], str):
        return _ops.einsum(args[0], _listed(args[1:]))
    operands, labels = list(args[0::2]), [_term(sublist) for sublist in args[1::2]]
    equation = ",".join(labels)
    if len(args) % 2:
        equation += "->" + _term(operands.pop())
    return _ops.einsum(equation, operands)


def tensordot(a, b, dims=2, out=None):
    """Sums products over `dims`: the last of a with the first of b, or two lists of dims."""
    if isinstance(dims, _C.Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot: dims must not be negative, got {dims}")
        if dims > min(_C.Tensor.dim(a), _C.Tensor.dim(b)):
            shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
            raise RuntimeError(f"tensordot: {dims} dims are more than shapes {shapes} have")
        dims = list(range(-dims, 0)), list(range(dims))
    left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    if out is None:
        return _ops.tensordot(a, b, left, right)
    return _ops.tensordot(a, b, left, right, out=out)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """A norm of all entries or along `dim`; p may be "fro", or "nuc" for matrices."""
    if p == "nuc":
        from flambeau import linalg

        result = linalg.matrix_norm(
            input, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim, dtype=dtype
        )
        return result if out is None else out.copy_(result)
    p = 2 if p in ("fro", None) else p
    if isinstance(p, str):
        raise RuntimeError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
    options = {k: v for k, v in (("dtype", dtype), ("out", out)) if v is not None}
    if dim is None and not keepdim and out is None:
        return _ops.norm(input, p, **options)
    dims = list(range(_C.Tensor.dim(input))) if dim is None else dim
    return _ops.norm(input, p, dims, keepdim, **options)


def _norm_method(self, p="fro", dim=None, keepdim=False, dtype=None):
    return norm(self, p, dim, keepdim, dtype=dtype)


_norm_method.__name__ = _norm_method.__qualname__ = "norm"
_C.Tensor.norm = _norm_method


def split(tensor, split_size_or_sections, dim=0):
    """The tensor in pieces of one size along `dim`, or of the sizes in a list."""
    return _C.Tensor.split(tensor, split_size_or_sections, dim)


_C.Tensor.unique, _C.Tensor.unique_consecutive = unique, unique_consecutive


_DISTANCE_MODES = [
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
]


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The p-norm of the difference of each row of x1 and each row of x2."""
    if compute_mode not in _DISTANCE_MODES:
        raise ValueError(
            f"cdist: compute_mode must be one of {_DISTANCE_MODES}, got {compute_mode}"
        )
    return _ops.cdist(x1, x2, p, _DISTANCE_MODES.index(compute_mode) or None)


def _into(outs, results):
    """Results written into a list of tensors, or as they are."""
    if outs is None:
        return tuple(results)
    if not isinstance(outs, (list, tuple)):
        raise TypeError(f"out: must be a tuple of tensors, got {type(outs).__name__}")
    if len(outs) != len(results):
        raise RuntimeError(f"out: {len(results)} tensors are needed, got {len(outs)}")
    for out, result in zip(outs, results):
        _ops.alias_copy(result, out=out)
    return None


def unbind_copy(input, dim=0, *, out=None):
    """Copies of all slices along a dim."""
    return _into(out, _ops.unbind_copy(input, dim))


def split_with_sizes_copy(input, split_sizes, dim=0, *, out=None):
    """Copies of pieces of the given sizes along a dim."""
    return _into(out, _ops.split_with_sizes_copy(input, split_sizes, dim))


def lu(A, pivot=True, get_infos=False, out=None):
    """Old form of linalg.lu_factor: the packed factors and the row exchanges, then the infos."""
    found = _C._linalg.linalg_lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    if not get_infos:
        found = _C._return_type("linalg_lu_factor")(tuple(found)[:2])
    if out is None:
        return found
    _into(list(out), found)
    return out


def _removed(name, instead):
    def function(*args, **kwargs):
        raise RuntimeError(f"{name}: torch has removed this function; use {instead}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"What torch had before {instead}: raises RuntimeError."
    return function


solve = _removed("solve", "linalg.solve(A, B), whose arguments are in the other order")
eig = _removed("eig", "linalg.eig(A)")
spmm = _ops.mm

_Histogramdd = collections.namedtuple("histogramdd", "hist bin_edges")


def _bin_edges(columns, bins, bounds):
    """One row of edges for each column: given, or evenly from the bounds or the extremes."""
    edges = []
    for d, column in enumerate(columns.unbind(1)):
        count = bins if isinstance(bins, int) else bins[d]
        if not isinstance(count, int):
            edges.append(count)
            continue
        low, high = 0.0, 1.0
        if bounds is not None:
            low, high = bounds[2 * d : 2 * d + 2]
        elif column.numel():
            low, high = column.min().item(), column.max().item()
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(_ops.linspace(low, high, count + 1, dtype=columns.dtype))
    return edges


def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """Counts, or weights, of points in a grid of bins; the last dim of input holds coordinates."""
    columns = input.reshape(-1, input.size(-1))
    if not isinstance(bins, int) and len(bins) != columns.size(1):
        raise RuntimeError(f"histogramdd: {columns.size(1)} numbers of bins are needed, got {bins}")
    edges = _bin_edges(columns, bins, range)
    flat = _ops.zeros(columns.size(0), dtype=_C.int64)
    inside = _ops.ones(columns.size(0), dtype=_C.bool)
    for column, edge in zip(columns.unbind(1), edges):
        count = edge.numel() - 1
        place = _ops.searchsorted(edge, column.contiguous(), right=True) - 1
        inside = inside & (column >= edge[0]) & (column <= edge[-1])
        flat = flat * count + place.clamp(0, count - 1)
    sizes = [edge.numel() - 1 for edge in edges]
    weights = _ops.ones(len(flat)) if weight is None else weight.reshape(-1)
    counts = _ops.zeros(math.prod(sizes), dtype=input.dtype)
    counts = counts.index_add(0, flat, (weights * inside).to(input.dtype)).reshape(sizes)
    if density:
        counts = counts / counts.sum()
        for d, edge in enumerate(edges):
            counts = counts / edge.diff().reshape([-1] + [1] * (len(sizes) - d - 1))
    return _Histogramdd(counts, tuple(edges))


def svd_lowrank(A, q=6, niter=2, M=None):
    """The q largest singular values and their vectors, by random projections.

    Source: Halko, Martinsson and Tropp 2009, algorithm 5.1.
    """
    A = A if M is None else A - M
    if A.size(-2) < A.size(-1):
        u, s, v = svd_lowrank(A.mH, q, niter)
        return v, s, u
    q = min(q, A.size(-1))
    qr = _C._linalg.linalg_qr
    basis = qr(A @ _ops.randn(A.size(-1), q, dtype=A.dtype))[0]
    for _ in range(niter):
        basis = qr(A @ qr(A.mH @ basis)[0])[0]
    u, s, vh = _C._linalg.linalg_svd(basis.mH @ A, full_matrices=False)
    return basis @ u, s, vh.mH


def pca_lowrank(A, q=None, center=True, niter=2):
    """Principal components: svd_lowrank of A less the mean of its rows."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"pca_lowrank: q must be in [0, {min(m, n)}], got {q}")
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter must not be negative, got {niter}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


def _stft_window(window, n_fft, win_length, like):
    """The window, ones by default, with zeros around it up to n_fft."""
    if window is None:
        window = _ops.ones(win_length, dtype=like.dtype, device=like.device)
    if window.shape != (win_length,):
        raise RuntimeError(f"stft: window must hold {win_length} numbers, got {window.shape}")
    left = (n_fft - win_length) // 2
    return _C._nn.pad(window, (left, n_fft - win_length - left))


def _stft_lengths(n_fft, hop_length, win_length):
    """What stands for them where they are None: a quarter of a frame and a whole one."""
    hop = n_fft // 4 if hop_length is None else hop_length
    return hop, n_fft if win_length is None else win_length


def stft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """The Fourier transform of windowed frames of n_fft samples, hop_length apart: (*, frequencies, frames)."""
    from flambeau import fft

    hop, win_length = _stft_lengths(n_fft, hop_length, win_length)
    has_complex = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not has_complex:
        raise RuntimeError("stft: return_complex must be given for a real input")
    if center and align_to_window is not None:
        raise RuntimeError("stft: align_to_window needs center=False")
    rows = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        rows = _C._nn.pad(rows.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    length = rows.size(-1)
    if not 0 < n_fft <= length or hop < 1 or not 0 < win_length <= n_fft:
        raise RuntimeError(
            f"stft: 0 < win_length <= n_fft <= {length} and hop_length > 0 are needed, got "
            f"{win_length}, {n_fft} and {hop}"
        )
    frames = rows.unfold(-1, n_fft, hop) * _stft_window(window, n_fft, win_length, rows)
    onesided = not has_complex if onesided is None else onesided
    norm = "ortho" if normalized else None
    spectrum = (fft.rfft if onesided else fft.fft)(frames, norm=norm).mT
    spectrum = spectrum if input.ndim == 2 else spectrum.squeeze(0)
    return spectrum if return_complex is not False else _ops.view_as_real(spectrum)


def istft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """The signal whose stft this is: frames laid over each other, over the sum of squared windows."""
    from flambeau import fft

    hop, win_length = _stft_lengths(n_fft, hop_length, win_length)
    if not input.dtype.is_complex:
        raise RuntimeError(f"istft: a complex input is needed, got {input.dtype}")
    onesided = input.size(-2) != n_fft if onesided is None else onesided
    norm = "ortho" if normalized else None
    columns = (input if input.ndim == 3 else input.unsqueeze(0)).mT
    if return_complex:
        frames = fft.ifft(columns, norm=norm)
    else:  # of a real signal the first half says it all
        half = columns if onesided else columns[..., : n_fft // 2 + 1]
        frames = fft.irfft(half, n_fft, norm=norm)
    real = frames.real if return_complex else frames
    window = _stft_window(window, n_fft, win_length, real)
    count = frames.size(-2)
    total = n_fft + hop * (count - 1)
    places = _ops.arange(count).unsqueeze(1) * hop + _ops.arange(n_fft)
    flat = places.reshape(-1)

    def laid(values):
        sums = _ops.zeros(values.shape[:-2] + (total,), dtype=values.dtype)
        return sums.index_add(-1, flat, values.reshape(values.shape[:-2] + (-1,)))

    signal = laid(frames * window)
    weights = laid((window * window).expand(count, n_fft))
    start = n_fft // 2 if center else 0
    end = total - start if length is None else min(start + length, total)
    signal, weights = signal[..., start:end], weights[start:end]
    if weights.numel() and weights.abs().min().item() < 1e-11:
        raise RuntimeError("istft: the windows must cover every sample; the smallest sum is 0")
    signal = signal / weights
    if length is not None and length > end - start:
        signal = _C._nn.pad(signal, (0, length - (end - start)))
    return signal if input.ndim == 3 else signal.squeeze(0)
