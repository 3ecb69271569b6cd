// QR by Householder reflections, and the products of such reflections, in LAPACK's layout.
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/orthogonal.h"
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

int64_t qr_columns(const Tensor& a, std::string_view mode) {
  check_matrix("linalg.qr", a);
  FL_CHECK(mode == "reduced" || mode == "complete" || mode == "r", RuntimeError,
           "linalg.qr: mode must be 'reduced', 'complete' or 'r', got '{}'", mode);
  return mode == "complete" ? a.size(-2) : std::min(a.size(-2), a.size(-1));
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
  int64_t m = self.size(-2), n = self.size(-1);
  copy_elements(a, self);
  flambeau::qr_matrices(self.dtype(), a->data, tau->data, nullptr, count_of(batch_sizes(self)), m,
                        n, 0);
}

Ints qr_q_shape(const Tensor& A, std::string_view mode) {
  int64_t k = qr_columns(A, mode);
  return mode == "r" ? Ints{0} : with_matrix(A, A.size(-2), k);
}
Ints qr_r_shape(const Tensor& A, std::string_view mode) {
  return with_matrix(A, qr_columns(A, mode), A.size(-1));
}

void qr_kernel(Tensor& q, Tensor& r, const Tensor& A, std::string_view mode) {
  int64_t m = A.size(-2), n = A.size(-1), rows = r.size(-2), k = std::min(m, n);
  int64_t batch = count_of(batch_sizes(A));
  Tensor packed = contiguous_copy(A), tau = new_tensor({batch, k}, A.dtype(), A.device());
  flambeau::qr_matrices(A.dtype(), packed->data, tau->data, mode == "r" ? nullptr : q->data, batch,
                        m, n, rows);
  copy_elements(r, triu(narrow(packed, -2, 0, rows)));
}

std::tuple<Tensor, Tensor> qr_impl(const Tensor& self, bool some) {
  return linalg_qr(self, some ? "reduced" : "complete");
}

// Q c or Q^H c, of the reflections that geqrf packs. A block of them is I - V T V^H with
// T = (I + D S)^-1 D, D the diagonal matrix of tau and S what V^H V has above its diagonal. Source:
// Joffrain, Low, Quintana-Orti, van de Geijn and Robey 2006.
Tensor times_reflections(const Tensor& packed, const Tensor& tau, const Tensor& c, bool adjointly) {
  constexpr int64_t kBlock = 64;
  int64_t m = packed.size(-2), k = tau.size(-1), blocks = (k + kBlock - 1) / kBlock;
  Tensor ones = eye(m, k, packed.dtype(), std::nullopt, packed.device());
  Tensor all = tril(narrow(packed, -1, 0, k), -1) + ones, result = c;
  for (int64_t step = 0; step < blocks; step++) {
    int64_t first = (adjointly ? step : blocks - 1 - step) * kBlock;
    int64_t width = std::min(kBlock, k - first);
    Tensor v = narrow(all, -1, first, width), d = unsqueeze(narrow(tau, -1, first, width), -1);
    Tensor v_h = adjoint(v), ds = d * triu(matmul(v_h, v), 1), along = matmul(v_h, result);
    Tensor turned = adjointly
                        ? conj(d) * linalg_solve_triangular(adjoint(ds), along, false, true, true)
                        : linalg_solve_triangular(ds, d * along, true, true, true);
    result = result - matmul(v, turned);
  }
  return result;
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
  return times_reflections(input, tau, q, /*adjointly=*/false);
}

}  // namespace flambeau::ops
