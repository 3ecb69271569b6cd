"""Factorisations whose signs are free: what the factors multiply to, and derivatives of what does not depend on signs."""

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
    solution, residuals, _, _ = torch.linalg.lstsq(a, b)
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
