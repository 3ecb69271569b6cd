// Derivatives of factorisations and of the systems solved with them. G stands for the gradient of
// the factor named beside it, ^H for the conjugate transpose.
#include "flambeau/autograd/derivatives.h"

namespace flambeau {

namespace {

using ops::adjoint;
using ops::matmul;

Tensor plus(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a + b;
}
Tensor inverse_left(const Tensor& triangle, const Tensor& b, bool upper, bool unit = false) {
  return ops::linalg_solve_triangular(triangle, b, upper, /*left=*/true, unit);
}
Tensor inverse_right(const Tensor& triangle, const Tensor& b, bool upper, bool unit = false) {
  return ops::linalg_solve_triangular(triangle, b, upper, /*left=*/false, unit);
}
Tensor diagonal_of(const Tensor& a) { return ops::diagonal(a, 0, -2, -1); }

// P y for the row exchanges in `pivots`.
Tensor exchanged(const Tensor& pivots, const Tensor& y) {
  Tensor order = ops::_permutation(pivots, y.size(-2));
  Tensor back = ops::argsort(order, -1, false);
  return ops::gather(y, -2, ops::expand(ops::unsqueeze(back, -1), y.sizes()));
}

// n x n with zeros on the diagonal of the divided matrix: x_ij / (s_j - s_i).
Tensor over_differences(const Tensor& x, const Tensor& s) {
  Tensor gaps = ops::unsqueeze(s, -2) - ops::unsqueeze(s, -1);
  Tensor identity = ops::eye(s.size(-1), gaps.dtype(), {}, gaps.device());
  Tensor off = Scalar(1.0) - identity;
  return x * off / (gaps + identity);
}

}  // namespace

// A = P L U. Where A is square, gA = P L^-H (tril(L^H G_L, -1) + triu(G_U U^H)) U^-H. A wide one
// has U = [U1, U2] with U2 = L^-1 P^T A2; a tall one L = [L1; L2] with L2 = A2 U^-1.
Tensor lu_backward(const Tensor& g, const Tensor& lu, const Tensor& pivots, bool pivot) {
  int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  Tensor square = ops::narrow(ops::narrow(lu, -2, 0, k), -1, 0, k);
  Tensor identity = ops::eye(k, lu.dtype(), {}, lu.device());
  Tensor l = ops::tril(square, -1) + identity, u = ops::triu(square);
  Tensor g_square = ops::narrow(ops::narrow(g, -2, 0, k), -1, 0, k);
  Tensor low = matmul(adjoint(l), ops::tril(g_square, -1));
  Tensor high = matmul(ops::triu(g_square), adjoint(u));
  Tensor rest;
  if (n > m) {
    Tensor u2 = ops::narrow(lu, -1, k, n - k), g2 = ops::narrow(g, -1, k, n - k);
    low = low - matmul(g2, adjoint(u2));
    rest = inverse_left(adjoint(l), g2, /*upper=*/true, /*unit=*/true);
  } else if (m > n) {
    Tensor l2 = ops::narrow(lu, -2, k, m - k), g2 = ops::narrow(g, -2, k, m - k);
    high = high - matmul(adjoint(l2), g2);
    rest = inverse_right(adjoint(u), g2, /*upper=*/false);
  }
  Tensor inner = ops::tril(low, -1) + ops::triu(high);
  inner = inverse_left(adjoint(l), inner, /*upper=*/true, /*unit=*/true);
  Tensor grad = inverse_right(adjoint(u), inner, /*upper=*/false);
  if (rest.defined()) grad = ops::cat(std::vector{grad, rest}, n > m ? -1 : -2);
  return pivot ? exchanged(pivots, grad) : grad;
}

// A X = B: gB = A^-H G, gA = -gB X^H.
std::tuple<Tensor, Tensor> solve_backward(const Tensor& g, const Tensor& a, const Tensor& x,
                                          std::array<bool, 2> wanted) {
  Tensor g_b = std::get<0>(ops::_linalg_solve(adjoint(a), g));
  return {wanted[0] ? -matmul(g_b, adjoint(x)) : Tensor(), g_b};
}

std::tuple<Tensor, Tensor> triangular_backward(const Tensor& g, const Tensor& a, const Tensor& x,
                                               bool upper, bool unit, std::array<bool, 2> wanted) {
  Tensor g_b = inverse_left(adjoint(a), g, !upper, unit), g_a;
  if (wanted[0]) {
    g_a = -matmul(g_b, adjoint(x));
    g_a = upper ? ops::triu(g_a, unit) : ops::tril(g_a, -int64_t(unit));
  }
  return {g_a, g_b};
}

// A = L L^H: with M = L^H G, gA = L^-H (tril(M) + tril(M, -1)^H) / 2 L^-1.
Tensor cholesky_backward(const Tensor& g, const Tensor& factor, bool upper) {
  Tensor l = upper ? adjoint(factor) : factor, g_l = upper ? adjoint(g) : g;
  Tensor m = matmul(adjoint(l), g_l);
  m = (ops::tril(m) + adjoint(ops::tril(m, -1))) * Scalar(0.5);
  return inverse_right(l, inverse_left(adjoint(l), m, /*upper=*/true), /*upper=*/false);
}

namespace {

// The gradient of L in A = L L^H, or of U in A = U^H U, all of it: -(M + M^H) L with M = A^-1 G X^H
// of what was solved.
Tensor factor_grad(const Tensor& m, const Tensor& factor, bool upper) {
  Tensor sum = m + adjoint(m);
  return -(upper ? matmul(factor, sum) : matmul(sum, factor));
}

}  // namespace

// X = A^-1 B: gB = A^-1 G.
std::tuple<Tensor, Tensor> cholesky_solve_backward(const Tensor& g, const Tensor& factor,
                                                   const Tensor& x, bool upper,
                                                   std::array<bool, 2> wanted) {
  Tensor g_b = ops::cholesky_solve(g, factor, upper);
  return {g_b, wanted[1] ? factor_grad(matmul(g_b, adjoint(x)), factor, upper) : Tensor()};
}
Tensor cholesky_inverse_backward(const Tensor& g, const Tensor& factor, const Tensor& inverse,
                                 bool upper) {
  return factor_grad(matmul(inverse, matmul(g, inverse)), factor, upper);
}

// A = V diag(w) V^-1 with columns of length one: gA = V^-H (diag(G_w) + (V^H G_V - V^H V
// Re(diag(V^H G_V))) / (w_j - w_i)^*) V^H. A column may be multiplied by any phase: what depends on
// it has no gradient.
Tensor eig_backward(const Tensor& g_values, const Tensor& g_vectors, const Tensor& values,
                    const Tensor& vectors) {
  Tensor v_h = adjoint(vectors), inner;
  if (g_values.defined()) inner = ops::diag_embed(g_values);
  if (g_vectors.defined()) {
    Tensor m = matmul(v_h, g_vectors), along = diagonal_of(m);
    FL_CHECK(
        !has_values(along) || along.numel() == 0 ||
            ops::all(ops::abs(ops::imag(along)) <= ops::abs(along) * Scalar(1e-2) + Scalar(1e-2))
                .item()
                .to_bool(),
        RuntimeError,
        "linalg.eig: the result depends on the phases of the eigenvectors of shape {}, which "
        "are not determined",
        vectors.sizes());
    Tensor kept = matmul(v_h, vectors) * ops::unsqueeze(ops::real(along), -2);
    inner = plus(inner, over_differences(m - kept, ops::conj(values)));
  }
  return std::get<0>(ops::_linalg_solve(v_h, matmul(inner, v_h)));
}

// A = V diag(w) V^H: gA = V (diag(G_w) + V^H G_V / (w_j - w_i)) V^H, of which only the part that is
// Hermitian like A can change anything.
Tensor eigh_backward(const Tensor& g_values, const Tensor& g_vectors, const Tensor& values,
                     const Tensor& vectors) {
  Tensor inner;
  if (g_values.defined()) inner = ops::to(ops::diag_embed(g_values), vectors.dtype());
  if (g_vectors.defined()) {
    Tensor turn = over_differences(matmul(adjoint(vectors), g_vectors), values);
    inner = plus(inner, (turn + adjoint(turn)) * 0.5);
  }
  return matmul(vectors, matmul(inner, adjoint(vectors)));
}

Tensor eigvalsh_backward(const Tensor& g, const Tensor& a, std::string_view uplo) {
  auto [values, vectors] = ops::linalg_eigh(a, uplo);
  return eigh_backward(g, Tensor(), values, vectors);
}

// A = U S V^H (Townsend 2016; complex: Wan and Zhang 2019). With X = U^H G_U - its adjoint, Y the
// same of V and E_ij = s_j^2 - s_i^2: gA = U ((X S + S Y) / E + diag(G_s)) V^H, and parts of G_U
// and G_V outside the spaces of U and V.
Tensor svd_backward(const Tensor& g_u_full, const Tensor& g_s, const Tensor& g_vh_full,
                    const Tensor& u_full, const Tensor& s, const Tensor& vh_full) {
  int64_t k = s.size(-1), m = u_full.size(-2), n = vh_full.size(-1);
  // Vectors beyond the first k are any basis of what is left: they carry no gradient.
  Tensor g_u = g_u_full.defined() ? ops::narrow(g_u_full, -1, 0, k) : g_u_full;
  Tensor g_vh = g_vh_full.defined() ? ops::narrow(g_vh_full, -2, 0, k) : g_vh_full;
  Tensor u = ops::narrow(u_full, -1, 0, k), vh = ops::narrow(vh_full, -2, 0, k);
  Tensor row = ops::unsqueeze(s, -2), column = ops::unsqueeze(s, -1), inner;
  auto skew = [](const Tensor& a) { return a - adjoint(a); };
  Tensor x, y;
  if (g_u.defined()) x = skew(matmul(adjoint(u), g_u));
  if (g_vh.defined()) y = skew(matmul(vh, adjoint(g_vh)));
  if (x.defined()) inner = x * row;
  if (y.defined()) inner = plus(inner, y * column);
  if (inner.defined()) {
    inner = over_differences(inner, s * s);
    if (is_complex(u.dtype()) && x.defined())
      inner = inner + ops::diag_embed(diagonal_of(x) / (s * Scalar(2.0)));
  }
  if (g_s.defined()) inner = plus(inner, ops::to(ops::diag_embed(g_s), u.dtype()));
  Tensor grad = matmul(u, matmul(inner, vh));
  if (g_u.defined() && m > k) {
    Tensor outside = g_u - matmul(u, matmul(adjoint(u), g_u));
    grad = grad + matmul(outside / row, vh);
  }
  if (g_vh.defined() && n > k) {
    Tensor outside = g_vh - matmul(matmul(g_vh, adjoint(vh)), vh);
    grad = grad + matmul(u, outside / column);
  }
  return grad;
}

Tensor svdvals_backward(const Tensor& g, const Tensor& a) {
  auto [u, s, vh] = ops::linalg_svd(a, false);
  return svd_backward(Tensor(), g, Tensor(), u, s, vh);
}

// A regular: gA = conj(det) G A^-H. Otherwise conj(det U det V) G U diag(products of the other
// singular values) V^H, which has no second derivative here.
Tensor det_backward(const Tensor& g, const Tensor& a, const Tensor& det) {
  Tensor scale = ops::unsqueeze(ops::unsqueeze(g * ops::conj(det), -1), -1);
  auto [inverse, info] = ops::linalg_inv_ex(a);
  Tensor grad = scale * adjoint(inverse);
  if (!has_memory(info) || (has_values(info) && !ops::any(info).item().to_bool())) return grad;
  NoGradGuard no_grad;
  auto [u, s, vh] = ops::linalg_svd(a, false);
  int64_t n = s.size(-1);
  Tensor grid = ops::expand(ops::unsqueeze(s, -2), grad.sizes());
  Tensor identity = ops::eye(n, s.dtype(), {}, s.device());
  Tensor others = ops::prod(ops::where(identity != Scalar(0.0), Scalar(1.0), grid), -1);
  Tensor phase = ops::conj(ops::linalg_det(u) * ops::linalg_det(vh)) * g;
  Tensor cofactors = matmul(u * ops::unsqueeze(others, -2), vh);
  cofactors = cofactors * ops::unsqueeze(ops::unsqueeze(phase, -1), -1);
  Tensor singular = ops::unsqueeze(ops::unsqueeze(info, -1), -1) != Scalar(int64_t{0});
  return ops::where(singular, cofactors, grad);
}

// P = A^+ (Golub and Pereyra 1973):
// gA = -P^H G P^H + (1 - A P) G^H P P^H + P^H P G^H (1 - P A).
Tensor pinv_backward(const Tensor& g, const Tensor& a, const Tensor& p) {
  Tensor g_h = adjoint(g), p_h = adjoint(p);
  Tensor left = matmul(matmul(g_h, p), p_h), right = matmul(p_h, matmul(p, g_h));
  return left - matmul(a, matmul(p, left)) + right - matmul(matmul(right, p), a) -
         matmul(p_h, matmul(g, p_h));
}

}  // namespace flambeau
