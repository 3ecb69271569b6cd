// QR by Householder reflections, and the products of such reflections. LAPACK's layout and signs;
// everything small and row-major.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/matrices.h"

namespace flambeau::ops {

void check_matrix(std::string_view op, const Tensor& a) {
  FL_CHECK(a.ndim() >= 2, RuntimeError, "{}: the input must have at least 2 dims, got shape {}", op,
           a.sizes());
  FL_CHECK(is_inexact(a.dtype()) && !is_half(a.dtype()), RuntimeError,
           "{}: the dtype must be float32, float64, complex64 or complex128, got {}", op,
           a.dtype());
}

// The sizes of a with other numbers of rows and columns.
Ints with_matrix(const Tensor& a, int64_t rows, int64_t columns) {
  Ints sizes = a.sizes();
  sizes[sizes.size() - 2] = rows;
  sizes[sizes.size() - 1] = columns;
  return sizes;
}

namespace {

// One m x n matrix in place. Each reflection maps the rest of its column to beta e1, beta real and
// of the sign opposite to the pivot's, so that nothing cancels.
template <class T>
void reflect_columns(T* a, int64_t m, int64_t n, T* tau) {
  for (int64_t k = 0; k < std::min(m, n); k++) {
    double below = 0;
    for (int64_t i = k + 1; i < m; i++) below += std::norm(a[i * n + k]);
    T pivot = a[k * n + k];
    tau[k] = T(0);
    if (below == 0 && std::imag(pivot) == 0) continue;
    double length = std::sqrt(std::norm(pivot) + below);
    T beta = T(std::real(pivot) > 0 ? -length : length);
    tau[k] = (beta - pivot) / beta;
    for (int64_t i = k + 1; i < m; i++) a[i * n + k] /= pivot - beta;
    a[k * n + k] = beta;
    for (int64_t j = k + 1; j < n; j++) {
      T dot = a[k * n + j];
      for (int64_t i = k + 1; i < m; i++) dot += conjugate(a[i * n + k]) * a[i * n + j];
      dot *= conjugate(tau[k]);
      a[k * n + j] -= dot;
      for (int64_t i = k + 1; i < m; i++) a[i * n + j] -= a[i * n + k] * dot;
    }
  }
}

// q (m x columns) = the reflections kept in a (m x n), applied to the identity.
template <class T>
void form_q(const T* a, const T* tau, int64_t m, int64_t n, T* q, int64_t columns) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < columns; j++) q[i * columns + j] = T(i == j);
  for (int64_t k = std::min(m, n) - 1; k >= 0; k--) {
    for (int64_t j = k; j < columns; j++) {
      T dot = q[k * columns + j];
      for (int64_t i = k + 1; i < m; i++) dot += conjugate(a[i * n + k]) * q[i * columns + j];
      dot *= tau[k];
      q[k * columns + j] -= dot;
      for (int64_t i = k + 1; i < m; i++) q[i * columns + j] -= a[i * n + k] * dot;
    }
  }
}

template <class F>
void visit_inexact(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float32:
      return f(float());
    case DType::Float64:
      return f(double());
    case DType::Complex64:
      return f(std::complex<float>());
    default:
      return f(std::complex<double>());
  }
}

int64_t qr_columns(const Tensor& a, std::string_view mode) {
  check_matrix("linalg.qr", a);
  FL_CHECK(mode == "reduced" || mode == "complete" || mode == "r", RuntimeError,
           "linalg.qr: mode must be 'reduced', 'complete' or 'r', got '{}'", mode);
  return mode == "complete" ? a.size(-2) : std::min(a.size(-2), a.size(-1));
}

template <class T>
void qr_matrices(const Tensor& a, T* q, T* r, int64_t k) {
  int64_t m = a.size(-2), n = a.size(-1), matrices = 1;
  for (int64_t d = 0; d < a.ndim() - 2; d++) matrices *= a.size(d);
  std::vector<T> packed(size_t(m * n)), tau(size_t(std::min(m, n)));
  for (int64_t b = 0; b < matrices; b++) {
    const T* from = reinterpret_cast<const T*>(a->data) + b * m * n;
    std::copy(from, from + m * n, packed.begin());
    reflect_columns(packed.data(), m, n, tau.data());
    T* to = r + b * k * n;
    for (int64_t i = 0; i < k; i++)
      for (int64_t j = 0; j < n; j++) to[i * n + j] = i <= j ? packed[size_t(i * n + j)] : T(0);
    if (q) form_q(packed.data(), tau.data(), m, n, q + b * m * k, k);
  }
}

}  // namespace

Ints geqrf_a_shape(const Tensor& self) {
  check_matrix("geqrf", self);
  return self.sizes();
}
Ints geqrf_tau_shape(const Tensor& self) {
  Ints sizes(IntList(self.sizes().data(), self.sizes().size() - 1));
  sizes[sizes.size() - 1] = std::min(self.size(-2), self.size(-1));
  return sizes;
}

void geqrf_kernel(Tensor& a, Tensor& tau, const Tensor& self) {
  int64_t m = self.size(-2), n = self.size(-1), k = std::min(m, n);
  if (self.numel() == 0) return;
  copy_elements(a, self);
  visit_inexact(self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < self.numel() / (m * n); b++)
      reflect_columns(reinterpret_cast<T*>(a->data) + b * m * n, m, n,
                      reinterpret_cast<T*>(tau->data) + b * k);
  });
}

Ints qr_q_shape(const Tensor& A, std::string_view mode) {
  int64_t k = qr_columns(A, mode);
  return mode == "r" ? Ints{0} : with_matrix(A, A.size(-2), k);
}
Ints qr_r_shape(const Tensor& A, std::string_view mode) {
  return with_matrix(A, qr_columns(A, mode), A.size(-1));
}

void qr_kernel(Tensor& q, Tensor& r, const Tensor& A, std::string_view mode) {
  visit_inexact(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    qr_matrices<T>(A, mode == "r" ? nullptr : reinterpret_cast<T*>(q->data),
                   reinterpret_cast<T*>(r->data), qr_columns(A, mode));
  });
}

std::tuple<Tensor, Tensor> qr_impl(const Tensor& self, bool some) {
  return linalg_qr(self, some ? "reduced" : "complete");
}

Tensor householder_product_impl(const Tensor& input, const Tensor& tau) {
  constexpr auto op = "linalg.householder_product";
  check_matrix(op, input);
  int64_t m = input.size(-2), n = input.size(-1);
  FL_CHECK(
      tau.ndim() == input.ndim() - 1 && m >= n && n >= tau.size(-1) && tau.dtype() == input.dtype(),
      RuntimeError,
      "{}: input (*, m, n) and tau (*, k) need m >= n >= k and one dtype, got {} of {} and {} "
      "of {}",
      op, input.sizes(), input.dtype(), tau.sizes(), tau.dtype());
  for (int64_t d = 0; d < tau.ndim() - 1; d++)
    FL_CHECK(tau.size(d) == input.size(d), RuntimeError,
             "{}: the leading sizes of input and tau must be equal, got {} and {}", op,
             input.sizes(), tau.sizes());
  Tensor identity = eye(m, n, input.dtype(), std::nullopt, input.device());
  Tensor q = _depends(clone(expand(identity, input.sizes())), input);
  Tensor below = tril(input, -1);
  for (int64_t k = tau.size(-1) - 1; k >= 0; k--) {
    Tensor v = narrow(below, -1, k, 1) + narrow(identity, -1, k, 1);
    Tensor scaled = unsqueeze(narrow(tau, -1, k, 1), -1) * v;
    q = q - matmul(scaled, matmul(adjoint(v), q));
  }
  return q;
}

}  // namespace flambeau::ops
