"""Factorisations whose signs are free: what the factors multiply to, and derivatives of what does not depend on signs."""

import math

import pytest

import flambeau as torch

DTYPES = [torch.float64, torch.complex128]


def matrix(m, n, dtype, *batch):
    torch.manual_seed(m * 10 + n)
    return torch.randn(*batch, m, n, dtype=dtype)


def close(a, b, tolerance=1e-10):
    assert torch.allclose(a, b, rtol=0, atol=tolerance)


def near_identity(q):
    close(q.mH @ q, torch.eye(q.size(-1), dtype=q.dtype).expand(q.mH.shape[:-1] + q.shape[-1:]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("m, n", [(4, 4), (5, 3), (3, 5), (1, 4)])
@pytest.mark.parametrize("full", [True, False])
def test_svd_multiplies_to_the_matrix(m, n, full, dtype):
    a = matrix(m, n, dtype, 2)
    u, s, vh = torch.linalg.svd(a, full_matrices=full)
    k = min(m, n)
    assert u.shape == (2, m, m if full else k) and vh.shape == (2, n if full else k, n)
    close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a)
    near_identity(u)
    near_identity(vh.mH)
    assert (s[..., :-1] >= s[..., 1:]).all()


def test_svd_of_a_singular_matrix_completes_its_vectors():
    u, s, vh = torch.linalg.svd(torch.ones(3, 3, dtype=torch.float64))
    close(s, torch.tensor([3.0, 0, 0], dtype=torch.float64))
    near_identity(u)
    near_identity(vh)
    assert torch.linalg.matrix_rank(torch.ones(3, 3)).item() == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh_reads_one_triangle(uplo, dtype):
    a = matrix(4, 4, dtype)
    w, v = torch.linalg.eigh(a, uplo)
    lower = a.tril(-1) if uplo == "L" else a.triu(1).mH
    hermitian = lower + lower.mH + torch.diag(a.diagonal().real).to(dtype)
    close(v * w @ v.mH, hermitian)
    near_identity(v)
    assert (w[:-1] <= w[1:]).all()


def slope(f, a, direction, step=1e-6):
    return (f(a + step * direction) - f(a - step * direction)).item() / (2 * step)


def projector(a):
    w, v = torch.linalg.eigh((a + a.mH) / 2)
    return (v[:, :1] @ v[:, :1].mH)[0, 1].abs() + w[2]


def subspaces(a):
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    return ((u[:, :1] @ vh[:1])[0, 1]).abs() + s[1] + (u[:, :2] @ u[:, :2].mH)[0, 1].abs()


def residual(a):
    b = torch.arange(1.0, 1 + a.size(0)).to(a.dtype).unsqueeze(-1)
    solution, residuals, _, _ = torch.linalg.lstsq(a, b, driver="gelsd")
    return solution.abs().sum() + residuals.sum()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "f, m, n",
    [
        (projector, 4, 4),
        (subspaces, 4, 3),
        (subspaces, 3, 5),
        (lambda a: torch.linalg.pinv(a).abs().sum(), 4, 3),
        (lambda a: torch.linalg.cholesky(a @ a.mH + 2 * torch.eye(3)).abs().sum(), 3, 3),
        (residual, 5, 2),
    ],
    ids=["eigh", "svd-tall", "svd-wide", "pinv", "cholesky", "lstsq"],
)
def test_derivatives_where_signs_are_free(f, m, n, dtype):
    a = matrix(m, n, dtype).requires_grad_()
    (g,) = torch.autograd.grad(f(a), a)
    direction = torch.randn_like(a)
    expected = slope(f, a.detach(), direction)
    assert (g.conj() * direction).real.sum().item() == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_det_of_a_singular_matrix_has_its_cofactors_as_derivative():
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    torch.linalg.det(a).backward()
    close(a.grad, torch.tensor([[4.0, -2.0], [-2.0, 1.0]], dtype=torch.float64))


@pytest.mark.parametrize(
    "f", [torch.linalg.inv, torch.inverse, torch.linalg.lu_factor, torch.linalg.cholesky]
)
def test_singular_matrices_are_refused(f):
    with pytest.raises(torch.linalg.LinAlgError, match="got [12] in matrix 0"):
        f(torch.zeros(2, 2))
    with pytest.raises(RuntimeError, match="square|at least 2 dims"):
        f(torch.zeros(2, 3) if f is not torch.linalg.lu_factor else torch.zeros(2))


def test_packed_factors_solve_and_unpack():
    a = matrix(3, 3, torch.float64)
    lu, pivots = torch.linalg.lu_factor(a)
    p, lower, upper = torch.lu_unpack(lu, pivots)
    close(p @ lower @ upper, a)
    b = matrix(3, 2, torch.float64)
    close(a @ torch.linalg.lu_solve(lu, pivots, b), b)
    close(torch.linalg.lu_solve(lu, pivots, b.mT, left=False) @ a, b.mT)
    packed, tau = torch.geqrf(a)
    q, r = torch.linalg.qr(a)
    close(torch.ormqr(packed, tau, r), a)
    close(torch.ormqr(packed, tau, a, transpose=True), r)


# ---- general eigenvalues ----

EIGEN = {
    "random": lambda n, dtype: matrix(n, n, dtype, 2),
    "companion": lambda n, dtype: torch.eye(n, dtype=dtype).roll(1, 0),
    "triangular": lambda n, dtype: matrix(n, n, dtype).triu(),
    "zero": lambda n, dtype: torch.zeros(n, n, dtype=dtype),
    "scaled": lambda n, dtype: matrix(n, n, dtype) * 10.0 ** -torch.arange(n),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20])
@pytest.mark.parametrize("kind", EIGEN)
def test_eig_gives_vectors_of_length_one_that_the_matrix_stretches(kind, n, dtype):
    a = EIGEN[kind](n, dtype)
    w, v = torch.linalg.eig(a)
    assert w.dtype == v.dtype == torch.complex128
    close(a.to(v.dtype) @ v, v * w.unsqueeze(-2))
    close(v.abs().square().sum(-2), torch.ones_like(w).real)
    close(w.sum(-1), a.diagonal(dim1=-2, dim2=-1).sum(-1).to(w.dtype))


def test_eigenvalues_of_a_real_matrix_are_real_or_pairs():
    w, v = torch.linalg.eig(matrix(9, 9, torch.float64))
    pairs = w[w.imag != 0]
    assert len(pairs) and torch.equal(pairs[::2], pairs[1::2].conj())
    assert (pairs[::2].imag > 0).all()
    assert (v[:, w.imag == 0].imag == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_eig_derivative_of_what_has_no_phase(dtype):
    a = matrix(4, 4, dtype).requires_grad_()
    weights = torch.arange(16, dtype=torch.float64).reshape(4, 4)

    def f(x):
        w, v = torch.linalg.eig(x)
        order = (w.real * 3 + w.imag).detach().argsort()
        return (
            (v[:, order].abs().square() * weights).sum() + (w * w.conj()).real.sum() + w.sum().real
        )

    direction = matrix(4, 4, dtype).flip(0)
    (g,) = torch.autograd.grad(f(a), a)
    along = (g.conj() * direction).real.sum().item()
    assert along == pytest.approx(slope(f, a.detach(), direction), rel=1e-5)


def test_eig_says_that_phases_have_no_derivative():
    a = matrix(3, 3, torch.complex128).requires_grad_()
    with pytest.raises(RuntimeError, match=r"phases of the eigenvectors of shape \(3, 3\)"):
        torch.linalg.eig(a)[1].sum().abs().backward()


# ---- symmetric factors ----


def unpacked(packed, pivots, hermitian):
    """P L D L^T P^T of one matrix, multiplied out."""
    n = len(pivots)
    a = torch.eye(n, dtype=packed.dtype)
    turned = (lambda x: x.mH) if hermitian else (lambda x: x.mT)
    left, d, i = a.clone(), torch.zeros_like(a), 0
    while i < n:
        size = 1 if pivots[i] > 0 else 2
        last, other = i + size - 1, abs(int(pivots[i])) - 1
        order = list(range(n))
        order[last], order[other] = other, last
        step = torch.eye(n, dtype=a.dtype)
        step[i + size :, i : i + size] = packed[i + size :, i : i + size]
        left = left @ torch.eye(n, dtype=a.dtype)[order] @ step
        block = packed[i : i + size, i : i + size].tril()
        d[i : i + size, i : i + size] = block + turned(block.tril(-1))
        i += size
    return left @ d @ turned(left)


@pytest.mark.parametrize(
    "dtype, hermitian", [(DTYPES[0], False), (DTYPES[1], False), (DTYPES[1], True)]
)
@pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
def test_ldl_multiplies_to_the_matrix_and_solves(n, dtype, hermitian):
    a = matrix(n, n, dtype, 3)
    a = a + (a.mH if hermitian else a.mT)
    a[:, 0, 0] = 0 if n > 1 else 2  # asks for exchanges
    packed, pivots = torch.linalg.ldl_factor(a, hermitian=hermitian)
    for x, p, whole in zip(packed, pivots, a):
        close(unpacked(x, p, hermitian), whole)
    b = matrix(n, 2, dtype, 3)
    close(a @ torch.linalg.ldl_solve(packed, pivots, b, hermitian=hermitian), b, 1e-8)
    one = torch.linalg.ldl_solve(packed, pivots, b[0], hermitian=hermitian)
    close(a @ one, b[0].expand(a.size(0), n, 2), 1e-8)
    assert not packed.triu(1).any()


def test_ldl_names_the_column_of_zeros():
    with pytest.raises(torch.linalg.LinAlgError, match="no column may be zero.* 1 in matrix 0"):
        torch.linalg.ldl_factor(torch.zeros(2, 2))


# ---- derivatives by whole factors ----


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_systems_have_the_derivative_of_the_product(upper, dtype):
    factor = matrix(3, 3, dtype).tril() + 3 * torch.eye(3, dtype=dtype)
    factor = (factor.mH.contiguous() if upper else factor).requires_grad_()
    b = matrix(3, 2, dtype).requires_grad_()

    def of_product(l):
        return torch.linalg.inv(l.mH @ l if upper else l @ l.mH)

    for ours, plain, inputs in (
        (torch.cholesky_inverse(factor, upper), of_product(factor), [factor]),
        (torch.cholesky_solve(b, factor, upper), of_product(factor) @ b, [b, factor]),
    ):
        w = matrix(*ours.shape, dtype)
        found, expected = (torch.autograd.grad(y, inputs, w) for y in (ours, plain))
        for x, y in zip(found, expected):
            close(x, y)


def test_linalg_has_matmul():
    assert torch.linalg.matmul(torch.ones(2, 3), torch.ones(3)).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_ldl_of_nan_stays_within_the_matrix(n):
    factors, pivots, info = torch.linalg.ldl_factor_ex(torch.full((n, n), math.nan))
    assert factors.tril().isnan().sum() == n * (n + 1) // 2
    assert pivots.tolist() == list(range(1, n + 1)) and info == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_derivatives_of_eigh_are_hermitian_like_its_argument(dtype):
    torch.manual_seed(2)
    a = torch.randn(4, 4, dtype=dtype)
    a = (a + a.mH).requires_grad_()
    values, vectors = torch.linalg.eigh(a)
    weights = torch.arange(16, dtype=torch.float64).reshape(4, 4)
    for loss in ((vectors.abs() ** 2 * weights).sum(), values.pow(3).sum()):
        (first,) = torch.autograd.grad(loss, a, create_graph=True)
        (second,) = torch.autograd.grad((first * weights).real.sum(), a, retain_graph=True)
        for g in (first, second):
            assert g.any()
            torch.testing.assert_close(g, g.mH)
