"""Test rows of ops/statistics.toml."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, Op, S, V, error

LOOSE = {"float64": 1e-10, "float32": 2e-5}
COUNTS = V([1, 0, 3, 2], "int64")
SHARES = V([0.5, 1.0, 0.25, 2.0], "float64")


def covariance(x, correction=1, fweights=None, aweights=None):
    return np.cov(x, ddof=correction, fweights=fweights, aweights=aweights)


def quantile(f):
    def ref(x, q, dim=None, keepdim=False, interpolation="linear"):
        return f(x, q, axis=dim, keepdims=keepdim, method=interpolation)

    return ref


def running(y, x=None, dx=1, dim=-1):
    y = np.moveaxis(np.asarray(y), dim, -1)
    step = dx if x is None else np.diff(x)
    return np.moveaxis(np.cumsum((y[..., 1:] + y[..., :-1]) / 2 * step, -1), -1, dim)


def slopes(x, spacing=None, dim=None, edge_order=1):
    steps = [1.0 if spacing is None else spacing] if not isinstance(spacing, list) else spacing
    found = np.gradient(x, *steps, axis=dim, edge_order=edge_order)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def integral(name):
    return Op(
        name,
        [S((3, 4)), S((3, 4), dx=0.5, dim=0), S((2, 4), V([0.0, 1.0, 1.5, 4.0], "float64"))],
        lambda y, x=None, dx=1, dim=-1: np.trapezoid(y, x, dx, dim),
        ("float64",),
        tol=LOOSE,
        errors=[error((2, 4), (3,), type=RuntimeError, match="size 4 in dim 1, got 3")],
    )


def places(name, f, **kw):
    many = V([0.1, 0.3, 0.9], "float64")
    kinds = ("lower", "higher", "midpoint", "nearest")
    return Op(
        name,
        [S((5,), 0.5), S((4, 3), 0.2, 0, True), S((4, 3), many, 1), S((4, 3), many)]
        + [S((5,), 0.3, interpolation=kind) for kind in kinds],
        quantile(f),
        ("float64",),
        tol=LOOSE,
        errors=[
            error((3,), 1.5, type=RuntimeError, match=r"\[0, 1\], got 1.5"),
            error((0,), 0.5, type=RuntimeError, match="must not be empty"),
        ],
        **kw,
    )


OPS = [
    Op("corrcoef", [S((3, 5)), S((4,))], np.corrcoef, FLOATS, tol=LOOSE),
    Op(
        "cov",
        [
            S((3, 4)),
            S((4,), correction=0),
            S((3, 4), fweights=COUNTS),
            S((3, 4), aweights=SHARES),
            S((3, 4), fweights=COUNTS, aweights=SHARES, correction=0),
        ],
        covariance,
        ("float64",),
        tol=LOOSE,
        errors=[
            error((2, 2, 2), type=RuntimeError, match=r"got shape \(2, 2, 2\)"),
            error((2, 3), fweights=COUNTS, type=RuntimeError, match="each of 3 observations"),
        ],
    ),
    Op("cov", [S((3, 4))], np.cov, COMPLEX, tol={"complex64": 1e-5}),
    Op(
        "cumulative_trapezoid",
        [S((3, 4)), S((3, 4), dx=0.5, dim=0), S((2, 4), V([0.0, 1.0, 1.5, 4.0], "float64"))],
        running,
        ("float64",),
        tol=LOOSE,
    ),
    Op(
        "gradient",
        [
            S((5,)),
            S((4, 3), spacing=0.5, dim=0, edge_order=2),
            S((4, 3), spacing=[0.5, 2.0]),
            S((4,), spacing=[V([0.0, 1.0, 1.5, 4.0], "float64")], dim=0, edge_order=2),
        ],
        slopes,
        ("float64",),
        tol=LOOSE,
        errors=[
            error((1, 3), type=RuntimeError, match="edge_order . 1 = 2 points, got 1"),
            error(
                (3, 3),
                spacing=[0.1],
                dim=[1, 0],
                type=RuntimeError,
                match="each of 2 dims is needed.*a list of 1",
            ),
        ],
    ),
    places("quantile", np.quantile),
    places("nanquantile", np.nanquantile),
    integral("trapezoid"),
    integral("trapz"),
]
