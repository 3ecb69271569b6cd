// Covariance, quantiles, integrals and slopes of sampled functions: composed of other ops.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

const Scalar kHalf(0.5);

Tensor sum_of(const Tensor& t, int64_t dim, bool keepdim = false) {
  return sum(t, IntList(&dim, 1), keepdim);
}

// Weights of observations: one for each column, counts or reals.
void check_weights(std::string_view name, const Tensor& weights, int64_t observations, bool whole) {
  FL_CHECK(weights.ndim() <= 1 && weights.numel() == observations, RuntimeError,
           "cov: {} must hold one weight for each of {} observations, got shape {}", name,
           observations, weights.sizes());
  FL_CHECK(whole ? !is_inexact(weights.dtype()) : is_float(weights.dtype()), RuntimeError,
           "cov: {} must be {}, got {}", name, whole ? "integers" : "floating", weights.dtype());
  FL_CHECK(!has_values(weights) || weights.numel() == 0 || min(weights).item().to_double() >= 0,
           RuntimeError, "cov: {} must not be negative", name);
}

// What the sum of products is divided by.
Tensor degrees_of_freedom(const Tensor& weights, const Tensor& aweights, int64_t correction) {
  Tensor total = sum(weights);
  if (!aweights.defined()) return total - Scalar(correction);
  return total - sum(weights * aweights) / total * Scalar(correction);
}

}  // namespace

Tensor cov_impl(const Tensor& self, int64_t correction, const Tensor& fweights,
                const Tensor& aweights) {
  FL_CHECK(self.ndim() <= 2, RuntimeError, "cov: at most 2 dims are supported, got shape {}",
           self.sizes());
  FL_CHECK(self.dtype() != DType::Bool, RuntimeError, "cov: numbers are needed, got bool");
  Tensor in = self.ndim() < 2 ? reshape(self, {1, -1}) : self;
  int64_t observations = in.size(1);
  Tensor weights = fweights;
  if (fweights.defined()) check_weights("fweights", fweights, observations, true);
  if (aweights.defined()) {
    check_weights("aweights", aweights, observations, false);
    weights = weights.defined() ? weights * aweights : aweights;
  }
  FL_CHECK(!weights.defined() || observations == 0 || !has_values(weights) ||
               sum(weights).item().to_double() != 0,
           RuntimeError, "cov: the weights must not all be zero");
  Tensor sums = sum_of(weights.defined() ? in * weights : in, 1, true);
  Tensor centred =
      in - (weights.defined() ? sums / sum(weights) : sums / Scalar(double(observations)));
  Tensor weighted = conj(transpose(weights.defined() ? centred * weights : centred, 0, 1));
  Tensor products = matmul(centred, weighted);
  if (!weights.defined())
    return squeeze(products / Scalar(std::max(double(observations) - double(correction), 0.0)));
  Tensor freedom = degrees_of_freedom(weights, aweights, correction);
  return squeeze(products / clamp_min(freedom, Scalar(int64_t{0})));
}

Tensor corrcoef_impl(const Tensor& self) {
  FL_CHECK(self.ndim() <= 2, RuntimeError, "corrcoef: at most 2 dims are supported, got shape {}",
           self.sizes());
  Tensor c = cov(self);
  if (c.ndim() == 0) return c / c;
  Tensor deviation = sqrt(real(diagonal(c)));
  c = c / unsqueeze(deviation, -1) / deviation;
  Scalar low(-1.0), high(1.0);
  if (!is_complex(c.dtype())) return clamp(c, low, high);
  return complex(clamp(real(c), low, high), clamp(select(view_as_real(c), -1, 1), low, high));
}

// ---- integrals ----

namespace {

// The sums of neighbours along dim.
Tensor neighbours(const Tensor& y, int64_t dim) {
  int64_t pieces = std::max<int64_t>(y.size(dim) - 1, 0);
  return narrow(y, dim, 0, pieces) + narrow(y, dim, y.size(dim) - pieces, pieces);
}

// The widths between the places x, of as many dims as y.
Tensor widths(std::string_view op, const Tensor& y, const Tensor& x, int64_t dim) {
  FL_CHECK(x.ndim() > 0, RuntimeError, "{}: x must have at least one dim", op);
  FL_CHECK(y.dtype() != DType::Bool && x.dtype() != DType::Bool, RuntimeError,
           "{}: numbers are needed, got y of {} and x of {}", op, y.dtype(), x.dtype());
  Ints sizes(size_t(y.ndim()), 1);
  if (x.ndim() == 1) {
    FL_CHECK(x.size(0) == y.size(dim), RuntimeError,
             "{}: x must have y's size {} in dim {}, got {}", op, y.size(dim), dim, x.size(0));
    sizes[size_t(dim)] = x.size(0);
  } else if (x.ndim() < y.ndim()) {
    for (int64_t d = 0; d < x.ndim(); d++) sizes[size_t(y.ndim() - x.ndim() + d)] = x.size(d);
  } else {
    sizes = x.sizes();
  }
  return diff(reshape(x, sizes), 1, x.ndim() > y.ndim() ? dim + x.ndim() - y.ndim() : dim);
}

int64_t integral_dim(std::string_view op, const Tensor& y, int64_t dim) {
  FL_CHECK(y.ndim() > 0, RuntimeError, "{}: y must have at least one dim", op);
  FL_CHECK(y.dtype() != DType::Bool, RuntimeError, "{}: numbers are needed, got bool", op);
  return wrap_dim(op, dim, y.ndim());
}

}  // namespace

Tensor trapezoid_impl(const Tensor& y, const Tensor& x, int64_t dim) {
  dim = integral_dim("trapezoid", y, dim);
  if (y.size(dim) == 0) return sum_of(y * Scalar(int64_t{0}), dim);
  return sum_of(neighbours(y, dim) * widths("trapezoid", y, x, dim), dim) / Scalar(2.0);
}
Tensor trapezoid_impl(const Tensor& y, const Scalar& dx, int64_t dim) {
  dim = integral_dim("trapezoid", y, dim);
  if (y.size(dim) == 0) return sum_of(y * Scalar(int64_t{0}), dim);
  Tensor ends = select(y, dim, 0) + select(y, dim, -1);
  return (sum_of(y, dim) - ends * kHalf) * dx;
}
Tensor trapz_impl(const Tensor& y, const Tensor& x, int64_t dim) {
  return trapezoid_impl(y, x, dim);
}
Tensor trapz_impl(const Tensor& y, double dx, int64_t dim) {
  return trapezoid_impl(y, Scalar(dx), dim);
}

Tensor cumulative_trapezoid_impl(const Tensor& y, const Tensor& x, int64_t dim) {
  dim = integral_dim("cumulative_trapezoid", y, dim);
  return cumsum(neighbours(y, dim) * widths("cumulative_trapezoid", y, x, dim), dim) / Scalar(2.0);
}
Tensor cumulative_trapezoid_impl(const Tensor& y, const Scalar& dx, int64_t dim) {
  dim = integral_dim("cumulative_trapezoid", y, dim);
  return cumsum(neighbours(y, dim) * (dx / Scalar(2.0)), dim);
}

// ---- quantiles ----

namespace {

enum class Between { Linear, Lower, Higher, Midpoint, Nearest };

Between interpolation_of(std::string_view op, std::string_view name) {
  constexpr std::string_view kNames[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  for (int i = 0; i < 5; i++)
    if (name == kNames[i]) return Between(i);
  fail<RuntimeError>(
      "{}: interpolation must be 'linear', 'lower', 'higher', 'midpoint' or 'nearest', got '{}'",
      op, name);
}

void check_quantile(std::string_view op, const Tensor& self, const Tensor& q) {
  FL_CHECK(self.numel() > 0, RuntimeError, "{}: the input must not be empty, got shape {}", op,
           self.sizes());
  FL_CHECK(q.ndim() <= 1, RuntimeError, "{}: q must be a number or have one dim, got shape {}", op,
           q.sizes());
  FL_CHECK(self.dtype() == DType::Float32 || self.dtype() == DType::Float64, RuntimeError,
           "{}: the input must be float32 or float64, got {}", op, self.dtype());
  FL_CHECK(self.dtype() == q.dtype(), RuntimeError, "{}: q must be {} like the input, got {}", op,
           self.dtype(), q.dtype());
  FL_CHECK(!has_values(q) || q.numel() == 0 ||
               (min(q).item().to_double() >= 0 && max(q).item().to_double() <= 1),
           RuntimeError, "{}: q must lie in [0, 1]", op);
}

// Values of the sorted rows at fractional places.
Tensor at_places(const Tensor& sorted, const Tensor& places, Between between) {
  if (between == Between::Lower || between == Between::Higher || between == Between::Nearest) {
    Tensor whole = between == Between::Lower    ? floor(places)
                   : between == Between::Higher ? ceil(places)
                                                : round(places);
    return gather(sorted, -1, to(whole, DType::Int64));
  }
  Tensor below = to(places, DType::Int64), above = to(ceil(places), DType::Int64);
  Tensor weight = between == Between::Midpoint ? full_like(places, kHalf) : places - below;
  return lerp(gather(sorted, -1, below), gather(sorted, -1, above), weight);
}

Tensor quantile_of(std::string_view op, const Tensor& self, const Tensor& q,
                   std::optional<int64_t> dim, bool keepdim, std::string_view interpolation,
                   bool skip_nan) {
  check_quantile(op, self, q);
  Between between = interpolation_of(op, interpolation);
  int64_t along = wrap_dim(op, dim.value_or(0), self.ndim());
  Ints kept = dim && self.ndim() ? Ints(self.sizes()) : Ints(size_t(self.ndim()), 1);
  if (dim && self.ndim()) kept[size_t(along)] = 1;
  Tensor rows =
      dim && self.ndim() ? transpose(unsqueeze(self, -1), along, -1) : reshape(self, {1, -1});
  Tensor sorted = std::get<0>(sort(rows, -1, false));
  Tensor missing = isnan(detach(sorted));
  Tensor last;  // the place of the largest number; rows with a NaN have it everywhere
  if (skip_nan) {
    last = to(sum_of(logical_not(missing), -1, true) - Scalar(int64_t{1}), self.dtype());
    last = clamp_min(last, Scalar(int64_t{0}));
  } else {
    last = full_like(narrow(detach(sorted), -1, 0, 1), Scalar(double(sorted.size(-1) - 1)));
  }
  Tensor places = reshape(q, {-1}) * last;
  if (!skip_nan) {
    int64_t end = -1;
    places = where(any(missing, end, true), last, places);
  }
  Tensor values = movedim(at_places(sorted, places, between), -1, 0);
  // The dim that was reduced stands last in `rows`, as the new one did: `kept` puts it back.
  Ints sizes{values.size(0)};
  for (int64_t n : kept) sizes.push_back(n);
  values = reshape(values, sizes);
  if (!keepdim && self.ndim()) {
    if (dim) {
      values = squeeze(values, along + 1);
    } else {
      values = reshape(values, {values.size(0)});
    }
  }
  return q.ndim() == 0 ? squeeze(values, 0) : values;
}

Tensor number_like(const Tensor& self, std::string_view op, double q) {
  FL_CHECK(0 <= q && q <= 1, RuntimeError, "{}: q must lie in [0, 1], got {}", op, q);
  return scalar_tensor(Scalar(q), self.dtype(), std::nullopt, self.device());
}

}  // namespace

Tensor quantile_impl(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                     std::string_view interpolation) {
  return quantile_of("quantile", self, q, dim, keepdim, interpolation, false);
}
Tensor quantile_impl(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim,
                     std::string_view interpolation) {
  return quantile(self, number_like(self, "quantile", q), dim, keepdim, interpolation);
}
Tensor nanquantile_impl(const Tensor& self, const Tensor& q, std::optional<int64_t> dim,
                        bool keepdim, std::string_view interpolation) {
  return quantile_of("nanquantile", self, q, dim, keepdim, interpolation, true);
}
Tensor nanquantile_impl(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim,
                        std::string_view interpolation) {
  return nanquantile(self, number_like(self, "nanquantile", q), dim, keepdim, interpolation);
}

// ---- slopes ----

namespace {

Tensor piece(const Tensor& t, int64_t dim, int64_t start, int64_t end) {
  int64_t n = t.size(dim);
  if (start < 0) start += n;
  if (end <= 0) end += n;
  return narrow(t, dim, start, end - start);
}

// Second-order differences inside, one-sided ones of the given order at both ends; even spacing.
Tensor even_slopes(const Tensor& t, int64_t dim, const Scalar& h, int64_t order) {
  Tensor inner = (piece(t, dim, 2, 0) - piece(t, dim, 0, -2)) / (h * Scalar(2.0));
  Tensor first, last;
  if (order == 1) {
    first = (piece(t, dim, 1, 2) - piece(t, dim, 0, 1)) / h;
    last = (piece(t, dim, -1, 0) - piece(t, dim, -2, -1)) / h;
  } else {
    auto end = [&](int64_t a, int64_t b, int64_t c, double sign) {
      Tensor sum = piece(t, dim, a, a + 1) * Scalar(-1.5) + piece(t, dim, b, b + 1) * Scalar(2.0) +
                   piece(t, dim, c, c + 1) * Scalar(-0.5);
      return sum * Scalar(sign) / h;
    };
    first = end(0, 1, 2, 1);
    last = end(-1, -2, -3, -1);
  }
  return cat(std::vector{first, inner, last}, dim);
}

// The same for places x that need not be even.
Tensor uneven_slopes(const Tensor& t, int64_t dim, const Tensor& x, int64_t order) {
  Ints sizes(size_t(t.ndim()), 1);
  sizes[size_t(dim)] = -1;
  Tensor h = reshape(diff(x), sizes);
  Tensor a = piece(h, dim, 0, -1), b = piece(h, dim, 1, 0);
  Tensor left = piece(t, dim, 0, -2), middle = piece(t, dim, 1, -1), right = piece(t, dim, 2, 0);
  Tensor inner =
      left * (-b / (a * (a + b))) + middle * ((b - a) / (a * b)) + right * (a / (b * (a + b)));
  auto step = [&](int64_t i) { return piece(h, dim, i, i + 1); };
  auto at = [&](int64_t i) { return piece(t, dim, i, i + 1); };
  Tensor first, last;
  if (order == 1) {
    first = (at(1) - at(0)) / step(0);
    last = (at(-1) - at(-2)) / step(-1);
  } else {
    auto end = [&](const Tensor& near, const Tensor& far, int64_t i, int64_t j, int64_t k) {
      return at(i) * (-(near * Scalar(2.0) + far) / (near * (near + far))) +
             at(j) * ((near + far) / (near * far)) + at(k) * (-near / (far * (near + far)));
    };
    first = end(step(0), step(1), 0, 1, 2);
    last = -end(step(-1), step(-2), -1, -2, -3);
  }
  return cat(std::vector{first, inner, last}, dim);
}

// The dims asked for, all of them by default; each needs more points than the order.
std::vector<int64_t> slope_dims(const Tensor& self, std::optional<IntList> dim, int64_t order) {
  FL_CHECK(self.dtype() != DType::UInt8, RuntimeError, "gradient: uint8 has no differences");
  FL_CHECK(order == 1 || order == 2, RuntimeError, "gradient: edge_order must be 1 or 2, got {}",
           order);
  std::vector<int64_t> dims;
  if (dim) {
    for (int64_t d : *dim) dims.push_back(wrap_dim("gradient", d, self.ndim()));
  } else {
    for (int64_t d = 0; d < self.ndim(); d++) dims.push_back(d);
  }
  for (size_t i = 0; i < dims.size(); i++) {
    for (size_t j = 0; j < i; j++)
      FL_CHECK(dims[i] != dims[j], RuntimeError, "gradient: dim {} is given twice", dims[i]);
    FL_CHECK(self.ndim() == 0 || self.size(dims[i]) >= order + 1, RuntimeError,
             "gradient: dim {} needs at least edge_order + 1 = {} points, got {}", dims[i],
             order + 1, self.size(dims[i]));
  }
  return dims;
}

void check_spacings(size_t dims, size_t given) {
  FL_CHECK(
      given == dims, RuntimeError,
      "gradient: a spacing for each of {} dims is needed, or a single number, got a list of {}",
      dims, given);
}

std::vector<Tensor> gradient_evenly(const Tensor& self, const Scalar& spacing,
                                    std::optional<IntList> dim, int64_t order) {
  std::vector<Tensor> slopes;
  for (int64_t d : slope_dims(self, dim, order))
    slopes.push_back(even_slopes(self, d, spacing, order));
  return slopes;
}

std::vector<Tensor> gradient_by(const Tensor& self, ScalarList spacing, std::optional<IntList> dim,
                                int64_t order) {
  std::vector<int64_t> dims = slope_dims(self, dim, order);
  check_spacings(dims.size(), spacing.size());
  std::vector<Tensor> slopes;
  for (size_t i = 0; i < dims.size(); i++)
    slopes.push_back(even_slopes(self, dims[i], spacing[i], order));
  return slopes;
}

std::vector<Tensor> gradient_at(const Tensor& self, TensorList places, std::optional<IntList> dim,
                                int64_t order) {
  std::vector<int64_t> dims = slope_dims(self, dim, order);
  check_spacings(dims.size(), places.size());
  std::vector<Tensor> slopes;
  for (size_t i = 0; i < dims.size(); i++) {
    const Tensor& x = places[i];
    FL_CHECK(x.ndim() == 1 && x.numel() == self.size(dims[i]), RuntimeError,
             "gradient: the places along dim {} must be {} numbers, got shape {}", dims[i],
             self.size(dims[i]), x.sizes());
    slopes.push_back(uneven_slopes(self, dims[i], x, order));
  }
  return slopes;
}

std::optional<IntList> one_dim(const std::optional<int64_t>& dim) {
  if (!dim) return std::nullopt;
  return IntList(&*dim, 1);
}

const Scalar kOne(1.0);

}  // namespace

std::vector<Tensor> gradient_impl(const Tensor& self, const std::optional<Scalar>& spacing,
                                  std::optional<int64_t> dim, int64_t edge_order) {
  return gradient_evenly(self, spacing.value_or(kOne), one_dim(dim), edge_order);
}
std::vector<Tensor> gradient_impl(const Tensor& self, const Scalar& spacing, IntList dim,
                                  int64_t edge_order) {
  return gradient_evenly(self, spacing, dim, edge_order);
}
std::vector<Tensor> gradient_impl(const Tensor& self, IntList dim, int64_t edge_order) {
  return gradient_evenly(self, kOne, dim, edge_order);
}
std::vector<Tensor> gradient_impl(const Tensor& self, ScalarList spacing,
                                  std::optional<int64_t> dim, int64_t edge_order) {
  return gradient_by(self, spacing, one_dim(dim), edge_order);
}
std::vector<Tensor> gradient_impl(const Tensor& self, ScalarList spacing, IntList dim,
                                  int64_t edge_order) {
  return gradient_by(self, spacing, dim, edge_order);
}
std::vector<Tensor> gradient_impl(const Tensor& self, TensorList spacing,
                                  std::optional<int64_t> dim, int64_t edge_order) {
  return gradient_at(self, spacing, one_dim(dim), edge_order);
}
std::vector<Tensor> gradient_impl(const Tensor& self, TensorList spacing, IntList dim,
                                  int64_t edge_order) {
  return gradient_at(self, spacing, dim, edge_order);
}

}  // namespace flambeau::ops
