"""Test rows of ops/resample.toml: each dim is a matrix, built element by element."""

import math

import numpy as np

from tests.ops.rows import FLOATS, HALVES, Op, S, V, error

# Weights of single precision differ from those in double by the places they are computed from.
LOOSE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}


def keys(x, a=-0.75):
    x = abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


def weights(n, m, kind, align, factor):
    """The (m, n) matrix that resizes n elements to m."""
    step = (n - 1) / max(m - 1, 1) if align else (1 / factor if factor else n / m)
    w = np.zeros((m, n))
    for i in range(m):
        x = step * i if align else step * (i + 0.5) - 0.5
        if kind == "nearest":
            w[i, min(int(i * step), n - 1)] = 1
        elif kind == "exact":
            w[i, min(int((i + 0.5) * step), n - 1)] = 1
        elif kind in ("triangle", "smooth"):
            wide, center = max(step, 1), step * (i + 0.5)
            for j in range(n):
                at = (j + 0.5 - center) / wide
                w[i, j] = max(1 - abs(at), 0) if kind == "triangle" else keys(at, -0.5)
            w[i] /= w[i].sum()
        else:
            x = max(x, 0) if kind == "linear" else x
            for j in range(math.floor(x) - 1, math.floor(x) + 3):
                part = max(1 - abs(x - j), 0) if kind == "linear" else keys(x - j)
                w[i, min(max(j, 0), n - 1)] += part
    return w


def resized(kind):
    def ref(x, size, *rest):
        align = rest[0] if rest and isinstance(rest[0], bool) else False
        factors = next((r for r in rest if isinstance(r, list)), None)
        if size is None:
            size = [int(n * f) for n, f in zip(x.shape[2:], factors)]
        for d, m in enumerate(size):
            w = weights(x.shape[d + 2], m, kind, align, factors and factors[d])
            x = np.moveaxis(np.tensordot(w, x, (1, d + 2)), 0, d + 2)
        return x

    return ref


def resize(name, kind, dims, align):
    shape = (2, 3) + (4, 5, 3)[:dims]
    sizes = [[7, 3, 6][:dims], [2, 5, 3][:dims]]
    factors = [1.5, 2.0, 0.7][:dims]
    if align:
        samples = [S(shape, s, a) for s in sizes for a in (False, True)]
        samples.append(S(shape, None, False, factors))
    else:
        samples = [S(shape, s) for s in sizes] + [S(shape, None, factors)]
    tail = (False,) if align else ()
    return Op(
        name,
        samples,
        resized(kind),
        FLOATS + HALVES,
        tol=LOOSE,
        out=False,
        errors=[
            error((3, 4), [2] * dims, *tail, type=RuntimeError, match=r"dims, got shape \(3, 4\)"),
            error(shape, [0] * dims, *tail, type=RuntimeError, match="must be positive"),
        ],
    )


def taps(x, n, mode, padding, align):
    """[(place, weight)] of one coordinate; a place outside counts nothing."""
    x = (x + 1) / 2 * (n - 1) if align else ((x + 1) * n - 1) / 2

    def fold(x):
        low, span = (0, n - 1) if align else (-0.5, n)
        if padding == 2 and span:
            x = abs(x - low)
            x = x % span + low if x // span % 2 == 0 else span - x % span + low
        return min(max(x, 0), n - 1) if padding else x

    if mode == 2:
        low = math.floor(x)
        return [(fold(low + k), keys(x - low - k)) for k in (-1, 0, 1, 2)]
    x = fold(x)
    if mode == 1:
        return [(round(x), 1.0)]
    return [(math.floor(x), 1 - x + math.floor(x)), (math.floor(x) + 1, x - math.floor(x))]


def sampled(x, grid, mode, padding, align):
    out = np.zeros(x.shape[:2] + grid.shape[1:-1])
    for n, *at in np.ndindex(grid.shape[:-1]):
        values = x[n]
        point = grid[(n, *at)]
        for d, size in enumerate(x.shape[2:]):
            pairs = taps(point[len(point) - 1 - d], size, mode, padding, align)
            inside = [(int(p), w) for p, w in pairs if 0 <= p < size]
            values = sum((values[:, p] * w for p, w in inside), np.zeros_like(values[:, 0]))
        out[(n, slice(None), *at)] = values
    return out


POINTS = V([[[[-1.3, 0.2], [0.15, -0.45]], [[0.61, 1.7], [0.93, -2.3]]]], "float64")


def grid_op(name, shape, grid, modes):
    samples = [
        S(shape, grid, mode, padding, align)
        for mode in modes
        for padding in (0, 1, 2)
        for align in (False, True)
    ]
    return Op(
        name,
        samples,
        sampled,
        ("float64",),
        second=False,
        errors=[
            error((2, 2), (2, 2), 0, 0, False, type=RuntimeError, match=r"shapes \(2, 2\)"),
            error(
                (1, 1, 2, 2), (1, 2, 2, 3), 0, 0, False, type=RuntimeError, match="2 coordinates"
            ),
        ],
    )


def affine_ref(theta, size, align):
    def places(n):
        x = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        return x if align else x * (n - 1) / n

    axes = np.meshgrid(*[places(n) for n in size[2:]], indexing="ij")[::-1]
    base = np.stack([*axes, np.ones_like(axes[0])], -1)
    return np.stack([base @ t.T for t in theta])


VOLUME_POINTS = V([[[[[-0.3, 0.2, 0.9], [0.15, -0.45, -1.4]]]]], "float64")


def chosen(x, dim, starts, places, w=None):
    w = np.ones(len(places)) if w is None else w
    matrix = np.zeros((len(starts) - 1, x.shape[dim]))
    for i, (begin, end) in enumerate(zip(starts, starts[1:])):
        for e in range(begin, end):
            matrix[i, places[e]] += w[e]
    return np.moveaxis(np.tensordot(matrix, x, (1, dim)), 0, dim)


def table(*values):
    return V(list(values), "int64")


PARTS = V([0.5, 2, -1, 0.25, 1, 3, -2], "float64")
OPS = [
    Op(
        "_resample",
        [
            S((3, 4), -1, table(0, 2, 2, 5), table(0, 3, 1, 1, 2)),
            S((2, 4, 3), 1, table(0, 3, 4, 6, 7), table(0, 3, 1, 1, 2, 0, 3), PARTS),
            S((20, 9), 1, table(0, 3, 4, 6, 7), table(8, 3, 1, 1, 2, 0, 5), PARTS),
            S((4, 37), 0, table(0, 3, 4, 6, 7), table(0, 3, 1, 1, 2, 0, 3), PARTS),
            S((5,), 0, table(0, 0), table()),
        ],
        chosen,
        ("float64",),
        errors=[
            error((3,), 0, table(0, 1), table(3), type=IndexError, match="index 3"),
            error((3,), 0, table(0, 2, 1), table(1), type=RuntimeError, match="must rise from 0"),
            error((3,), 0, table(1, 1), table(1), type=RuntimeError, match="must rise from 0"),
            error((), 0, table(0), table(), type=RuntimeError, match="0-d"),
        ],
    ),
    resize("_upsample_bicubic2d_aa", "smooth", 2, True),
    resize("_upsample_bilinear2d_aa", "triangle", 2, True),
    *[resize(f"_upsample_nearest_exact{d}d", "exact", d, False) for d in (1, 2, 3)],
    Op(
        "affine_grid_generator",
        [
            S((2, 2, 3), [2, 1, 3, 4], False),
            S((2, 2, 3), [2, 1, 1, 4], True),
            S((1, 3, 4), [1, 1, 2, 3, 2], True),
        ],
        affine_ref,
        FLOATS,
        out=False,
        errors=[error((2, 3, 3), [2, 1, 2, 2], True, type=RuntimeError, match=r"\(2, 2, 3\), got")],
    ),
    grid_op("grid_sampler", (1, 2, 4, 3), POINTS, (0, 1, 2)),
    grid_op("grid_sampler_2d", (1, 2, 4, 3), POINTS, (0,)),
    grid_op("grid_sampler_3d", (1, 2, 2, 3, 4), VOLUME_POINTS, (0, 1)),
    resize("upsample_bicubic2d", "cubic", 2, True),
    resize("upsample_bilinear2d", "linear", 2, True),
    resize("upsample_linear1d", "linear", 1, True),
    *[resize(f"upsample_nearest{d}d", "nearest", d, False) for d in (1, 2, 3)],
    resize("upsample_trilinear3d", "linear", 3, True),
]
