"""Test rows of ops/decomposition.toml. LAPACK's signs: R's diagonal opposes the pivot's."""

import numpy as np

from tests.ops.rows import FLOATS, Op, S, V, error

LOOSE = {"float32": 2e-5, "complex64": 4e-5, "float64": 1e-10, "complex128": 1e-10}
A = V([[1.0, 2.0, -1.0], [2.0, -3.0, 0.5], [-2.0, 0.25, 4.0], [0.5, 1.0, 1.0]], "float64")
WIDE = V([[1.0, 2.0, -1.0], [2.0, -3.0, 0.5]], "float64")
UPPER = V([[2.0, 1.0, -1.0], [0.0, -3.0, 0.5], [0.0, 0.0, 4.0]], "float64")
SQUARE = V([[1.0, 2.0, -1.0], [2.0, -3.0, 0.5], [-2.0, 0.25, 4.0]], "float64")
TAU = V([1.2, 0.7, 0.4], "float64")


def reflections(a):
    """Packed reflections and their factors, one column after the other."""
    a = np.array(a)
    m, n = a.shape[-2:]
    if a.ndim > 2:
        parts = [reflections(x) for x in a]
        return np.stack([p for p, _ in parts]), np.stack([t for _, t in parts])
    tau = np.zeros(min(m, n), a.dtype)
    for k in range(min(m, n)):
        x = a[k:, k]
        if not np.any(x[1:]) and x[0].imag == 0:
            continue
        beta = -np.copysign(np.linalg.norm(x), x[0].real)
        tau[k] = (beta - x[0]) / beta
        v = x / (x[0] - beta)
        v[0] = 1
        a[k:, k + 1 :] -= np.conj(tau[k]) * np.outer(v, v.conj() @ a[k:, k + 1 :])
        a[k:, k] = v
        a[k, k] = beta
    return a, tau


def product(a, tau):
    if a.ndim > 2:
        return np.stack([product(x, t) for x, t in zip(a, tau)])
    m, n = a.shape
    q = np.eye(m, n, dtype=a.dtype)
    for k in reversed(range(len(tau))):
        v = np.tril(a, -1)[:, k] + np.eye(m)[:, k]
        q = q - tau[k] * np.outer(v, v.conj() @ q)
    return q


def qr_ref(a, mode="reduced"):
    packed, tau = reflections(a)
    m, n = a.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    wide = np.zeros(a.shape[:-1] + (k,), a.dtype)
    wide[..., : min(k, n)] = packed[..., : min(k, n)]
    r = np.triu(packed)[..., :k, :]
    return (np.zeros(0) if mode == "r" else product(wide, tau)), r


def solve_ref(a, b, upper, left=True, unitriangular=False):
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = a - np.diag(np.diag(a)) + np.eye(len(a))
    return np.linalg.solve(a, b) if left else b @ np.linalg.inv(a)


def products(name):
    return Op(
        name,
        [S(A, TAU), S((3, 3), (2,)), S((2, 3, 2), (2, 2)), S((0, 0), (0,))],
        product,
        ("float64", "complex128"),
        tol=LOOSE,
        out=False,
        errors=[error((2, 3), (2,), type=RuntimeError, match=r"\(2, 3\)")],
    )


def exp_ref(a):
    result = term = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    for k in range(1, 60):
        term = term @ a / k
        result = result + term
    return result


def exponential(name):
    return Op(
        name,
        [S((3, 3)), S((2, 2, 2)), S((1, 1)), S((0, 0))],
        exp_ref,
        FLOATS,
        tol=LOOSE,
        out=False,
        errors=[error((2, 3), type=RuntimeError, match=r"square .*\(2, 3\)")],
    )


OPS = [
    Op(
        "geqrf",
        [S((4, 3)), S((2, 3, 4)), S((3, 3), strided_=True), S((0, 2)), S((1, 2))],
        reflections,
        ("float64", "complex128"),
        tol=LOOSE,
        grad=False,
        errors=[error((2,), type=RuntimeError, match=r"at least 2 dims, got shape \(2,\)")],
    ),
    products("linalg_householder_product"),
    exponential("linalg_matrix_exp"),
    Op(
        "linalg_multi_dot",
        [S([(2, 3), (3, 4), (4, 1)]), S([(3,), (3, 2), (2,)])],
        lambda x: np.linalg.multi_dot(x),
        FLOATS,
        tol=LOOSE,
        out=False,
        errors=[error([(2, 2)], type=RuntimeError, match="got 1")],
    ),
    Op(
        "linalg_qr",
        [S(A), S(WIDE), S(WIDE, "complete")],
        qr_ref,
        ("float64",),
        tol=LOOSE,
        errors=[
            error((2, 2), "full", type=RuntimeError, match="got 'full'"),
            error((2,), type=RuntimeError, match="at least 2 dims"),
        ],
    ),
    Op(
        "linalg_solve",
        [
            S(SQUARE, (3, 2)),
            S(SQUARE, (3,)),
            S(SQUARE, (2, 3), left=False),
            S(SQUARE, (2, 3, 1)),
        ],
        lambda a, b, left=True: np.linalg.solve(a, b) if left else b @ np.linalg.inv(a),
        ("float64",),
        tol=LOOSE,
        out=False,
        errors=[error((2, 3), (2, 1), type=RuntimeError, match=r"\(2, 3\)")],
    ),
    Op(
        "linalg_solve_triangular",
        [
            S(UPPER, (3, 2), upper=True),
            S(UPPER, (2, 3), upper=True, left=False),
            S(UPPER, (3, 1), upper=False),
            S(UPPER, (3, 2), upper=True, unitriangular=True),
        ],
        solve_ref,
        ("float64",),
        tol=LOOSE,
        out=False,
        errors=[error((2, 3), (2, 1), upper=True, type=RuntimeError, match=r"\(2, 3\)")],
    ),
    exponential("matrix_exp"),
    products("orgqr"),
    Op("qr", [S(A), S(WIDE, False)], lambda a, some=True: qr_ref(a), ("float64",), tol=LOOSE),
]
