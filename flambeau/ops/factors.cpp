// LU and Cholesky factorisations, and the triangular systems they leave. Layouts and pivots as in
// LAPACK; everything small and row-major.
#include <cmath>

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

double size_of(double x) { return std::fabs(x); }
double size_of(std::complex<double> x) { return std::fabs(x.real()) + std::fabs(x.imag()); }

// P L U in the place of a (m x n); the first zero pivot's place, from 1, or 0.
template <class T>
int32_t factor_lu(T* a, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  int32_t info = 0;
  for (int64_t k = 0; k < std::min(m, n); k++) {
    int64_t best = k;
    for (int64_t i = k + 1; pivot && i < m; i++)
      if (size_of(a[i * n + k]) > size_of(a[best * n + k])) best = i;
    pivots[k] = int32_t(best + 1);
    if (best != k) std::swap_ranges(a + k * n, a + (k + 1) * n, a + best * n);
    T top = a[k * n + k];
    if (top == T(0)) {
      if (!info) info = int32_t(k + 1);
      continue;
    }
    for (int64_t i = k + 1; i < m; i++) {
      T factor = a[i * n + k] /= top;
      if (factor == T(0)) continue;
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return info;
}

// x (n x k) = the solution of a x = x; a is lower or upper triangular, with ones on the diagonal if
// unit.
template <class T>
void solve_in_place(const T* a, int64_t n, T* x, int64_t k, bool upper, bool unit) {
  for (int64_t step = 0; step < n; step++) {
    int64_t i = upper ? n - 1 - step : step;
    T* row = x + i * k;
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); j++) {
      T factor = a[i * n + j];
      if (factor == T(0)) continue;
      for (int64_t c = 0; c < k; c++) row[c] -= factor * x[j * k + c];
    }
    for (int64_t c = 0; c < k && !unit; c++) row[c] /= a[i * n + i];
  }
}

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
  int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  Tensor wide = widened(A);
  visit_wide(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < info.numel(); b++)
      info.data<int32_t>()[b] =
          factor_lu(values<T>(wide) + b * m * n, m, n, pivots.data<int32_t>() + b * k, pivot);
  });
  copy_elements(LU, wide);
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
  int64_t n = A.size(-1), k = B.size(-1);
  Tensor factors = widened(A), x = widened(B);
  std::vector<int32_t> pivots(static_cast<size_t>(n));
  visit_wide(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < info.numel(); b++) {
      T *a = values<T>(factors) + b * n * n, *rows = values<T>(x) + b * n * k;
      info.data<int32_t>()[b] = factor_lu(a, n, n, pivots.data(), true);
      for (int64_t i = 0; i < n; i++)
        std::swap_ranges(rows + i * k, rows + (i + 1) * k, rows + (pivots[size_t(i)] - 1) * k);
      solve_in_place(a, n, rows, k, /*upper=*/false, /*unit=*/true);
      solve_in_place(a, n, rows, k, /*upper=*/true, /*unit=*/false);
    }
  });
  copy_elements(result, x);
}

Ints triangular_shape(const Tensor& self, const Tensor& B, bool, bool) {
  check_system(self, B);
  return B.sizes();
}
void triangular_kernel(Tensor& result, const Tensor& self, const Tensor& B, bool upper, bool unit) {
  int64_t n = self.size(-1), k = B.size(-1);
  Tensor a = widened(self), x = widened(B);
  visit_wide(B.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < count_of(batch_sizes(B)); b++)
      solve_in_place(values<T>(a) + b * n * n, n, values<T>(x) + b * n * k, k, upper, unit);
  });
  copy_elements(result, x);
}

// ---- Cholesky ----

namespace {

// The lower triangle of a (n x n) becomes L with A = L L^H; the rest is not read. The order of the
// first leading minor that is not positive, or 0.
template <class T>
int32_t factor_cholesky(T* a, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    double rest = std::real(a[j * n + j]);
    for (int64_t k = 0; k < j; k++) rest -= std::norm(a[j * n + k]);
    if (!(rest > 0)) return int32_t(j + 1);
    double root = std::sqrt(rest);
    a[j * n + j] = T(root);
    for (int64_t i = j + 1; i < n; i++) {
      T dot = a[i * n + j];
      for (int64_t k = 0; k < j; k++) dot -= a[i * n + k] * conjugate(a[j * n + k]);
      a[i * n + j] = dot / root;
    }
  }
  return 0;
}

}  // namespace

Ints cholesky_shape(const Tensor& self, bool, bool) {
  check_square("linalg.cholesky", self);
  return self.sizes();
}
Ints cholesky_info_shape(const Tensor& self, bool, bool) { return batch_sizes(self); }
DType cholesky_int32(const Tensor&, bool, bool) { return DType::Int32; }

void cholesky_kernel(Tensor& L, Tensor& info, const Tensor& self, bool upper, bool check_errors) {
  int64_t n = self.size(-1);
  Tensor wide = widened(upper ? adjoint(detach(self)) : self);
  visit_wide(self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < info.numel(); b++) {
      T* a = values<T>(wide) + b * n * n;
      info.data<int32_t>()[b] = factor_cholesky(a, n);
      for (int64_t i = 0; i < n; i++) std::fill(a + i * n + i + 1, a + (i + 1) * n, T(0));
    }
  });
  copy_elements(L, upper ? adjoint(wide) : wide);
  if (check_errors)
    check_info("linalg.cholesky_ex", info,
               "the leading minors must be positive; the order of the first that is not");
}

}  // namespace flambeau::ops
