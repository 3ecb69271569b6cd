// Matrix exponentials and chains of products, composed of other ops.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/matrices.h"

namespace flambeau::ops {

namespace {

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

Tensor matrix_exp_impl(const Tensor& self) {
  constexpr auto op = "linalg.matrix_exp";
  FL_CHECK(is_inexact(self.dtype()), RuntimeError, "{}: the dtype must be floating, got {}", op,
           self.dtype());
  if (wide_of(self.dtype()) != self.dtype())  // squaring doubles every error
    return to(matrix_exp_impl(to(self, wide_of(self.dtype()))), self.dtype());
  check_square(op, self);
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
