// LU and Cholesky factorisations, and the triangular systems they leave. Layouts and pivots as in
// LAPACK.
#include "flambeau/kernels/cpu/factors.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/matrices.h"

namespace flambeau::ops {

void check_square(std::string_view op, const Tensor& a) {
  check_matrix(op, a);
  FL_CHECK(a.size(-1) == a.size(-2), RuntimeError, "{}: A must be square matrices, got shape {}",
           op, a.sizes());
}

void check_info(std::string_view op, const Tensor& info, std::string_view what) {
  if (!has_values(info)) return;
  Tensor places = dense(info);
  for (int64_t i = 0; i < places.numel(); i++)
    FL_CHECK(places.data<int32_t>()[i] == 0, LinAlgError, "{}: {}, got {} in matrix {}", op, what,
             places.data<int32_t>()[i], i);
}

Ints batch_sizes(const Tensor& a, int64_t dropped) {
  return Ints(IntList(a.sizes().data(), a.sizes().size() - size_t(dropped)));
}

// ---- LU ----

namespace {

Ints factor_sizes(std::string_view op, const Tensor& A) {
  check_matrix(op, A);
  return A.sizes();
}

}  // namespace

Ints lu_shape(const Tensor& A, bool, bool) { return factor_sizes("linalg.lu_factor", A); }
Ints lu_pivots_shape(const Tensor& A, bool, bool) {
  Ints sizes = batch_sizes(A);
  sizes.push_back(std::min(A.size(-2), A.size(-1)));
  return sizes;
}
Ints lu_info_shape(const Tensor& A, bool, bool) { return batch_sizes(A); }
DType lu_int32(const Tensor&, bool, bool) { return DType::Int32; }

void lu_kernel(Tensor& LU, Tensor& pivots, Tensor& info, const Tensor& A, bool pivot,
               bool check_errors) {
  copy_elements(LU, A);
  flambeau::lu_matrices(A.dtype(), LU->data, info.numel(), A.size(-2), A.size(-1),
                        pivots.data<int32_t>(), info.data<int32_t>(), pivot);
  if (check_errors)
    check_info("linalg.lu_factor_ex", info, "the pivots must not be zero; the first zero pivot");
}

// What the row exchanges make of the rows' numbers.
Ints permutation_shape(const Tensor& pivots, int64_t rows) {
  FL_CHECK(pivots.ndim() >= 1 && pivots.dtype() == DType::Int32, RuntimeError,
           "lu_unpack: the pivots must be int32 of at least one dim, got {} of shape {}",
           pivots.dtype(), pivots.sizes());
  FL_CHECK(pivots.size(-1) <= rows, RuntimeError,
           "lu_unpack: pivots of shape {} exchange more than {} rows", pivots.sizes(), rows);
  Ints sizes = batch_sizes(pivots, 1);
  sizes.push_back(rows);
  return sizes;
}
void permutation_kernel(Tensor& result, const Tensor& pivots, int64_t rows) {
  int64_t k = pivots.size(-1), count = rows ? result.numel() / rows : 0;
  for (int64_t b = 0; b < count; b++) {
    int64_t* order = result.data<int64_t>() + b * rows;
    const int32_t* exchanges = pivots.data<int32_t>() + b * k;
    for (int64_t i = 0; i < rows; i++) order[i] = i;
    for (int64_t i = 0; i < k; i++) {
      FL_CHECK(1 <= exchanges[i] && exchanges[i] <= rows, RuntimeError,
               "lu_unpack: the pivots must lie in [1, {}], got {}", rows, exchanges[i]);
      std::swap(order[i], order[exchanges[i] - 1]);
    }
  }
}

// ---- solving ----

namespace {

// A system's matrices: A (*, n, n) and B (*, n, k) with the same leading sizes.
void check_system(const Tensor& A, const Tensor& B) {
  check_square("linalg.solve", A);
  FL_CHECK(B.ndim() == A.ndim() && B.size(-2) == A.size(-1) && batch_sizes(B) == batch_sizes(A) &&
               B.dtype() == A.dtype(),
           RuntimeError,
           "linalg.solve: {} of shape {} does not fit a right side of {} and shape {}", A.dtype(),
           A.sizes(), B.dtype(), B.sizes());
}

}  // namespace

Ints solve_shape(const Tensor& A, const Tensor& B) {
  check_system(A, B);
  return B.sizes();
}
Ints solve_info_shape(const Tensor& A, const Tensor&) { return batch_sizes(A); }
DType solve_int32(const Tensor&, const Tensor&) { return DType::Int32; }

void solve_kernel(Tensor& result, Tensor& info, const Tensor& A, const Tensor& B) {
  int64_t n = A.size(-1), k = B.size(-1), batch = info.numel();
  Tensor factors = contiguous_copy(A);
  std::vector<int32_t> pivots(size_t(batch * n));
  copy_elements(result, B);
  flambeau::lu_matrices(A.dtype(), factors->data, batch, n, n, pivots.data(), info.data<int32_t>(),
                        /*pivot=*/true);
  flambeau::exchange_rows(A.dtype(), result->data, batch, n, k, pivots.data());
  for (bool upper : {false, true})
    flambeau::triangular_matrices(A.dtype(), factors->data, result->data, batch, n, k, upper,
                                  /*unit=*/!upper);
}

Ints triangular_shape(const Tensor& self, const Tensor& B, bool, bool) {
  check_system(self, B);
  return B.sizes();
}
void triangular_kernel(Tensor& result, const Tensor& self, const Tensor& B, bool upper, bool unit) {
  copy_elements(result, B);
  flambeau::triangular_matrices(B.dtype(), self->data, result->data, count_of(batch_sizes(B)),
                                self.size(-1), B.size(-1), upper, unit);
}

// ---- Cholesky ----

Ints cholesky_shape(const Tensor& self, bool, bool) {
  check_square("linalg.cholesky", self);
  return self.sizes();
}
Ints cholesky_info_shape(const Tensor& self, bool, bool) { return batch_sizes(self); }
DType cholesky_int32(const Tensor&, bool, bool) { return DType::Int32; }

void cholesky_kernel(Tensor& L, Tensor& info, const Tensor& self, bool upper, bool check_errors) {
  copy_elements(L, self);
  flambeau::cholesky_matrices(self.dtype(), L->data, info.numel(), self.size(-1), upper,
                              info.data<int32_t>());
  if (check_errors)
    check_info("linalg.cholesky_ex", info,
               "the leading minors must be positive; the order of the first that is not");
}

}  // namespace flambeau::ops
