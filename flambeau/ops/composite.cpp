// Elementwise ops put together from others: choices by argument or dtype around a kernel.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/factory.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

bool is_whole(DType t) { return !is_inexact(t); }

void check_floating(std::string_view op, const Tensor& self) {
  FL_CHECK(is_float(self.dtype()), NotImplementedError, "{}: not defined for {}", op, self.dtype());
}

Tensor inexact(const Tensor& self) { return to(self, to_inexact(self.dtype())); }

}  // namespace

Tensor gelu_impl(const Tensor& self, std::string_view approximate) {
  check_floating("gelu", self);
  FL_CHECK(approximate == "none" || approximate == "tanh", RuntimeError,
           "gelu: approximate must be 'none' or 'tanh', got '{}'", approximate);
  return approximate == "none" ? _gelu(self) : _gelu_tanh(self);
}

Tensor glu_impl(const Tensor& self, int64_t dim) {
  FL_CHECK(self.ndim() > 0, RuntimeError, "glu: at least one dim is needed, got shape {}",
           self.sizes());
  dim = wrap_dim("glu", dim, self.ndim());
  int64_t half = self.size(dim) / 2;
  FL_CHECK(self.size(dim) % 2 == 0, RuntimeError, "glu: dim {} must have an even size, got {}", dim,
           self.size(dim));
  return narrow(self, dim, 0, half) * sigmoid(narrow(self, dim, half, half));
}

Tensor prelu_impl(const Tensor& self, const Tensor& weight) {
  FL_CHECK(self.dtype() == weight.dtype(), RuntimeError,
           "prelu: weight must be {} like self, got {}", self.dtype(), weight.dtype());
  FL_CHECK(weight.ndim() <= 1, RuntimeError, "prelu: weight must have 0 or 1 dims, got shape {}",
           weight.sizes());
  if (weight.numel() != 1) {
    int64_t channels = self.ndim() >= 2 ? self.size(1) : 1;
    FL_CHECK(self.ndim() > 0 && weight.numel() == channels, RuntimeError,
             "prelu: one weight or one for each of {} channels is needed, got {}", channels,
             weight.numel());
  }
  Ints sizes(size_t(self.ndim()), 1);
  if (self.ndim() >= 2) sizes[1] = weight.numel();
  return _prelu_kernel(self, reshape(weight, sizes));
}

Tensor angle_impl(const Tensor& self) { return _angle(inexact(self)); }

Tensor clamp_impl(const Tensor& self, const std::optional<Scalar>& min,
                  const std::optional<Scalar>& max) {
  FL_CHECK(min || max, RuntimeError, "clamp: at least one of min and max is needed, got neither");
  FL_CHECK(!is_complex(self.dtype()), NotImplementedError, "clamp: real numbers are needed, got {}",
           self.dtype());
  if (min && max) return _clamp(self, *min, *max);
  return min ? clamp_min(self, *min) : clamp_max(self, *max);
}

Tensor clamp_impl(const Tensor& self, const Tensor& min, const Tensor& max) {
  FL_CHECK(min.defined() || max.defined(), RuntimeError,
           "clamp: at least one of min and max is needed, got neither");
  FL_CHECK(!is_complex(self.dtype()), NotImplementedError, "clamp: real numbers are needed, got {}",
           self.dtype());
  if (!min.defined()) return clamp_max(self, max);
  if (!max.defined()) return clamp_min(self, min);
  return clamp_max(clamp_min(self, min), max);
}

Tensor logit_impl(const Tensor& self, std::optional<double> eps) {
  return _logit(self, eps.value_or(-1));
}

Tensor dequantize_impl(const Tensor& self) { return to(self, DType::Float32); }
std::vector<Tensor> dequantize_impl(TensorList tensors) {
  std::vector<Tensor> found;
  for (const Tensor& t : tensors) found.push_back(dequantize_impl(t));
  return found;
}

Tensor nan_to_num_impl(const Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                       std::optional<double> neginf) {
  if (is_whole(self.dtype())) return clone(self);
  double largest = largest_number(real_of(self.dtype()));
  return _nan_to_num(self, nan.value_or(0), posinf.value_or(largest), neginf.value_or(-largest));
}

Tensor round_decimals_impl(const Tensor& self, int64_t decimals) {
  if (is_whole(self.dtype()) && decimals >= 0) return clone(self);
  if (decimals == 0) return round(self);
  double scale = 1;
  int64_t zeros = std::abs(std::clamp<int64_t>(decimals, -400, 400));  // more are infinity as well
  for (int64_t i = 0; i < zeros; i++) scale *= 10;
  return decimals > 0 ? round(self * Scalar(scale)) / Scalar(scale)
                      : round(self / Scalar(scale)) * Scalar(scale);
}

namespace {

// Whole numbers: the floor, raised by one where it lies below a negative quotient.
template <class Other>
Tensor truncated_whole(const Tensor& self, const Other& other) {
  Tensor low = floor_divide(self, other);
  Tensor rest = remainder(self, other);
  return low + logical_and(rest != Scalar(int64_t{0}), low < Scalar(int64_t{0}));
}

template <class Other>
Tensor divide(const Tensor& self, const Other& other, bool whole,
              std::optional<std::string_view> mode) {
  if (!mode) return div(self, other);
  FL_CHECK(*mode == "trunc" || *mode == "floor", RuntimeError,
           "div: rounding_mode must be None, 'trunc' or 'floor', got '{}'", *mode);
  if (*mode == "floor") return floor_divide(self, other);
  return whole ? truncated_whole(self, other) : trunc(div(self, other));
}

}  // namespace

Tensor div_mode_impl(const Tensor& self, const Tensor& other,
                     std::optional<std::string_view> rounding_mode) {
  return divide(self, other, is_whole(self.dtype()) && is_whole(other.dtype()), rounding_mode);
}

Tensor div_mode_impl(const Tensor& self, const Scalar& other,
                     std::optional<std::string_view> rounding_mode) {
  return divide(self, other, is_whole(self.dtype()) && is_whole(other.dtype()), rounding_mode);
}

namespace {

DType widest(bool complex) { return complex ? DType::Complex128 : DType::Float64; }

}  // namespace

Tensor float_power_impl(const Tensor& self, const Tensor& exponent) {
  DType wide = widest(is_complex(self.dtype()) || is_complex(exponent.dtype()));
  return pow(to(self, wide), to(exponent, wide));
}
Tensor float_power_impl(const Tensor& self, const Scalar& exponent) {
  return pow(to(self, widest(is_complex(self.dtype()) || exponent.is_complex())), exponent);
}
Tensor float_power_impl(const Scalar& self, const Tensor& exponent) {
  DType wide = widest(is_complex(exponent.dtype()) || self.is_complex());
  return pow(scalar_tensor(self, wide, {}, exponent.device()), to(exponent, wide));
}

Tensor xlogy_impl(const Scalar& self, const Tensor& other) {
  return xlogy(number_tensor(self, other.device()), other);
}
Tensor xlogy_impl(const Tensor& self, const Scalar& other) {
  return xlogy(self, number_tensor(other, self.device()));
}

Tensor xlog1py_impl(const Scalar& self, const Tensor& other) {
  return special_xlog1py(number_tensor(self, other.device()), other);
}
Tensor xlog1py_impl(const Tensor& self, const Scalar& other) {
  return special_xlog1py(self, number_tensor(other, self.device()));
}

Tensor isclose_impl(const Tensor& self, const Tensor& other, double rtol, double atol,
                    bool equal_nan) {
  FL_CHECK(self.dtype() == other.dtype(), RuntimeError,
           "isclose: both must be of one dtype, got {} and {}", self.dtype(), other.dtype());
  FL_CHECK(rtol >= 0 && atol >= 0, RuntimeError,
           "isclose: rtol and atol must not be negative, got {} and {}", rtol, atol);
  Tensor close = eq(self, other);
  if (equal_nan && is_inexact(self.dtype())) close = close || (isnan(self) && isnan(other));
  if (rtol == 0 && atol == 0) return close;
  Tensor a = inexact(self), b = inexact(other);
  Tensor error = abs(a - b);
  return close || (isfinite(error) && error <= abs(b) * Scalar(rtol) + Scalar(atol));
}

namespace {

// Are all elements true? Reads one value back.
bool all_true(const Tensor& condition) { return all(condition).item().to_bool(); }

}  // namespace

bool allclose_impl(const Tensor& self, const Tensor& other, double rtol, double atol,
                   bool equal_nan) {
  return all_true(isclose(self, other, rtol, atol, equal_nan));
}

bool equal_impl(const Tensor& self, const Tensor& other) {
  FL_CHECK(self.device() == other.device(), RuntimeError,
           "equal: both must be on one device, got {} and {}", self.device(), other.device());
  return self.sizes() == other.sizes() && all_true(eq(self, other));
}

Tensor positive_impl(const Tensor& self) {
  FL_CHECK(self.dtype() != DType::Bool, RuntimeError, "positive: numbers are needed, got bool");
  return self;
}

Tensor mvlgamma_impl(const Tensor& self, int64_t p) {
  FL_CHECK(p >= 1, RuntimeError, "mvlgamma: p must be at least 1, got {}", p);
  Tensor x = inexact(self);
  Tensor shifts = arange(Scalar(0.5 - 0.5 * double(p)), Scalar(0.25), Scalar(0.5), x.dtype(),
                         std::nullopt, x.device());
  constexpr int64_t kLast = -1;
  return sum(lgamma(unsqueeze(x, -1) + shifts), IntList(&kLast, 1)) +
         Scalar(0.25 * double(p * (p - 1)) * std::log(M_PI));
}

DType frexp_exponent(const Tensor& self) {
  check_floating("frexp", self);
  return DType::Int32;
}
void frexp_kernel(Tensor& mantissa, Tensor& exponent, const Tensor& self) {
  Tensor wide = new_tensor(self.sizes(), DType::Float64, self.device());
  copy_elements(wide, self);
  double* x = wide.data<double>();
  int32_t* power = exponent.data<int32_t>();
  for (int64_t i = 0; i < self.numel(); i++) {
    int e = 0;
    if (std::isfinite(x[i])) x[i] = std::frexp(x[i], &e);
    power[i] = e;
  }
  copy_elements(mantissa, wide);
}

Tensor isreal_impl(const Tensor& self) {
  if (!is_complex(self.dtype())) return ones_like(self, DType::Bool);
  return eq(select(view_as_real(self), -1, 1), Scalar(int64_t{0}));
}

Tensor cosine_similarity_impl(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  FL_CHECK(is_float(promoted_dtype({&x1, &x2})), RuntimeError,
           "cosine_similarity: floating numbers are needed, got {} and {}", x1.dtype(), x2.dtype());
  Ints sizes = broadcast_sizes("cosine_similarity", {&x1, &x2});
  DType dtype = promoted_dtype({&x1, &x2});
  Tensor a = expand(to(x1, dtype), sizes), b = expand(to(x2, dtype), sizes);
  IntList along(&dim, 1);
  Scalar two(int64_t{2});
  Tensor size_a = clamp_min(linalg_vector_norm(a, two, along, true), Scalar(eps));
  Tensor size_b = clamp_min(linalg_vector_norm(b, two, along, true), Scalar(eps));
  return sum((a / size_a) * (b / size_b), along);
}

Tensor pairwise_distance_impl(const Tensor& x1, const Tensor& x2, double p, double eps,
                              bool keepdim) {
  int64_t last = std::max(x1.ndim(), x2.ndim()) - 1;
  return linalg_vector_norm(x1 - x2 + Scalar(eps), Scalar(p), IntList(&last, 1), keepdim);
}

Tensor cdist_impl(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t>) {
  FL_CHECK(is_float(x1.dtype()) && is_float(x2.dtype()), RuntimeError,
           "cdist: floating numbers are needed, got {} and {}", x1.dtype(), x2.dtype());
  FL_CHECK(x1.ndim() >= 2 && x2.ndim() >= 2 && x1.size(-1) == x2.size(-1), RuntimeError,
           "cdist: matrices with rows of one size are needed, got {} and {}", x1.sizes(),
           x2.sizes());
  FL_CHECK(p >= 0, RuntimeError, "cdist: p must not be negative, got {}", p);
  Tensor difference = unsqueeze(x1, -2) - unsqueeze(x2, -3);
  int64_t last = -1;
  if (difference.size(-1) == 0) return sum(difference, IntList(&last, 1));
  return linalg_vector_norm(difference, Scalar(p), IntList(&last, 1));
}

namespace {

Tensor cross_along(std::string_view op, const Tensor& self, const Tensor& other, int64_t dim) {
  Ints sizes = broadcast_sizes(op, {&self, &other});
  dim = wrap_dim(op, dim, int64_t(sizes.size()));
  FL_CHECK(self.ndim() == other.ndim(), RuntimeError,
           "{}: both must have as many dims, got {} and {}", op, self.sizes(), other.sizes());
  FL_CHECK(self.ndim() && self.size(dim) == 3 && other.size(dim) == 3, RuntimeError,
           "{}: dim {} must have size 3, got {} and {}", op, dim, self.sizes(), other.sizes());
  auto turned = [&](const Tensor& t, int64_t by) {
    std::vector<Tensor> parts{narrow(t, dim, by, 3 - by), narrow(t, dim, 0, by)};
    return cat(parts, dim);
  };
  return turned(self, 1) * turned(other, 2) - turned(self, 2) * turned(other, 1);
}

}  // namespace

Tensor linalg_cross_impl(const Tensor& self, const Tensor& other, int64_t dim) {
  return cross_along("linalg_cross", self, other, dim);
}

Tensor cross_impl(const Tensor& self, const Tensor& other, std::optional<int64_t> dim) {
  if (dim) return cross_along("cross", self, other, *dim);
  int64_t first = 0;
  while (first < self.ndim() && self.size(first) != 3) first++;
  FL_CHECK(first < self.ndim(), RuntimeError, "cross: a dim of size 3 is needed, got shape {}",
           self.sizes());
  return cross_along("cross", self, other, first);
}

Tensor diff_impl(const Tensor& self, int64_t n, int64_t dim, const Tensor& prepend,
                 const Tensor& append) {
  FL_CHECK(self.ndim() > 0, RuntimeError, "diff: at least one dim is needed, got shape {}",
           self.sizes());
  FL_CHECK(n >= 0, RuntimeError, "diff: n must not be negative, got {}", n);
  dim = wrap_dim("diff", dim, self.ndim());
  if (n == 0) return clone(self);
  std::vector<Tensor> parts;
  if (prepend.defined()) parts.push_back(prepend);
  parts.push_back(self);
  if (append.defined()) parts.push_back(append);
  Tensor x = parts.size() > 1 ? cat(parts, dim) : self;
  n = std::min(n, x.size(dim));  // nothing is left after as many differences
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = std::max<int64_t>(x.size(dim) - 1, 0), from = std::min<int64_t>(x.size(dim), 1);
    Tensor high = narrow(x, dim, from, rest), low = narrow(x, dim, 0, rest);
    x = x.dtype() == DType::Bool ? logical_xor(high, low) : high - low;
  }
  return x;
}

}  // namespace flambeau::ops
