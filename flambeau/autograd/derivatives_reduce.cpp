// Derivatives of reductions and scans.
#include "flambeau/autograd/derivatives.h"

namespace flambeau {

namespace {

constexpr double kInfinity = __builtin_inf();

Tensor zero_where(const Tensor& condition, const Tensor& t) {
  return ops::masked_fill(t, condition, Scalar(int64_t{0}));
}

// g in equal parts to the elements that `mask` marks.
Tensor share(const Tensor& g, const Tensor& mask, const Tensor& count) { return g / count * mask; }

Dims one_dim(const int64_t& dim) { return Dims(IntList(&dim, 1)); }

// The same elements in the opposite order along a dim.
Tensor reversed(const Tensor& t, int64_t dim) {
  if (t.ndim() == 0 || t.size(dim) < 2) return t;
  Ints sizes(size_t(t.ndim()), 1);
  sizes[size_t(dim)] = t.size(dim);
  Tensor index = ops::arange(Scalar(t.size(dim) - 1), Scalar(int64_t{-1}), Scalar(int64_t{-1}),
                             DType::Int64, {}, t.device());
  return ops::gather(t, dim, ops::expand(ops::reshape(index, sizes), t.sizes()));
}

bool has_zero(const Tensor& t) {
  return has_memory(t) && ops::any(ops::eq(t, Scalar(int64_t{0}))).item().to_bool();
}

}  // namespace

Tensor amax_backward(const Tensor& g, const Tensor& self, const Tensor& result, const Dims& dim,
                     bool keepdim) {
  Tensor mask = ops::eq(self, expand_reduced(result, self.sizes(), dim, keepdim));
  Tensor count = self.ndim() ? ops::sum(mask, dim, true) : ops::sum(mask);
  return share(expand_reduced(g, self.sizes(), dim, keepdim), mask, count);
}

// A NaN that was found takes the gradient.
Tensor extreme_backward(const Tensor& g, const Tensor& self, const Tensor& result) {
  Tensor mask = ops::eq(self, result) || (ops::isnan(self) && ops::isnan(result));
  return share(g, mask, ops::sum(mask));
}

Tensor aminmax_backward(const Tensor& g_min, const Tensor& g_max, const Tensor& self,
                        const Tensor& min, const Tensor& max, std::optional<int64_t> dim,
                        bool keepdim) {
  OneDim one(dim);
  Tensor low, high;
  if (g_min.defined()) low = amax_backward(g_min, self, min, one, keepdim);
  if (g_max.defined()) high = amax_backward(g_max, self, max, one, keepdim);
  if (!low.defined()) return high;
  return high.defined() ? low + high : low;
}

Tensor value_selecting_backward(const Tensor& g, int64_t dim, const Tensor& indices, IntList sizes,
                                bool keepdim) {
  Tensor zeros = zeros_for(g, sizes);
  bool lost = !keepdim && !sizes.empty();
  Tensor full = lost ? ops::unsqueeze(g, dim) : g;
  Tensor at = lost ? ops::unsqueeze(indices, dim) : indices;
  return ops::scatter_add(zeros, dim, at, full);
}

// d var / dx = 2 (x - mean) / (n - correction).
Tensor var_backward(const Tensor& g, const Tensor& self, const Dims& dim, Correction correction,
                    bool keepdim) {
  double kept = double(std::max<int64_t>(g.numel(), 1));
  double scale = 2.0 / (double(self.numel()) / kept - correction.value);
  Tensor center =
      self.ndim() && dim ? ops::mean(self, dim, true) : ops::mean(self, std::optional<DType>());
  return expand_reduced(g, self.sizes(), dim, keepdim) * Scalar(scale) * (self - center);
}

// d std = d var / (2 std), taken as 0 where std is 0.
Tensor std_backward(const Tensor& g, const Tensor& self, const Tensor& result, const Dims& dim,
                    Correction correction, bool keepdim) {
  Tensor g_var = zero_where(ops::eq(result, Scalar(int64_t{0})), g / (result * Scalar(2.0)));
  return var_backward(g_var, self, dim, correction, keepdim);
}

namespace {

Tensor add_mean_part(const Tensor& spread, const Tensor& g_mean, const Tensor& self,
                     const Dims& dim, bool keepdim) {
  if (!g_mean.defined()) return spread;
  Tensor mean = mean_backward(g_mean, self.sizes(), dim, keepdim);
  return spread.defined() ? spread + mean : mean;
}

}  // namespace

Tensor var_mean_backward(const Tensor& g_var, const Tensor& g_mean, const Tensor& self,
                         const Dims& dim, Correction correction, bool keepdim) {
  Tensor spread;
  if (g_var.defined()) spread = var_backward(g_var, self, dim, correction, keepdim);
  return add_mean_part(spread, g_mean, self, dim, keepdim);
}

Tensor std_mean_backward(const Tensor& g_std, const Tensor& g_mean, const Tensor& self,
                         const Tensor& result, const Dims& dim, Correction correction,
                         bool keepdim) {
  Tensor spread;
  if (g_std.defined()) spread = std_backward(g_std, self, result, dim, correction, keepdim);
  return add_mean_part(spread, g_mean, self, dim, keepdim);
}

Tensor nansum_backward(const Tensor& g, const Tensor& self, const Dims& dim, bool keepdim) {
  return expand_reduced(g, self.sizes(), dim, keepdim) * ops::logical_not(ops::isnan(self));
}

// A result of -inf has only terms that are zero: exp(-inf - 0), where -inf - -inf would be NaN.
Tensor logsumexp_backward(const Tensor& g, const Tensor& self, const Tensor& result,
                          const Dims& dim, bool keepdim) {
  Tensor pivot = zero_where(ops::eq(result, Scalar(-kInfinity)), result);
  Tensor terms = ops::exp(self - expand_reduced(pivot, self.sizes(), dim, keepdim));
  return expand_reduced(g, self.sizes(), dim, keepdim) * ops::conj(terms);
}

// The norm has a corner at zero; 0 is the subgradient taken there.
Tensor vector_norm_backward(const Tensor& g, const Tensor& self, const Tensor& result,
                            const Scalar& ord, const Dims& dim, bool keepdim) {
  double p = ord.to_double();
  Scalar zero(int64_t{0});
  if (p == 0) return zeros_for(self, self.sizes());
  Tensor spread = expand_reduced(g, self.sizes(), dim, keepdim);
  Tensor norm = expand_reduced(result, self.sizes(), dim, keepdim);
  if (p == 1) return spread * ops::sgn(self);
  if (p == 2) return self * zero_where(ops::eq(norm, zero), spread / norm);
  if (p == kInfinity || p == -kInfinity) {
    Tensor size = ops::abs(self);
    Tensor mask = ops::eq(size, norm) || (ops::isnan(size) && ops::isnan(norm));
    Tensor count = self.ndim() ? ops::sum(mask, dim, true) : ops::sum(mask);
    return ops::sgn(self) * share(spread, mask, count);
  }
  if (p < 2) {
    Tensor power = ops::sgn(self) * ops::pow(ops::abs(self), Scalar(p - 1));
    if (p < 1) power = zero_where(ops::eq(self, zero), power);
    return power * zero_where(ops::eq(norm, zero), spread * ops::pow(norm, Scalar(1 - p)));
  }
  Tensor power = self * ops::pow(ops::abs(self), Scalar(p - 2));
  return power * zero_where(ops::eq(norm, zero), spread / ops::pow(norm, Scalar(p - 1)));
}

namespace {

// Products of all elements but one, along a dim: of those before times those after.
Tensor products_of_others(const Tensor& x, int64_t dim) {
  int64_t n = x.size(dim);
  Tensor one = ops::ones_like(ops::narrow(x, dim, 0, 1));
  auto before = [&](const Tensor& t) {
    std::vector<Tensor> parts{one, ops::narrow(t, dim, 0, n - 1)};
    return ops::cumprod(ops::cat(parts, dim), dim);
  };
  return before(x) * reversed(before(reversed(x, dim)), dim);
}

}  // namespace

// Dividing the product by an element is the quick way, but not where one is zero or the derivative
// is differentiated again.
Tensor prod_dim_backward(const Tensor& g, const Tensor& self, const Tensor& result, int64_t dim,
                         bool keepdim) {
  if (self.ndim() == 0) return g;
  dim = wrap_dim("prod", dim, self.ndim());
  Tensor spread = expand_reduced(g, self.sizes(), one_dim(dim), keepdim);
  if (self.numel() == 0) return zeros_for(g, self.sizes());
  if (!tls.grad && !has_zero(self)) {
    Tensor all = expand_reduced(result, self.sizes(), one_dim(dim), keepdim);
    return spread * ops::conj(all / self);
  }
  return spread * ops::conj(products_of_others(self, dim));
}

Tensor prod_backward(const Tensor& g, const Tensor& self, const Tensor& result) {
  if (self.ndim() == 0) return g;
  Tensor flat = ops::reshape(self, {self.numel()});
  return ops::reshape(prod_dim_backward(g, flat, result, 0, false), self.sizes());
}

Tensor cumsum_backward(const Tensor& g, int64_t dim) {
  if (g.ndim() == 0) return g;
  dim = wrap_dim("cumsum", dim, g.ndim());
  return reversed(ops::cumsum(reversed(g, dim), dim), dim);
}

namespace {

// dx[k] = sum over i >= k of g[i] times the product of all x[j], j <= i, but x[k].
Tensor cumprod_backward_slow(const Tensor& g, const Tensor& x, int64_t dim) {
  int64_t n = x.size(dim);
  std::vector<Tensor> parts;
  for (int64_t k = 0; k < n; k++) {
    Tensor at = ops::narrow(x, dim, k, 1);
    std::vector<Tensor> run;
    if (k) run.push_back(ops::prod(ops::narrow(x, dim, 0, k), dim, true));
    if (!k) run.push_back(ops::ones_like(at));
    run.push_back(ops::narrow(x, dim, k + 1, n - k - 1));
    Tensor products = ops::cumprod(ops::cat(run, dim), dim);
    Tensor terms = ops::narrow(g, dim, k, n - k) * ops::conj(products);
    parts.push_back(ops::sum(terms, IntList(&dim, 1), true));
  }
  return ops::cat(parts, dim);
}

}  // namespace

Tensor cumprod_backward(const Tensor& g, const Tensor& self, const Tensor& result, int64_t dim) {
  if (self.ndim() == 0 || self.numel() == 0) return g;
  dim = wrap_dim("cumprod", dim, self.ndim());
  if (tls.grad || has_zero(self)) return cumprod_backward_slow(g, self, dim);
  return cumsum_backward(g * ops::conj(result), dim) / ops::conj(self);
}

// dx[k] = sum over i >= k of g[i] exp(x[k] - y[i]), kept in logarithms for each sign of g. The
// lowest number stands for log(0): an infinity would meet another in the next derivative.
Tensor logcumsumexp_backward(const Tensor& g, const Tensor& self, const Tensor& result,
                             int64_t dim) {
  if (self.ndim() == 0 || self.numel() == 0) return g;
  dim = wrap_dim("logcumsumexp", dim, self.ndim());
  if (is_complex(self.dtype())) {  // the sum over j >= i of g_j conj(e^(x_i - y_j))
    Tensor pivot = ops::max(ops::real(result));
    Tensor sums =
        reversed(ops::cumsum(reversed(g * ops::conj(ops::exp(pivot - result)), dim), dim), dim);
    return sums * ops::conj(ops::exp(self - pivot));
  }
  Scalar lowest(-largest_number(self.dtype()));
  auto part = [&](const Tensor& wanted, const Tensor& size) {
    Tensor logs = ops::where(wanted, ops::log(size), lowest);
    Tensor total = reversed(ops::logcumsumexp(reversed(logs - result, dim), dim), dim);
    return ops::exp(total + self);
  };
  Scalar zero(int64_t{0});
  return part(ops::gt(g, zero), g) - part(ops::lt(g, zero), ops::neg(g));
}

}  // namespace flambeau
