"""Factors of dense matrices of many sizes: what they multiply to, and how near to orthogonal they are, in units of n * eps."""

import pytest

import flambeau as torch

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
# Ends of panels and blocks, and what lies beside them.
SIZES = [1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 129, 256, 300]
SHAPES = [(n, n) for n in SIZES] + [
    (1, 40),
    (40, 1),
    (17, 100),
    (100, 17),
    (33, 32),
    (70, 300),
    (300, 70),
]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def random(*shape, dtype, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def check_near(a, b, factor=4.0):
    """|a - b| <= factor * n * eps * |b|, in the Frobenius norm, n the larger size."""
    n = max(a.shape[-2:])
    bound = factor * n * torch.finfo(b.dtype).eps * b.abs().square().sum().sqrt().item()
    assert (a - b).abs().square().sum().sqrt().item() <= bound


def positive(n, dtype):
    a = random(n, n, dtype=dtype)
    return a @ a.mH / n + torch.eye(n, dtype=dtype)


@every_dtype
@pytest.mark.parametrize("m, n", SHAPES)
def test_lu_multiplies_to_the_matrix(m, n, dtype):
    a = random(m, n, dtype=dtype)
    p, lower, upper = torch.linalg.lu(a)
    check_near(p @ lower @ upper, a)
    assert lower.abs().amax().item() <= (1 if dtype.is_floating_point else 2**0.5) * 1.0001


@every_dtype
@pytest.mark.parametrize("n", SIZES)
def test_cholesky_multiplies_to_the_matrix(n, dtype):
    a = positive(n, dtype)
    lower, upper = torch.linalg.cholesky(a.tril()), torch.linalg.cholesky(a.triu(), upper=True)
    check_near(lower @ lower.mH, a)
    check_near(upper.mH @ upper, a)
    assert not lower.triu(1).any() and not upper.tril(-1).any()


@every_dtype
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("k", [1, 3, 40, 600])
def test_systems_are_solved(n, k, dtype):
    a, b = positive(n, dtype), random(n, k, dtype=dtype, seed=1)
    check_near(a @ torch.linalg.solve(a, b), b, 20)
    for upper in (False, True):
        triangle = a.triu() if upper else a.tril()
        check_near(triangle @ torch.linalg.solve_triangular(a, b, upper=upper), b, 20)
        x = torch.linalg.solve_triangular(a, b.mT, upper=upper, left=False)
        check_near(x @ triangle, b.mT, 20)
    unit = a.tril(-1) / 4 + torch.eye(n, dtype=dtype)
    x = torch.linalg.solve_triangular(a / 4, b, upper=False, unitriangular=True)
    check_near(unit @ x, b, 20)


@every_dtype
@pytest.mark.parametrize("n", SIZES)
def test_inverses_multiply_to_one(n, dtype):
    a = positive(n, dtype)
    check_near(a @ torch.linalg.inv(a), torch.eye(n, dtype=dtype), 20)


@every_dtype
def test_batches_hold_what_single_matrices_give(dtype):
    a, b = random(40, 9, 9, dtype=dtype), random(40, 9, 3, dtype=dtype, seed=1)
    spd = a @ a.mH + torch.eye(9, dtype=dtype)
    lu, pivots = torch.linalg.lu_factor(a)
    for i in range(40):
        assert torch.equal(torch.linalg.lu_factor(a[i])[0], lu[i])
        assert torch.equal(torch.linalg.lu_factor(a[i])[1], pivots[i])
        assert torch.equal(torch.linalg.cholesky(spd)[i], torch.linalg.cholesky(spd[i]))
        assert torch.equal(torch.linalg.solve(a, b)[i], torch.linalg.solve(a[i], b[i]))


@every_dtype
@pytest.mark.parametrize("place", [0, 15, 16, 40, 99])
def test_the_first_zero_pivot_is_named(place, dtype):
    a = torch.eye(100, dtype=dtype)
    a[place, place] = 0
    for f in (torch.linalg.lu_factor_ex, torch.linalg.cholesky_ex, torch.linalg.inv_ex):
        assert f(a)[-1].item() == place + 1
    a[place, place] = -1
    assert torch.linalg.cholesky_ex(a)[1].item() == place + 1


@every_dtype
@pytest.mark.parametrize("n", [3, 40, 100])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_stays_within_the_matrix(n, value, dtype):
    a = positive(n, dtype)
    a[n // 2, n // 2] = value
    lu, pivots, _ = torch.linalg.lu_factor_ex(a)
    assert ((1 <= pivots) & (pivots <= n)).all() and not lu.isfinite().all()
    assert not torch.linalg.solve_ex(a, a)[0].isfinite().all()
    assert torch.linalg.cholesky_ex(a)[0].shape == (n, n)


def check_orthonormal(q):
    """Columns of length one at right angles, each product within n * eps of its value."""
    check_near(q.mH @ q, torch.eye(q.size(-1), dtype=q.dtype))


@every_dtype
@pytest.mark.parametrize("m, n", SHAPES)
def test_qr_multiplies_to_the_matrix(m, n, dtype):
    a = random(m, n, dtype=dtype)
    for mode in ("reduced", "complete"):
        q, r = torch.linalg.qr(a, mode)
        assert q.shape == (m, m if mode == "complete" else min(m, n))
        check_orthonormal(q)
        check_near(q @ r, a)
        assert not r.tril(-1).any()
        assert torch.equal(torch.linalg.qr(a, "r")[1], torch.linalg.qr(a)[1])


def test_qr_has_the_signs_of_lapack():
    a = torch.tensor([[0.0, 1.0], [2.0, 1.0]])
    q, r = torch.linalg.qr(a)
    assert r.tolist() == [[-2.0, -1.0], [0.0, -1.0]] and q.tolist() == [[0.0, -1.0], [-1.0, 0.0]]
    assert torch.linalg.qr(-a)[1].tolist() == [[2.0, 1.0], [0.0, 1.0]]
    _, r = torch.linalg.qr(random(70, 70, dtype=torch.complex128))
    assert not r.diagonal().imag.any()


@every_dtype
@pytest.mark.parametrize("power", [-1, 0, 1])
def test_factors_of_numbers_without_squares(power, dtype):
    """As large and as small as lengths of columns can be."""
    scale = 10.0 ** (power * (36 if torch.finfo(dtype).eps > 1e-10 else 300))
    a = random(20, 20, dtype=dtype)
    q, r = torch.linalg.qr(a * scale)
    check_orthonormal(q)
    check_near(q @ (r / scale), a)
    u, s, vh = torch.linalg.svd(a * scale)
    check_orthonormal(u)
    check_near(u * (s / scale) @ vh, a)
    a = a + a.mH
    w, v = torch.linalg.eigh(a * scale)
    check_orthonormal(v)
    check_near(v * (w / scale) @ v.mH, a)


@every_dtype
@pytest.mark.parametrize("m, n", SHAPES)
def test_svd_multiplies_to_the_matrix(m, n, dtype):
    a, k = random(m, n, dtype=dtype), min(m, n)
    for full in (False, True):
        u, s, vh = torch.linalg.svd(a, full_matrices=full)
        assert u.shape == (m, m if full else k) and vh.shape == (n if full else k, n)
        check_orthonormal(u)
        check_orthonormal(vh.mH)
        check_near(u[:, :k] * s @ vh[:k], a)
        assert (s[:-1] >= s[1:]).all() and (s >= 0).all()


@every_dtype
@pytest.mark.parametrize("n", SIZES)
def test_eigh_multiplies_to_the_matrix(n, dtype):
    a = random(n, n, dtype=dtype)
    a = a + a.mH
    w, v = torch.linalg.eigh(a.tril())
    check_orthonormal(v)
    check_near(v * w @ v.mH, a)
    assert (w[:-1] <= w[1:]).all()
    assert torch.equal(torch.linalg.eigh(a.triu(), "U")[0], w)
    assert torch.equal(torch.linalg.eigh(a.tril() + 1e30 * torch.ones_like(a).triu(1))[0], w)


@every_dtype
@pytest.mark.parametrize("n", [515, 577])
def test_eigh_of_matrices_that_are_multiplied_in_parts(n, dtype):
    a = random(n, n, dtype=dtype)
    a = a + a.mH
    w, v = torch.linalg.eigh(a)
    check_orthonormal(v)
    check_near(v * w @ v.mH, a)


SPECTRA = {
    "zero": lambda n: torch.zeros(n),
    "one": lambda n: torch.ones(n),
    "twice": lambda n: torch.arange(n) // 2 + 1.0,
    "pairs": lambda n: torch.arange(n) - (n - 1) / 2,
    "graded": lambda n: 10.0 ** -(torch.arange(n) * 40 / n),
    "tiny": lambda n: (torch.arange(n) == 0) + 1e-12 * torch.arange(n),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("n", [2, 5, 40, 100])
@pytest.mark.parametrize("kind", SPECTRA)
def test_eigh_finds_the_values_that_a_matrix_was_made_of(kind, n, dtype):
    values = SPECTRA[kind](n).double()
    q = torch.linalg.qr(random(n, n, dtype=dtype))[0]
    w, v = torch.linalg.eigh(q * values @ q.mH)
    bound = 4 * n * 2**-52 * max(1.0, values.abs().max().item())
    assert (w - values.sort()[0]).abs().max().item() <= bound
    check_orthonormal(v)
    for a in (torch.diag(values).to(dtype), torch.diag(values.flip(0)).to(dtype)):
        assert torch.equal(torch.linalg.eigh(a)[0], values.sort()[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("m, n", [(2, 2), (5, 7), (100, 40), (100, 90)])
@pytest.mark.parametrize("kind", SPECTRA)
def test_svd_finds_the_values_that_a_matrix_was_made_of(kind, m, n, dtype):
    k = min(m, n)
    values = SPECTRA[kind](k).double().abs()
    left = torch.linalg.qr(random(m, k, dtype=dtype))[0]
    right = torch.linalg.qr(random(n, k, dtype=dtype, seed=1))[0]
    u, s, vh = torch.linalg.svd(left * values @ right.mH)
    expected = values.sort(descending=True)[0]
    assert (s - expected).abs().max().item() <= 4 * max(m, n) * 2**-52 * max(
        1.0, expected[0].item()
    )
    check_orthonormal(u)
    check_orthonormal(vh.mH)
    check_near(u[:, :k] * s @ vh[:k], left * values @ right.mH + 1e-300)


@pytest.mark.parametrize("flip", [False, True])
def test_svd_finds_small_values_of_bidiagonal_matrices_to_the_last_digits(flip):
    """B = D U with U of ones: det(B) is known, and its values span 60 orders."""
    d = 10.0 ** -(torch.arange(16, dtype=torch.float64) * 4)
    a = torch.diag(d) + torch.diag(d[:-1], 1)
    s = torch.linalg.svd(a.flip(0, 1).mT if flip else a)[1]
    assert s.log().sum().item() == pytest.approx(d.log().sum().item(), rel=1e-15)
    assert s[-1].item() < 1e-59


@every_dtype
def test_vectors_of_matrices_without_values(dtype):
    for shape in ((3, 0), (0, 3), (2, 3, 0)):
        u, s, vh = torch.linalg.svd(torch.zeros(shape, dtype=dtype))
        assert s.numel() == 0
        check_near(u @ u.mH + 0 * u, torch.eye(shape[-2], dtype=dtype).expand(u.shape))
        assert vh.shape == shape[:-2] + (shape[-1], shape[-1])


@every_dtype
@pytest.mark.parametrize("m, n", [(1, 1), (33, 33), (70, 70), (20, 50), (90, 40)])
def test_values_without_vectors_are_those_with_vectors(m, n, dtype):
    a = random(2, m, n, dtype=dtype)
    check_near(torch.linalg.svdvals(a), torch.linalg.svd(a)[1])
    if m == n:
        check_near(torch.linalg.eigvalsh(a), torch.linalg.eigh(a)[0])
        check_near(torch.linalg.eigvalsh(a, "U"), torch.linalg.eigh(a, "U")[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_values_without_vectors_have_the_same_derivative(dtype):
    a = random(4, 4, dtype=dtype).requires_grad_()
    weights = torch.arange(4.0).double()
    pairs = [
        (torch._linalg_eigvalsh(a, "L"), torch.linalg.eigvalsh(a)),
        (torch._linalg_svdvals(a), torch.linalg.svdvals(a)),
    ]
    for alone, whole in pairs:
        found, expected = (torch.autograd.grad((v * weights).sum(), a)[0] for v in (alone, whole))
        check_near(found, expected)


@every_dtype
@pytest.mark.parametrize(
    "m, n, k", [(5, 1, 7), (70, 1, 300), (1, 40, 9), (33, 65, 130), (64, 0, 3), (3, 4, 0)]
)
def test_complex_products_are_those_of_their_parts(m, n, k, dtype):
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    re = a.real @ b.real - a.imag @ b.imag if dtype.is_complex else a @ b
    for x, y in ((a, b), (a.mT.contiguous().mT, b), (a, b.mT.contiguous().mT)):
        found = x @ y
        check_near(found.real if dtype.is_complex else found, re, 8)
        if dtype.is_complex:
            check_near(found.imag, a.real @ b.imag + a.imag @ b.real, 8)
            check_near((x.conj() @ y).real, a.real @ b.real + a.imag @ b.imag, 8)


@every_dtype
@pytest.mark.parametrize("m, n", [(1, 1), (63, 63), (64, 64), (65, 65), (130, 70), (70, 130)])
def test_packed_reflections_make_q(m, n, dtype):
    a, k = random(m, n, dtype=dtype), min(m, n)
    packed, tau = torch.geqrf(a)
    q = torch.linalg.qr(a, "complete")[0]
    check_near(torch.linalg.householder_product(packed[:, :k], tau), q[:, :k])
    right = random(m, 5, dtype=dtype, seed=1)
    check_near(torch.ormqr(packed, tau, right), q @ right)
    check_near(torch.ormqr(packed, tau, right, transpose=True), q.mH @ right)
    check_near(torch.ormqr(packed, tau, right.mH, left=False), right.mH @ q)
