"""Test rows of ops/linear_algebra.toml. Factors whose signs are free are compared by what they multiply to (test_linalg.py)."""

import numpy as np

from tests.ops.rows import Op, S, V, error

BOTH = ("float64", "complex128")
LOOSE = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-5}
A = V([[2.0, 1.0, -1.0], [1.0, -3.0, 0.5], [-2.0, 0.25, 4.0]], "float64")
SPD = V([[4.0, 1.0, -1.0], [1.0, 3.0, 0.5], [-1.0, 0.5, 2.0]], "float64")
LOWER = V([[2.0, 0.0, 0.0], [1.0, 3.0, 0.0], [-1.0, 0.5, 2.0]], "float64")
SINGULAR = V([[1.0, 2.0], [2.0, 4.0]], "float64")
TALL = V([[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]], "float64")
PIVOTS = V([2, 3, 3], "int32")


def lu_parts(a, pivot=True):
    """P, L, U, packed factors and exchanges of one matrix, or of a batch."""
    a = np.array(a)
    if a.ndim > 2:
        return [np.stack(x) for x in zip(*[lu_parts(m, pivot) for m in a])]
    m, n = a.shape
    order, pivots = np.arange(m), np.zeros(min(m, n), np.int32)
    for k in range(min(m, n)):
        best = k + int(np.argmax(np.abs(a[k:, k].real) + np.abs(a[k:, k].imag))) if pivot else k
        pivots[k] = best + 1
        a[[k, best]], order[[k, best]] = a[[best, k]], order[[best, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    k = min(m, n)
    lower = np.tril(a[:, :k], -1) + np.eye(m, k)
    return [np.eye(m)[:, np.argsort(order)].T * 1.0, lower, np.triu(a[:k]), a, pivots]


def square(name, ref, dtypes=BOTH, samples=None, out=False, **kw):
    return Op(
        name,
        samples or [S((3, 3)), S((2, 2, 2)), S((0, 0))],
        ref,
        dtypes,
        tol=LOOSE,
        out=out,
        errors=[error((2, 3), type=RuntimeError, match=r"square .*\(2, 3\)")],
        **kw,
    )


def solved(lu, pivots, b, left=True, adjoint=False):
    lower, upper = np.tril(lu, -1) + np.eye(len(lu)), np.triu(lu)
    order = np.arange(len(lu))
    for i, p in enumerate(pivots):
        order[[i, p - 1]] = order[[p - 1, i]]
    a = (lower @ upper)[np.argsort(order)]
    a = a.conj().T if adjoint else a
    return np.linalg.solve(a, b) if left else b @ np.linalg.inv(a)


def solve_ref(a, b, left=True):
    return np.linalg.solve(a, b) if left else b @ np.linalg.inv(a)


def triangle_ref(a, b, upper, left=True, unitriangular=False):
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = a - np.diag(np.diag(a)) + np.eye(len(a))
    return solve_ref(a, b, left)


def norm_ref(x, ord=None, dim=None, keepdim=False):
    if dim is not None and not isinstance(dim, int):
        dim = tuple(dim) if len(dim) > 1 else dim[0]
    return np.linalg.norm(x, ord, dim, keepdim)


def determinant(name):
    return square(
        name, np.linalg.det, samples=[S((3, 3)), S((2, 2, 2)), S((0, 0)), S(SINGULAR, grad_=False)]
    )


def slogdet(name):
    return square(name, lambda a: tuple(np.linalg.slogdet(a)), samples=[S((3, 3)), S((2, 2, 2))])


def power(name):
    return Op(
        name,
        [S((3, 3), n) for n in (0, 1, 2, 5, -2)],
        np.linalg.matrix_power,
        BOTH,
        tol=LOOSE,
        out=False,
    )


def cholesky(name, result, samples, **kw):
    return Op(name, samples, result, ("float64",), tol=LOOSE, out=False, **kw)


def root(a, upper=False):
    factor = np.linalg.cholesky(a)
    return factor.swapaxes(-1, -2).conj() if upper else factor


def ldl_parts(a):
    """Packed factors and pivots where no rows need to change."""
    packed = np.array(a)
    for k in range(len(a)):
        packed[k + 1 :, k + 1 :] -= np.tril(
            np.outer(packed[k + 1 :, k], packed[k + 1 :, k]) / packed[k, k]
        )
        packed[k + 1 :, k] /= packed[k, k]
    return np.tril(packed), np.arange(1, len(a) + 1, dtype=np.int32)


def of_ldl(packed):
    lower = np.tril(packed, -1) + np.eye(len(packed))
    return lower @ np.diag(np.diag(packed)) @ lower.T


SYMMETRIC = V([[4.0, 1.0, -1.0], [1.0, -3.0, 0.5], [-1.0, 0.5, 2.0]], "float64")
LDL = V([[2.0, 0.0, 0.0], [0.5, -3.0, 0.0], [-1.0, 0.25, 2.0]], "float64")
SWAP = V([[0.0, 1.0], [1.0, 0.0]], "float64")
UPPER = V([[2.0, 1.0, -1.0], [0.0, -3.0, 0.5], [0.0, 0.0, 4.0]], "float64")
NOT_POSITIVE = error(A, type=RuntimeError, match="positive definite")
RESULT = [S(SPD), S(SPD, upper=True)]


def svdvals(name, **more):
    samples = [S(TALL), S((2, 3, 4)), S((0, 3))]
    return Op(
        name,
        samples,
        lambda a: np.linalg.svd(a, compute_uv=False),
        BOTH,
        tol=LOOSE,
        second=False,
        **more,
    )


OPS = [
    Op(
        "_linalg_eigvalsh",
        [S(SPD, "L"), S(SPD, "U"), S((0, 0), "L")],
        np.linalg.eigvalsh,
        ("float64",),
        tol=LOOSE,
        grad=False,
    ),
    Op(
        "_linalg_solve",
        [S(A, (3, 2))],
        lambda a, b: (np.linalg.solve(a, b), np.zeros((), np.int32)),
        ("float64",),
        tol=LOOSE,
    ),
    Op(
        "_linalg_solve_triangular",
        [S(LOWER, (3, 2), False, False), S(LOWER, (3, 2), True, True)],
        lambda a, b, upper, unit: triangle_ref(a, b, upper, True, unit),
        ("float64",),
        tol=LOOSE,
    ),
    svdvals("_linalg_svdvals"),
    Op(
        "_permutation",
        [S(PIVOTS, 4)],
        lambda p, n: np.array([1, 2, 0, 3]),
        ("float64",),
        exact=True,
    ),
    Op(
        "_pseudo_inverse",
        [S(TALL, V(0.0, "float64"), V(1e-9, "float64"), False)],
        lambda a, *rest: np.linalg.pinv(a),
        ("float64",),
        tol=LOOSE,
        grad=False,
    ),
    cholesky("cholesky", root, [S(SPD), S(SPD, True)], errors=[NOT_POSITIVE], grad=False),
    # Their derivative is that by a whole factor, not by the triangle that is read (test_linalg.py).
    cholesky("cholesky_inverse", lambda a: np.linalg.inv(a @ a.T), [S(LOWER)], grad=False),
    cholesky(
        "cholesky_solve",
        lambda b, a: np.linalg.solve(a @ a.T, b),
        [S((3, 2), LOWER)],
        grad=False,
    ),
    determinant("det"),
    square("inverse", np.linalg.inv),
    cholesky("linalg_cholesky", root, RESULT, errors=[NOT_POSITIVE], grad=False),
    cholesky(
        "linalg_cholesky_ex",
        lambda a, upper=False: (root(a, upper), np.zeros((), np.int32)),
        RESULT,
        grad=False,
    ),
    Op(
        "linalg_cond",
        [S(A), S(A, 1), S(A, "fro"), S(TALL, -2)],
        np.linalg.cond,
        ("float64",),
        tol=LOOSE,
        out=False,
        second=False,
    ),
    determinant("linalg_det"),
    Op(
        "linalg_diagonal",
        [S((2, 3, 3))],
        lambda a: np.diagonal(a, 0, -2, -1),
        ("float64",),
        exact=True,
    ),
    Op(
        "linalg_eig",
        [S((4, 4)), S((2, 3, 3)), S((0, 0))],
        None,
        BOTH,
        strided=False,
        grad=False,
        errors=[
            error((2, 3), type=RuntimeError, match=r"square .*\(2, 3\)"),
            error(V([[float("inf")]]), type=RuntimeError, match="got inf in place 0"),
        ],
    ),
    Op(
        "linalg_eigvals",
        [S(UPPER), S((0, 0))],
        lambda a: np.diag(a) + 0j,
        ("float64", "complex128"),
        tol=LOOSE,
        grad=False,
        out=False,
    ),
    Op(
        "linalg_eigh",
        [S(SPD)],
        None,
        ("float64",),
        errors=[error((2, 2), "X", type=RuntimeError, match="got 'X'")],
        grad=False,
    ),
    Op(
        "linalg_eigvalsh",
        [S(SPD), S(SPD, "U"), S((0, 0))],
        lambda a, uplo="L": np.linalg.eigvalsh(a, uplo),
        ("float64",),
        tol=LOOSE,
        grad=False,
    ),
    square("linalg_inv", np.linalg.inv),
    square("linalg_inv_ex", lambda a: (np.linalg.inv(a), np.zeros(a.shape[:-2], np.int32))),
    square(
        "linalg_ldl_factor",
        lambda a, hermitian=False: ldl_parts(a)[:2],
        ("float64",),
        samples=[S(SYMMETRIC), S(V([[4.0, 2.0], [2.0, 2.0]], "float64"))],
        grad=False,
    ),
    square(
        "linalg_ldl_factor_ex",
        lambda a, hermitian=False: (*ldl_parts(a)[:2], np.zeros((), np.int32)),
        ("float64",),
        samples=[S(SYMMETRIC), S(SYMMETRIC, hermitian=True)],
        grad=False,
    ),
    Op(
        "linalg_ldl_solve",
        [S(LDL, V([1, 2, 3], "int32"), (3, 2)), S(SWAP, V([-2, -2], "int32"), (2, 1))],
        lambda ld, pivots, b: b[::-1] if len(b) == 2 else np.linalg.solve(of_ldl(ld), b),
        ("float64",),
        tol=LOOSE,
        out=False,
        grad=False,
        errors=[
            error(
                SWAP,
                V([-2, 1], "int32"),
                (2, 1),
                type=RuntimeError,
                match="got -2 alone",
                dtype="float64",
            ),
            error(
                SWAP, V([1, 3], "int32"), (2, 1), type=RuntimeError, match="got 3", dtype="float64"
            ),
            error(SWAP, V([1], "int32"), (2, 1), type=RuntimeError, match=r"shape \(2,\), got"),
        ],
    ),
    Op(
        "linalg_lstsq",
        [S(TALL, (3, 2)), S(TALL, (3,), driver="gels")],
        None,
        ("float64",),
        second=False,
        errors=[error((2, 2), (2, 1), driver="x", type=RuntimeError, match="got 'x'")],
    ),
    Op("linalg_lu", [S((3, 3)), S((2, 3)), S((3, 2))], lambda a: lu_parts(a)[:3], BOTH, tol=LOOSE),
    Op(
        "linalg_lu_factor",
        [S((3, 3)), S((2, 3)), S((3, 2)), S(SPD, pivot=False)],
        lambda a, pivot=True: lu_parts(a, pivot)[3:],
        BOTH,
        tol=LOOSE,
    ),
    Op(
        "linalg_lu_factor_ex",
        [S((3, 3)), S((2, 3))],
        lambda a: [*lu_parts(a)[3:], np.zeros((), np.int32)],
        BOTH,
        tol=LOOSE,
    ),
    Op(
        "linalg_lu_solve",
        [
            S(A, PIVOTS, (3, 2)),
            S(A, PIVOTS, (2, 3), left=False),
            S(A, PIVOTS, (3, 2), adjoint=True),
        ],
        solved,
        ("float64",),
        tol=LOOSE,
        out=False,
    ),
    Op(
        "linalg_matrix_norm",
        [S((3, 4), ord) for ord in ("fro", "nuc", 1, -1, 2, -2, float("inf"))]
        + [S((2, 3, 4), 1, [0, 2], True)],
        lambda a, ord, dim=(-2, -1), keepdim=False: np.linalg.norm(a, ord, tuple(dim), keepdim),
        ("float64",),
        tol=LOOSE,
        out=False,
        second=False,
        errors=[error((2, 2), 3, type=RuntimeError, match="got 3")],
    ),
    power("linalg_matrix_power"),
    Op(
        "linalg_matrix_rank",
        [S(A), S(SINGULAR), S(TALL), S(A, atol=3.0), S(A, 3.0)],
        lambda a, tol=None, atol=None: np.linalg.matrix_rank(a, tol if atol is None else atol),
        ("float64",),
        grad=False,
        out=False,
    ),
    Op(
        "linalg_norm",
        [
            S((3, 4)),
            S((4,), 3),
            S((3, 4), "nuc"),
            S((2, 3), 1, 1),
            S((2, 3, 2), None, [0, 1], True),
        ],
        norm_ref,
        ("float64",),
        tol=LOOSE,
        out=False,
        second=False,
    ),
    Op(
        "linalg_pinv",
        [S(TALL), S(A, rtol=0.0), S(TALL, 1e-9), S(SPD, hermitian=True)],
        lambda a, *args, **kw: np.linalg.pinv(a),
        ("float64",),
        tol=LOOSE,
        out=False,
        grad=False,
    ),
    slogdet("linalg_slogdet"),
    Op(
        "linalg_solve",
        [S(A, (3, 2)), S(A, (3,)), S(A, (2, 3), left=False), S(A, (2, 3, 1))],
        solve_ref,
        ("float64",),
        tol=LOOSE,
        out=False,
        errors=[
            error((2, 3), (2, 1), type=RuntimeError, match=r"\(2, 3\)"),
            error(SINGULAR, V([[1.0], [1.0]], "float64"), type=RuntimeError, match="singular"),
        ],
    ),
    Op(
        "linalg_solve_ex",
        [S(A, (3, 2))],
        lambda a, b: (np.linalg.solve(a, b), np.zeros((), np.int32)),
        ("float64",),
        tol=LOOSE,
    ),
    Op(
        "linalg_solve_triangular",
        [
            S(LOWER, (3, 2), upper=False),
            S(LOWER, (2, 3), upper=False, left=False),
            S(LOWER, (3, 1), upper=True),
            S(LOWER, (2, 3, 2), upper=False, unitriangular=True),
        ],
        triangle_ref,
        ("float64",),
        tol=LOOSE,
        out=False,
        errors=[error((2, 3), (2, 1), upper=True, type=RuntimeError, match=r"\(2, 3\)")],
    ),
    Op(
        "linalg_svd",
        [S(TALL), S((2, 3), False)],
        None,
        ("float64",),
        grad=False,
        errors=[error((2, 2), driver="gesvd", type=RuntimeError, match="got 'gesvd'")],
    ),
    svdvals("linalg_svdvals", out=False),
    Op(
        "linalg_tensorinv",
        [S((3, 3), 1), S((2, 3, 6))],
        lambda a, ind=2: np.linalg.tensorinv(a, ind),
        ("float64",),
        tol=LOOSE,
        out=False,
        errors=[error((2, 3), 1, type=RuntimeError, match="got 2 and 3")],
    ),
    Op(
        "linalg_tensorsolve",
        [S((2, 3, 6), (2, 3)), S((6, 2, 3), (2, 3), [0])],
        lambda a, b, dims=None: np.linalg.tensorsolve(a, b, dims),
        ("float64",),
        tol=LOOSE,
        out=False,
    ),
    Op(
        "linalg_vander",
        [S((3,)), S((2, 3), N=2)],
        lambda x, N=None: x[..., None] ** np.arange(N or x.shape[-1]),
        ("float64",),
        tol=LOOSE,
        errors=[error((3,), N=1, type=RuntimeError, match="got 1")],
    ),
    Op(
        "linalg_vecdot",
        [S((2, 3), (2, 3)), S((2, 3), (3,)), S((2, 3), (2, 3), dim=0)],
        lambda x, y, dim=-1: (np.conj(x) * y).sum(dim),
        BOTH,
        tol=LOOSE,
    ),
    square("logdet", lambda a: np.log(np.linalg.det(a)), ("float64",), [S(SPD)]),
    Op(
        "lu_solve",
        [S((3, 2), A, PIVOTS)],
        lambda b, lu, p: solved(lu, p, b),
        ("float64",),
        tol=LOOSE,
    ),
    Op(
        "lu_unpack",
        [S(A, PIVOTS)],
        lambda a, p: (np.eye(3)[:, [1, 2, 0]], np.tril(a, -1) + np.eye(3), np.triu(a)),
        ("float64",),
        tol=LOOSE,
    ),
    power("matrix_power"),
    Op(
        "ormqr",
        [S((3, 2), (2,), (3, 2)), S((3, 2), (2,), (2, 3), False)],
        None,
        ("float64",),
        errors=[error((3, 2), (2,), (2, 2), type=RuntimeError, match="rows 3 .* size 2")],
    ),
    Op("pinverse", [S(TALL)], np.linalg.pinv, ("float64",), tol=LOOSE, grad=False),
    slogdet("slogdet"),
    Op("svd", [S(TALL)], None, ("float64",), grad=False),
    Op(
        "triangular_solve",
        [S((3, 2), LOWER, False)],
        lambda b, a, upper: (triangle_ref(a, b, upper), a),
        ("float64",),
        tol=LOOSE,
    ),
]
