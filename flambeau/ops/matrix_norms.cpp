// Norms of matrices, and what singular values tell: rank, condition, pseudo-inverse, least squares.
#include <cmath>

#include "flambeau/core/tls.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/factory.h"
#include "flambeau/ops/matrices.h"

namespace flambeau::ops {

namespace {

const Scalar kZero(int64_t{0});

Tensor extreme(const Tensor& a, int64_t dim, bool keepdim, bool largest) {
  return largest ? amax(a, IntList(&dim, 1), keepdim) : amin(a, IntList(&dim, 1), keepdim);
}
Tensor sum_along(const Tensor& a, int64_t dim, bool keepdim = false) {
  return sum(a, IntList(&dim, 1), keepdim);
}

struct TwoDims {
  int64_t rows, columns;
  TwoDims(std::string_view op, const Tensor& a, IntList dim) {
    FL_CHECK(dim.size() == 2 && a.ndim() >= 2, RuntimeError,
             "{}: two dims of a matrix are needed, got {} of shape {}", op, dim, a.sizes());
    rows = wrap_dim(op, dim[0], a.ndim());
    columns = wrap_dim(op, dim[1], a.ndim());
    FL_CHECK(rows != columns, RuntimeError, "{}: dims must differ, got {}", op, dim);
  }
};

Tensor cast_input(std::string_view op, const Tensor& a, std::optional<DType> dtype) {
  FL_CHECK(is_inexact(a.dtype()), RuntimeError, "{}: the input must be floating or complex, got {}",
           op, a.dtype());
  return dtype ? to(a, *dtype) : a;
}

// The singular values of the matrices in two dims, along a new last dim.
Tensor singular_values(const Tensor& a, const TwoDims& d) {
  return linalg_svdvals(movedim(a, {d.rows, d.columns}, {-2, -1}));
}
Tensor keep_dims(const Tensor& norm, const TwoDims& d, bool keepdim) {
  if (!keepdim) return norm;
  int64_t first = std::min(d.rows, d.columns), second = std::max(d.rows, d.columns);
  return unsqueeze(unsqueeze(norm, first), second);
}

}  // namespace

// Derivatives need the vectors, so they are computed at once where one will be asked for.
Tensor svdvals_impl(const Tensor& A, std::optional<std::string_view> driver) {
  bool whole = driver || (tls.grad && A.requires_grad());
  return whole ? std::get<1>(linalg_svd(A, false, driver)) : _linalg_svdvals(A);
}
Tensor eigvalsh_impl(const Tensor& self, std::string_view UPLO) {
  bool whole = tls.grad && self.requires_grad();
  return whole ? std::get<0>(linalg_eigh(self, UPLO)) : _linalg_eigvalsh(self, UPLO);
}
std::tuple<Tensor, Tensor, Tensor> svd_impl(const Tensor& self, bool some, bool compute_uv) {
  auto [u, s, vh] = linalg_svd(self, compute_uv && !some);
  if (compute_uv) return {u, s, adjoint(vh)};
  return {zeros(with_matrix(self, self.size(-2), self.size(-2)), self.dtype()), s,
          zeros(with_matrix(self, self.size(-1), self.size(-1)), self.dtype())};
}

// ---- norms ----

Tensor matrix_norm_impl(const Tensor& self, const Scalar& ord, IntList dim, bool keepdim,
                        std::optional<DType> dtype) {
  constexpr auto op = "linalg.matrix_norm";
  TwoDims d(op, self, dim);
  double p = ord.to_double();
  FL_CHECK(std::fabs(p) == 1 || std::fabs(p) == 2 || std::isinf(p), RuntimeError,
           "{}: ord must be 1, -1, 2, -2, inf or -inf, got {}", op, ord);
  Tensor a = cast_input(op, self, dtype);
  if (std::fabs(p) == 2)
    return keep_dims(extreme(singular_values(a, d), -1, false, p > 0), d, keepdim);
  int64_t summed = std::isinf(p) ? d.columns : d.rows, other = std::isinf(p) ? d.rows : d.columns;
  Tensor sums = sum_along(abs(a), summed, true);
  return keep_dims(squeeze(extreme(sums, other, true, p > 0), IntList{d.rows, d.columns}), d,
                   keepdim);
}

Tensor matrix_norm_impl(const Tensor& self, std::string_view ord, IntList dim, bool keepdim,
                        std::optional<DType> dtype) {
  constexpr auto op = "linalg.matrix_norm";
  TwoDims d(op, self, dim);
  FL_CHECK(ord == "fro" || ord == "nuc", RuntimeError, "{}: ord must be 'fro' or 'nuc', got '{}'",
           op, ord);
  if (ord == "fro") return linalg_vector_norm(self, Scalar(2.0), dim, keepdim, dtype);
  return keep_dims(sum_along(singular_values(cast_input(op, self, dtype), d), -1), d, keepdim);
}

Tensor linalg_norm_impl(const Tensor& self, const std::optional<Scalar>& ord,
                        std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  if (!ord) return linalg_vector_norm(self, Scalar(2.0), dim, keepdim, dtype);
  FL_CHECK(dim ? dim->size() <= 2 : self.ndim() == 1 || self.ndim() == 2, RuntimeError,
           "linalg.norm: with ord one or two dims are needed, got shape {}", self.sizes());
  size_t dims = dim ? dim->size() : size_t(self.ndim());
  if (dims < 2) return linalg_vector_norm(self, *ord, dim, keepdim, dtype);
  return linalg_matrix_norm(self, *ord, dim.value_or(IntList{0, 1}), keepdim, dtype);
}
Tensor linalg_norm_impl(const Tensor& self, std::string_view ord, std::optional<IntList> dim,
                        bool keepdim, std::optional<DType> dtype) {
  FL_CHECK(dim ? dim->size() == 2 : self.ndim() == 2, RuntimeError,
           "linalg.norm: ord='{}' needs two dims, got shape {}", ord, self.sizes());
  return linalg_matrix_norm(self, ord, dim.value_or(IntList{0, 1}), keepdim, dtype);
}

Tensor cond_impl(const Tensor& self, const std::optional<Scalar>& p) {
  check_matrix("linalg.cond", self);
  if (p && std::fabs(p->to_double()) != 2) {
    check_square("linalg.cond", self);
    auto [inverse, info] = linalg_inv_ex(self);
    return linalg_matrix_norm(self, *p) * linalg_matrix_norm(inverse, *p);
  }
  Tensor s = linalg_svdvals(self);
  FL_CHECK(s.size(-1) > 0, RuntimeError, "linalg.cond: the matrices must not be empty, got {}",
           self.sizes());
  Tensor first = select(s, -1, 0), last = select(s, -1, -1);
  return p && p->to_double() < 0 ? last / first : first / last;
}
Tensor cond_impl(const Tensor& self, std::string_view p) {
  check_square("linalg.cond", self);
  auto [inverse, info] = linalg_inv_ex(self);
  return linalg_matrix_norm(self, p) * linalg_matrix_norm(inverse, p);
}

// ---- rank and pseudo-inverse ----

namespace {

double precision_of(DType t) { return real_of(t) == DType::Float64 ? 0x1p-52 : 0x1p-23; }

// Where the absolute tolerance alone is given, the relative one is zero.
double relative_default(const Tensor& a, bool absolute_given) {
  return absolute_given ? 0 : precision_of(a.dtype()) * double(std::max(a.size(-2), a.size(-1)));
}

Tensor tolerance(const Tensor& given, double otherwise, const Tensor& a) {
  if (given.defined()) return given;
  return number_tensor(Scalar(otherwise), a.device());
}
Tensor tolerance(std::optional<double> given, double otherwise, const Tensor& a) {
  return number_tensor(Scalar(given.value_or(otherwise)), a.device());
}

Tensor magnitudes(const Tensor& a, bool hermitian) {
  return hermitian ? abs(linalg_eigvalsh(a, "L")) : linalg_svdvals(a);
}

// Values below this count as zero; along a last dim of one.
Tensor threshold_of(const Tensor& values, const Tensor& atol, const Tensor& rtol) {
  Tensor largest = values.size(-1) ? extreme(values, -1, false, true) : sum_along(values, -1);
  return unsqueeze(maximum(to(atol, values.dtype()), to(rtol, values.dtype()) * largest), -1);
}

Tensor rank_of(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_matrix("linalg.matrix_rank", a);
  NoGradGuard no_grad;
  Tensor values = magnitudes(a, hermitian);
  return sum_along(values > threshold_of(values, atol, rtol), -1);
}

}  // namespace

Tensor matrix_rank_impl(const Tensor& self, double tol, bool hermitian) {
  return rank_of(self, tolerance(tol, 0, self), tolerance(std::optional<double>(0), 0, self),
                 hermitian);
}
Tensor matrix_rank_impl(const Tensor& input, const Tensor& tol, bool hermitian) {
  return rank_of(input, tol, tolerance(std::optional<double>(0), 0, input), hermitian);
}
Tensor matrix_rank_impl(const Tensor& self, std::optional<double> atol, std::optional<double> rtol,
                        bool hermitian) {
  check_matrix("linalg.matrix_rank", self);
  double relative = relative_default(self, atol.value_or(0) > 0);
  return rank_of(self, tolerance(atol, 0, self), tolerance(rtol, relative, self), hermitian);
}
Tensor matrix_rank_impl(const Tensor& input, const Tensor& atol, const Tensor& rtol,
                        bool hermitian) {
  check_matrix("linalg.matrix_rank", input);
  Tensor absolute = tolerance(atol, 0, input);
  Tensor relative = tolerance(rtol, relative_default(input, false), input);
  if (atol.defined() && !rtol.defined()) relative = where(atol > kZero, kZero, relative);
  return rank_of(input, absolute, relative, hermitian);
}

// A^+ = V S^-1 U^H over the values that count.
Tensor pseudo_inverse_impl(const Tensor& self, const Tensor& atol, const Tensor& rtol,
                           bool hermitian) {
  auto inverted = [&](const Tensor& values, const Tensor& sizes) {
    Tensor counts = sizes > threshold_of(sizes, atol, rtol);
    return to(where(counts, reciprocal(values), kZero), self.dtype());
  };
  if (hermitian) {
    auto [values, vectors] = linalg_eigh(self, "L");
    Tensor inverse = inverted(values, abs(values));
    return matmul(vectors * unsqueeze(inverse, -2), adjoint(vectors));
  }
  auto [u, s, vh] = linalg_svd(self, false);
  return matmul(adjoint(vh) * unsqueeze(inverted(s, s), -2), adjoint(u));
}

namespace {

Tensor pinv_of(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_matrix("linalg.pinv", a);
  if (hermitian) check_square("linalg.pinv", a);
  if (a.numel() == 0)
    return zeros(with_matrix(a, a.size(-1), a.size(-2)), a.dtype(), std::nullopt, a.device()) +
           sum(a * a);  // with a second derivative
  return _pseudo_inverse(a, atol, rtol, hermitian);
}

}  // namespace

Tensor pinv_impl(const Tensor& self, double rcond, bool hermitian) {
  return pinv_of(self, tolerance(std::optional<double>(0), 0, self), tolerance(rcond, 0, self),
                 hermitian);
}
Tensor pinv_impl(const Tensor& self, const Tensor& rcond, bool hermitian) {
  return pinv_of(self, tolerance(std::optional<double>(0), 0, self), rcond, hermitian);
}
Tensor pinv_impl(const Tensor& self, std::optional<double> atol, std::optional<double> rtol,
                 bool hermitian) {
  check_matrix("linalg.pinv", self);
  double relative = relative_default(self, atol.value_or(0) > 0);
  return pinv_of(self, tolerance(atol, 0, self), tolerance(rtol, relative, self), hermitian);
}
Tensor pinv_impl(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_matrix("linalg.pinv", self);
  Tensor relative = tolerance(rtol, relative_default(self, false), self);
  if (atol.defined() && !rtol.defined()) relative = where(atol > kZero, kZero, relative);
  return pinv_of(self, tolerance(atol, 0, self), relative, hermitian);
}
Tensor pinverse_impl(const Tensor& self, double rcond) { return linalg_pinv(self, rcond); }

// ---- least squares ----

std::tuple<Tensor, Tensor, Tensor, Tensor> lstsq_impl(const Tensor& self, const Tensor& b,
                                                      std::optional<double> rcond,
                                                      std::optional<std::string_view> driver) {
  constexpr auto op = "linalg.lstsq";
  check_matrix(op, self);
  std::string_view name = driver.value_or("gelsy");
  FL_CHECK(name == "gels" || name == "gelsy" || name == "gelsd" || name == "gelss", RuntimeError,
           "{}: driver must be 'gels', 'gelsy', 'gelsd' or 'gelss', got '{}'", op, name);
  FL_CHECK(b.ndim() >= 1 && b.dtype() == self.dtype(), RuntimeError,
           "{}: b must be {} like A and have at least one dim, got {} of shape {}", op,
           self.dtype(), b.dtype(), b.sizes());
  bool vectors = b.ndim() == self.ndim() - 1 && b.sizes() == IntList(batch_sizes(self, 1));
  Tensor right = vectors || b.ndim() == 1 ? unsqueeze(b, -1) : b;
  int64_t m = self.size(-2), n = self.size(-1);
  FL_CHECK(right.size(-2) == m, RuntimeError, "{}: A and b must have as many rows, got {} and {}",
           op, self.sizes(), b.sizes());
  double share = rcond.value_or(relative_default(self, false));
  Tensor x = matmul(linalg_pinv(self, std::optional<double>(0), share), right);
  Tensor s, rank;
  {
    NoGradGuard no_grad;
    s = linalg_svdvals(self);
    rank = sum_along(s > threshold_of(s, tolerance(std::optional<double>(0), 0, self),
                                      tolerance(share, 0, self)),
                     -1);
  }
  Tensor residuals = real(narrow(flatten(x), 0, 0, 0));
  bool full =
      name == "gels" || !has_values(rank) || rank.numel() == 0 || min(rank).item().to_int() == n;
  if (m > n && full && name != "gelsy") {
    Tensor rest = matmul(self, x) - right;
    residuals = sum_along(real(rest * conj(rest)), -2);
    if (vectors) residuals = squeeze(residuals, -1);
  }
  if (vectors) x = squeeze(x, -1);
  Tensor nothing = empty({0}, real_of(self.dtype()), std::nullopt, self.device());
  if (name == "gels") rank = empty({0}, DType::Int64, std::nullopt, self.device());
  return {x, residuals, rank, name == "gelsd" || name == "gelss" ? s : nothing};
}

}  // namespace flambeau::ops
