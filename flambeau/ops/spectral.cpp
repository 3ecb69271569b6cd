// Eigenvalues of Hermitian matrices and singular values, by Jacobi's rotations: simple, and
// accurate for small values too. Sources: Golub and Van Loan 2013, section 8.5; Demmel and Veselic
// 1992.
#include <cmath>
#include <numeric>

#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/spectral.h"
#include "flambeau/ops/matrices.h"

namespace flambeau::ops {

namespace {

constexpr double kTiny = 0x1p-52;
constexpr int kSweeps = 60;  // quadratic convergence needs about ten

// The rotation of two columns that makes the Hermitian [[a, b], [conj(b), d]] diagonal.
template <class T>
struct Rotation {
  double c;
  T s;  // with the phase of b
  Rotation(double a, T b, double d) {
    double size = std::abs(b), tau = (d - a) / (2 * size);
    double t = (tau < 0 ? -1 : 1) / (std::fabs(tau) + std::sqrt(1 + tau * tau));
    c = 1 / std::sqrt(1 + t * t);
    s = b / size * (t * c);
  }
  void turn(T& p, T& q) const {
    T before = p;
    p = c * before - conjugate(s) * q;
    q = s * before + c * q;
  }
};

// Jacobi's sweeps over all pairs, until none needs a turn; v begins as the identity. turned(p, q)
// turns a pair and says whether it had to.
template <class T, class F>
void sweep_pairs(T* v, int64_t n, const F& turned) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) v[i * n + j] = T(i == j);
  bool busy = n > 1;
  for (int sweep = 0; busy && sweep < kSweeps; sweep++) {
    busy = false;
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = p + 1; q < n; q++) busy |= turned(p, q);
  }
}

// Places in the order of the values.
std::vector<int64_t> order_of(const std::vector<double>& values, bool descending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    double x = values[size_t(i)], y = values[size_t(j)];
    return descending ? x > y : x < y;
  });
  return order;
}

template <class T>
T dot(const T* x, const T* y, int64_t n) {
  T sum(0);
  for (int64_t i = 0; i < n; i++) sum += conjugate(x[i]) * y[i];
  return sum;
}

// Rows `from`.. of q (count x n) become orthonormal to those before and among themselves.
template <class T>
void complete_basis(T* q, int64_t from, int64_t count, int64_t n) {
  int64_t unit = 0;
  for (int64_t row = from; row < count; row++) {
    for (double length = 0; length < 0.5 / std::sqrt(double(n)) && unit < n; unit++) {
      T* x = q + row * n;
      std::fill(x, x + n, T(0));
      x[unit] = T(1);
      for (int twice = 0; twice < 2; twice++) {
        for (int64_t k = 0; k < row; k++) {
          T along = dot(q + k * n, x, n);
          for (int64_t i = 0; i < n; i++) x[i] -= along * q[k * n + i];
        }
      }
      length = std::sqrt(std::real(dot(x, x, n)));
      for (int64_t i = 0; i < n; i++) x[i] /= length > 0 ? length : 1;
    }
  }
}

// The columns of an m x n matrix, m >= n, stand in the rows of w; they become orthogonal, and the
// rotations gather in the rows of v.
template <class T>
void orthogonalise(T* w, T* v, int64_t m, int64_t n) {
  sweep_pairs(v, n, [=](int64_t p, int64_t q) {
    T *x = w + p * m, *y = w + q * m;
    double a = std::real(dot(x, x, m)), d = std::real(dot(y, y, m));
    T b = dot(x, y, m);
    if (!(std::abs(b) > kTiny * std::sqrt(a * d)) || std::abs(b) < 1e-300) return false;
    Rotation<T> r(a, b, d);
    for (int64_t i = 0; i < m; i++) r.turn(x[i], y[i]);
    for (int64_t i = 0; i < n; i++) r.turn(v[p * n + i], v[q * n + i]);
    return true;
  });
}

// One matrix, m >= n: left singular vectors in the rows of u (lefts x m), right ones in those of v.
template <class T>
struct Singular {
  std::vector<T> u, v;
  std::vector<double> s;

  Singular(const std::vector<T>& columns, int64_t m, int64_t n, int64_t lefts)
      : u(size_t(lefts * m)), v(size_t(n * n)), s(size_t(n)) {
    std::vector<T> w = columns, turned(size_t(n * n));
    orthogonalise(w.data(), turned.data(), m, n);
    std::vector<double> lengths(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++)
      lengths[size_t(i)] = std::sqrt(std::real(dot(&w[size_t(i * m)], &w[size_t(i * m)], m)));
    std::vector<int64_t> order = order_of(lengths, true);
    int64_t rank = 0;
    for (int64_t i = 0; i < n; i++) {
      int64_t from = order[size_t(i)];
      double length = s[size_t(i)] = lengths[size_t(from)];
      std::copy_n(&turned[size_t(from * n)], n, &v[size_t(i * n)]);
      if (!(length > 1e-300)) continue;
      for (int64_t k = 0; k < m; k++) u[size_t(i * m + k)] = w[size_t(from * m + k)] / length;
      rank = i + 1;
    }
    complete_basis(u.data(), rank, lefts, m);
  }
};

}  // namespace

void check_finite(std::string_view op, const Tensor& a) {
  visit_wide(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor wide = widened(a);
    for (int64_t i = 0; i < wide.numel(); i++) {
      double size = std::abs(values<T>(wide)[i]);
      FL_CHECK(std::isfinite(size), LinAlgError,
               "{}: the elements must be finite, got {} in place {}", op, size, i);
    }
  });
}

// ---- eigenvalues ----

Ints eigh_values_shape(const Tensor& self, std::string_view UPLO) {
  check_square("linalg.eigh", self);
  FL_CHECK(UPLO == "L" || UPLO == "U" || UPLO == "l" || UPLO == "u", RuntimeError,
           "linalg.eigh: UPLO must be 'L' or 'U', got '{}'", UPLO);
  return batch_sizes(self, 1);
}

void eigh_kernel(Tensor& eigenvalues, Tensor& eigenvectors, const Tensor& self,
                 std::string_view UPLO) {
  bool upper = UPLO == "U" || UPLO == "u";
  int64_t n = self.size(-1);
  check_finite("linalg.eigh", self);
  copy_elements(eigenvectors, self);
  Tensor found = new_tensor(eigenvalues.sizes(), DType::Float64, self.device());
  bool ended = flambeau::eigh_matrices(self.dtype(), eigenvectors->data, found.data<double>(),
                                       count_of(batch_sizes(self)), n, upper, /*vectors=*/true);
  FL_CHECK(ended, LinAlgError, "linalg.eigh: the iteration did not end for matrices of {}",
           self.sizes());
  copy_elements(eigenvalues, found);
}

DType eigh_real(const Tensor& self, std::string_view) { return real_of(self.dtype()); }

// ---- singular values ----

Ints svd_u_shape(const Tensor& A, bool full_matrices, std::optional<std::string_view> driver) {
  check_matrix("linalg.svd", A);
  FL_CHECK(!driver, RuntimeError, "linalg.svd: driver is for CUDA, got '{}'", *driver);
  int64_t m = A.size(-2);
  return with_matrix(A, m, full_matrices ? m : std::min(m, A.size(-1)));
}
Ints svd_s_shape(const Tensor& A, bool, std::optional<std::string_view>) {
  Ints sizes = batch_sizes(A);
  sizes.push_back(std::min(A.size(-2), A.size(-1)));
  return sizes;
}
Ints svd_vh_shape(const Tensor& A, bool full_matrices, std::optional<std::string_view>) {
  int64_t n = A.size(-1);
  return with_matrix(A, full_matrices ? n : std::min(n, A.size(-2)), n);
}
DType svd_real(const Tensor& A, bool, std::optional<std::string_view>) {
  return real_of(A.dtype());
}

void svd_kernel(Tensor& U, Tensor& S, Tensor& Vh, const Tensor& A, bool full_matrices,
                std::optional<std::string_view>) {
  int64_t rows = A.size(-2), columns = A.size(-1);
  bool tall = rows >= columns;
  int64_t m = std::max(rows, columns), n = std::min(rows, columns), lefts = full_matrices ? m : n;
  Tensor wide = widened(A), u = widened(U), vh = widened(Vh);
  Tensor s = new_tensor(S.sizes(), DType::Float64, A.device());
  check_finite("linalg.svd", A);
  visit_wide(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < count_of(batch_sizes(A)); b++) {
      const T* a = values<T>(wide) + b * rows * columns;
      // The columns of A, or of its adjoint where A is wide.
      std::vector<T> given(size_t(m * n));
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
          given[size_t(tall ? j * m + i : i * m + j)] =
              tall ? a[i * columns + j] : conjugate(a[i * columns + j]);
      Singular<T> found(given, m, n, lefts);
      std::copy(found.s.begin(), found.s.end(), s.data<double>() + b * n);
      // U's columns from rows of vectors, Vh's rows from their conjugates.
      const std::vector<T>&left = tall ? found.u : found.v, &right = tall ? found.v : found.u;
      int64_t left_count = tall ? lefts : n, right_count = tall ? n : lefts;
      T *to_u = values<T>(u) + b * rows * left_count,
        *to_v = values<T>(vh) + b * right_count * columns;
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < left_count; j++)
          to_u[i * left_count + j] = left[size_t(j * rows + i)];
      for (int64_t i = 0; i < right_count * columns; i++) to_v[i] = conjugate(right[size_t(i)]);
    }
  });
  copy_elements(U, u);
  copy_elements(S, s);
  copy_elements(Vh, vh);
}

}  // namespace flambeau::ops
