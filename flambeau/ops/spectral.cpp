// Eigenvalues of Hermitian matrices and singular values.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/spectral.h"
#include "flambeau/ops/matrices.h"

namespace flambeau::ops {

void check_finite(std::string_view op, const Tensor& a) {
  Tensor total = widened(sum(detach(a)));  // finite only if all are
  if (is_complex(a.dtype()) ? std::isfinite(std::abs(*values<std::complex<double>>(total)))
                            : std::isfinite(*values<double>(total)))
    return;
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

namespace {

// Small matrices are computed in double: that costs them little, and their errors then lie in the
// last bit of the result.
DType precision_of(const Tensor& a) {
  constexpr int64_t kSmall = 32;
  return std::min(a.size(-2), a.size(-1)) <= kSmall ? wide_of(a.dtype()) : a.dtype();
}

}  // namespace

// ---- eigenvalues ----

Ints eigh_values_shape(const Tensor& self, std::string_view UPLO) {
  check_square("linalg.eigh", self);
  FL_CHECK(UPLO == "L" || UPLO == "U" || UPLO == "l" || UPLO == "u", RuntimeError,
           "linalg.eigh: UPLO must be 'L' or 'U', got '{}'", UPLO);
  return batch_sizes(self, 1);
}

namespace {

// The values; `vectors` holds the matrices in the precision to compute in, and then the vectors if
// they are wanted.
Tensor eigh_values(Tensor& vectors, const Tensor& self, std::string_view UPLO, bool wanted) {
  constexpr auto op = "linalg.eigh";
  check_finite(op, self);
  vectors = copied(self, precision_of(self));
  Tensor found = new_tensor(batch_sizes(self, 1), DType::Float64, self.device());
  bool upper = UPLO == "U" || UPLO == "u";
  bool ended = flambeau::eigh_matrices(vectors.dtype(), vectors->data, found.data<double>(),
                                       count_of(batch_sizes(self)), self.size(-1), upper, wanted);
  FL_CHECK(ended, LinAlgError, "{}: the iteration did not end for matrices of {}", op,
           self.sizes());
  return found;
}

}  // namespace

void eigh_kernel(Tensor& eigenvalues, Tensor& eigenvectors, const Tensor& self,
                 std::string_view UPLO) {
  Tensor vectors;
  copy_elements(eigenvalues, eigh_values(vectors, self, UPLO, true));
  copy_elements(eigenvectors, vectors);
}
void eigvalsh_kernel(Tensor& result, const Tensor& self, std::string_view UPLO) {
  Tensor unused;
  copy_elements(result, eigh_values(unused, self, UPLO, false));
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

namespace {

// The values; the vectors too if both tensors are defined, which then have the dtype to compute in.
Tensor svd_values(Tensor& u, Tensor& vh, const Tensor& A, bool full_matrices) {
  constexpr auto op = "linalg.svd";
  check_finite(op, A);
  DType dtype = precision_of(A);
  Tensor a = dtype == A.dtype() ? A : copied(A, dtype);
  Tensor found = new_tensor(svd_s_shape(A, false, {}), DType::Float64, A.device());
  bool ended =
      flambeau::svd_matrices(dtype, a->data, u.defined() ? u->data : nullptr, found.data<double>(),
                             vh.defined() ? vh->data : nullptr, count_of(batch_sizes(A)),
                             A.size(-2), A.size(-1), full_matrices);
  FL_CHECK(ended, LinAlgError, "{}: the iteration did not end for matrices of {}", op, A.sizes());
  return found;
}

}  // namespace

void svd_kernel(Tensor& U, Tensor& S, Tensor& Vh, const Tensor& A, bool full_matrices,
                std::optional<std::string_view>) {
  if (A.size(-2) == 0 || A.size(-1) == 0) {  // no values, and any vectors
    for (const Tensor* vectors : {&U, &Vh}) {
      if (vectors->numel() == 0) continue;
      Tensor identity = eye(vectors->size(-1), A.dtype(), std::nullopt, A.device());
      copy_elements(*vectors, expand(identity, vectors->sizes()));
    }
    return;
  }
  bool as_given = precision_of(A) == A.dtype();
  Tensor u = U, vh = Vh;
  if (!as_given) {
    u = new_tensor(U.sizes(), precision_of(A), A.device());
    vh = new_tensor(Vh.sizes(), precision_of(A), A.device());
  }
  copy_elements(S, svd_values(u, vh, A, full_matrices));
  if (as_given) return;
  copy_elements(U, u);
  copy_elements(Vh, vh);
}

Ints svdvals_shape(const Tensor& A) {
  check_matrix("linalg.svd", A);
  return svd_s_shape(A, false, {});
}
DType svdvals_real(const Tensor& A) { return real_of(A.dtype()); }

void svdvals_kernel(Tensor& result, const Tensor& A) {
  if (result.numel() == 0) return;
  Tensor none;
  copy_elements(result, svd_values(none, none, A, false));
}

}  // namespace flambeau::ops
