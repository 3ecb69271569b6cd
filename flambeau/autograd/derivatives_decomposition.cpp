// Derivatives of matrix decompositions.
#include "flambeau/autograd/derivatives.h"

namespace flambeau {

namespace {

Tensor plus(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a + b;
}

// m >= n: with M = gR R^H - Q^H gQ and S = its upper triangle plus that of its adjoint,
// gA = (gQ + Q S) R^-H.
Tensor tall_qr_backward(const Tensor& g_q, const Tensor& g_r, const Tensor& q, const Tensor& r) {
  Tensor m;
  if (g_r.defined()) m = ops::matmul(g_r, ops::adjoint(r));
  if (g_q.defined()) m = plus(m, -ops::matmul(ops::adjoint(q), g_q));
  Tensor upper = ops::triu(m, 1), diagonal = ops::triu(ops::tril(m));
  Tensor symmetric = upper + ops::adjoint(upper) + (diagonal + ops::adjoint(diagonal)) / 2;
  Tensor g = plus(ops::matmul(q, symmetric), g_q);
  return ops::linalg_solve_triangular(ops::adjoint(r), g, /*upper=*/false, /*left=*/false);
}

}  // namespace

Tensor qr_backward(const Tensor& g_q, const Tensor& g_r, const Tensor& q, const Tensor& r) {
  int64_t k = r.size(-2), n = r.size(-1);
  FL_CHECK(q.ndim() == r.ndim(), RuntimeError,
           "linalg.qr: mode 'r' has no derivative, since Q is needed for it; use 'reduced'");
  FL_CHECK(k <= n, RuntimeError,
           "linalg.qr: mode 'complete' has no derivative for more rows than columns, got {} and {}",
           q.size(-2), n);
  if (k == n) return tall_qr_backward(g_q, g_r, q, r);
  // A = [X, Y] with X square: R = [U, V], X = Q U, and Y = Q V leaves V = Q^H Y.
  Tensor u = ops::narrow(r, -1, 0, k), v = ops::narrow(r, -1, k, n - k);
  if (!g_r.defined()) {
    Tensor left = tall_qr_backward(g_q, g_r, q, u);
    return ops::cat(std::vector{left, ops::zeros_like(ops::matmul(q, v))}, -1);
  }
  Tensor g_u = ops::narrow(g_r, -1, 0, k), g_v = ops::narrow(g_r, -1, k, n - k);
  Tensor g = plus(g_q, ops::matmul(ops::matmul(q, v), ops::adjoint(g_v)));
  return ops::cat(std::vector{tall_qr_backward(g, g_u, q, u), ops::matmul(q, g_v)}, -1);
}

}  // namespace flambeau
