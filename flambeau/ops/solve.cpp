// Linear systems, matrix exponentials and chains of products, composed of other
// ops.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

void check_square(std::string_view op, const Tensor& a) {
  FL_CHECK(a.ndim() >= 2 && a.size(-1) == a.size(-2), RuntimeError,
           "{}: A must be square matrices, got shape {}", op, a.sizes());
  FL_CHECK(is_inexact(a.dtype()) && !is_half(a.dtype()), RuntimeError,
           "{}: the dtype must be float32, float64, complex64 or complex128, got {}", op,
           a.dtype());
}

// A zero on R's diagonal: A is singular.
void check_regular(const Tensor& r) {
  if (!has_memory(r) || r->flags & kBatched) return;
  Tensor pivots = dense(to(abs(diagonal(detach(r), 0, -2, -1)), DType::Float64));
  for (int64_t i = 0; i < pivots.numel(); i++)
    FL_CHECK(pivots.data<double>()[i] != 0, LinAlgError,
             "linalg.solve: A must not be singular, got a zero pivot in row {}",
             i % pivots.size(-1));
}

// The largest sum of absolute values of a column.
double largest_column(const Tensor& a) {
  constexpr int64_t rows = -2;
  if (!has_memory(a) || a.numel() == 0) return 0;
  Tensor sums = dense(to(sum(abs(detach(a)), IntList(&rows, 1)), DType::Float64));
  double largest = 0;
  for (int64_t i = 0; i < sums.numel(); i++) largest = std::max(largest, sums.data<double>()[i]);
  return largest;
}

}  // namespace

Tensor solve_impl(const Tensor& A, const Tensor& B, bool left) {
  constexpr auto op = "linalg.solve";
  check_square(op, A);
  FL_CHECK(A.dtype() == B.dtype(), RuntimeError, "{}: A and B must have one dtype, got {} and {}",
           op, A.dtype(), B.dtype());
  IntList batch(A.sizes().data(), A.sizes().size() - 1);
  bool vectors = B.ndim() == 1 || (B.ndim() == A.ndim() - 1 && B.sizes() == batch);
  if (vectors) {
    FL_CHECK(left, RuntimeError, "{}: left=False needs matrices, got B of shape {}", op, B.sizes());
    return squeeze(linalg_solve(A, unsqueeze(B, -1)), -1);
  }
  FL_CHECK(B.ndim() >= 2 && B.size(left ? -2 : -1) == A.size(-1), RuntimeError,
           "{}: A and B must have sizes that fit, got {} and {}", op, A.sizes(), B.sizes());
  if (!left) return transpose(linalg_solve(transpose(A, -2, -1), transpose(B, -2, -1)), -2, -1);
  auto [q, r] = linalg_qr(A);
  check_regular(r);
  return linalg_solve_triangular(r, matmul(adjoint(q), B), /*upper=*/true);
}

Tensor matrix_exp_impl(const Tensor& self) {
  check_square("linalg.matrix_exp", self);
  double norm = largest_column(self);
  int halvings = std::isfinite(norm) && norm > 0.5 ? int(std::ceil(std::log2(norm))) + 1 : 0;
  Tensor a = self * std::ldexp(1.0, -halvings);
  Tensor identity = eye(self.size(-1), self.dtype(), std::nullopt, self.device());
  // exp(a) = 1 + a (1 + a/2 (1 + a/3 ...)): 14 terms reach 2^-53 for norms up
  // to a half.
  constexpr int kTerms = 14;
  Tensor sum = identity + a / kTerms;
  for (int k = kTerms - 1; k > 0; k--) sum = identity + matmul(a / k, sum);
  for (int i = 0; i < halvings; i++) sum = matmul(sum, sum);
  return sum;
}

Tensor multi_dot_impl(TensorList tensors) {
  constexpr auto op = "linalg.multi_dot";
  FL_CHECK(tensors.size() >= 2, RuntimeError, "{}: at least 2 tensors are needed, got {}", op,
           tensors.size());
  for (size_t i = 0; i < tensors.size(); i++) {
    bool end = i == 0 || i + 1 == tensors.size();
    FL_CHECK(tensors[i].ndim() == 2 || (end && tensors[i].ndim() == 1), RuntimeError,
             "{}: tensor {} must be a matrix{}, got shape {}", op, i, end ? " or a vector" : "",
             tensors[i].sizes());
  }
  Tensor product = tensors[0];
  for (const Tensor& t : tensors.subspan(1)) product = matmul(product, t);
  return product;
}

}  // namespace flambeau::ops
