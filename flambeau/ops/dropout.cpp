// Dropout in its forms: every one draws a mask of what is kept, then scales.
#include "flambeau/ops/dropout.h"

#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/random.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau {

namespace {

// 1 / (1 - p), rounded as torch rounds it: its mask is divided in the input's dtype.
double keep_scale(DType dtype, double p) {
  double keep = 1 - p;
  if (keep == 0) return 0;
  switch (real_of(dtype)) {
    case DType::Float64:
      return 1 / keep;
    case DType::Float16:
      return double(to_float(to_half(1 / float(keep))));
    case DType::BFloat16:
      return double(to_float(to_bfloat16(1 / float(keep))));
    default:
      return double(1 / float(keep));
  }
}

}  // namespace

double native_dropout_scale(DType dtype, double p, std::optional<bool> train) {
  return train.value_or(true) ? keep_scale(dtype, p) : 1;
}

namespace ops {

namespace {

void check_probability(std::string_view op, double p) {
  FL_CHECK(p >= 0 && p <= 1, RuntimeError, "{}: p must be in [0, 1], got {}", op, p);
}

void check_inexact(std::string_view op, const Tensor& t) {
  FL_CHECK(is_inexact(t.dtype()), RuntimeError,
           "{}: the result would be scaled, so the input must be floating, got {}", op, t.dtype());
}

bool keeps_all(const Tensor& input, double p, bool train) {
  return p == 0 || !train || input.numel() == 0;
}

// One number for each sample and channel.
Tensor channel_noise(std::string_view op, const Tensor& input) {
  FL_CHECK(input.ndim() >= 2, RuntimeError,
           "{}: samples and channels are the first two dims, got shape {}", op, input.sizes());
  Ints sizes(size_t(input.ndim()), 1);
  sizes[0] = input.size(0);
  sizes[1] = input.size(1);
  return new_tensor(sizes, input.dtype(), input.device());
}

// What is kept becomes a * x + b, what is dropped a * alpha' + b, so that mean and variance stay
// (Klambauer et al. 2017, "Self-normalizing neural networks").
struct AlphaNoise {
  Tensor factor, shift;
};
AlphaNoise alpha_noise(Tensor noise, double p) {
  constexpr double kAlpha = 1.7580993408473766;
  bernoulli_into(noise, 1 - p, nullptr);
  double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  Tensor shift = add(noise, Scalar(-1));
  mul_(shift, Scalar(kAlpha * a));
  add_(shift, Scalar(kAlpha * a * p));
  mul_(noise, Scalar(a));
  return {noise, shift};
}

Tensor drop_all(const Tensor& input) { return mul(input, new_zeros(input, {})); }

Tensor channel_factor(std::string_view op, const Tensor& input, double p) {
  check_inexact(op, input);
  Tensor noise = channel_noise(op, input);
  bernoulli_into(noise, 1 - p, nullptr);
  div_(noise, Scalar(1 - p));
  return noise;
}

}  // namespace

std::tuple<Tensor, Tensor> native_dropout_impl(const Tensor& input, double p,
                                               std::optional<bool> train) {
  check_probability("dropout", p);
  check_inexact("dropout", input);
  Tensor mask = new_like(input, DType::Bool);
  if (train.value_or(true)) {
    bernoulli_into(mask, 1 - p, nullptr);
    return {_masked_scale(input, mask, keep_scale(input.dtype(), p)), mask};
  }
  fill_into(mask, Scalar(true));
  return {clone(input), mask};
}

Tensor dropout_impl(const Tensor& input, double p, bool train) {
  check_probability("dropout", p);
  if (keeps_all(input, p, train)) return input;
  if (p == 1) return drop_all(input);
  return std::get<0>(native_dropout(input, p, true));
}

Tensor& dropout_into(Tensor& self, double p, bool train) {
  check_probability("dropout", p);
  if (keeps_all(self, p, train)) return self;
  if (p == 1) return mul_(self, new_zeros(self, {}));
  check_inexact("dropout", self);
  Tensor noise = new_like(self, self.dtype());
  bernoulli_into(noise, 1 - p, nullptr);
  return mul_(self, div_(noise, Scalar(1 - p)));
}

Tensor alpha_dropout_impl(const Tensor& input, double p, bool train) {
  check_probability("alpha_dropout", p);
  if (keeps_all(input, p, train)) return input;
  if (p == 1) return drop_all(input);
  check_inexact("alpha_dropout", input);
  AlphaNoise noise = alpha_noise(new_like(input, input.dtype()), p);
  return add(mul(input, noise.factor), noise.shift);
}

Tensor& alpha_dropout_into(Tensor& self, double p, bool train) {
  check_probability("alpha_dropout", p);
  if (keeps_all(self, p, train)) return self;
  if (p == 1) return mul_(self, new_zeros(self, {}));
  check_inexact("alpha_dropout", self);
  AlphaNoise noise = alpha_noise(new_like(self, self.dtype()), p);
  return add_(mul_(self, noise.factor), noise.shift);
}

Tensor feature_dropout_impl(const Tensor& input, double p, bool train) {
  check_probability("feature_dropout", p);
  if (keeps_all(input, p, train)) return input;
  if (p == 1) return drop_all(input);
  return mul(input, channel_factor("feature_dropout", input, p));
}

Tensor& feature_dropout_into(Tensor& self, double p, bool train) {
  check_probability("feature_dropout", p);
  if (keeps_all(self, p, train)) return self;
  if (p == 1) return mul_(self, new_zeros(self, {}));
  return mul_(self, channel_factor("feature_dropout", self, p));
}

Tensor feature_alpha_dropout_impl(const Tensor& input, double p, bool train) {
  check_probability("feature_alpha_dropout", p);
  if (keeps_all(input, p, train)) return input;
  if (p == 1) return drop_all(input);
  check_inexact("feature_alpha_dropout", input);
  AlphaNoise noise = alpha_noise(channel_noise("feature_alpha_dropout", input), p);
  return add(mul(input, noise.factor), noise.shift);
}

Tensor& feature_alpha_dropout_into(Tensor& self, double p, bool train) {
  check_probability("feature_alpha_dropout", p);
  if (keeps_all(self, p, train)) return self;
  if (p == 1) return mul_(self, new_zeros(self, {}));
  check_inexact("feature_alpha_dropout", self);
  AlphaNoise noise = alpha_noise(channel_noise("feature_alpha_dropout", self), p);
  return add_(mul_(self, noise.factor), noise.shift);
}

// ---- rrelu ----

namespace {

// The slope of every element: 1 above 0, else drawn.
template <class T>
void draw_slopes(Generator& generator, const T* x, T* slope, int64_t n, double lower,
                 double upper) {
  GeneratorLock lock(generator);
  for (int64_t i = 0; i < n; i++) {
    slope[i] = x[i] <= 0 ? T(std::fma(generator.uniform(), upper - lower, lower)) : T(1);
  }
}

Tensor slopes(const Tensor& self, double lower, double upper, Generator* generator) {
  check_inexact("rrelu", self);
  Generator& source = generator ? *generator : default_generator();
  Tensor slope = new_tensor(self.sizes(), self.dtype(), self.device());
  if (!has_memory(self)) return slope;
  bool wide = self.dtype() == DType::Float64;
  if (!wide) lower = double(float(lower)), upper = double(float(upper));  // as torch has them
  DType type = wide ? DType::Float64 : DType::Float32;
  Tensor x = new_tensor(self.sizes(), type, self.device());
  copy_elements(x, self);
  Tensor drawn = self.dtype() == type ? slope : new_tensor(self.sizes(), type, self.device());
  if (wide)
    draw_slopes(source, x.data<double>(), drawn.data<double>(), x.numel(), lower, upper);
  else
    draw_slopes(source, x.data<float>(), drawn.data<float>(), x.numel(), lower, upper);
  if (!drawn.is(slope)) copy_elements(slope, drawn);
  return slope;
}

void check_slopes(const Scalar& lower, const Scalar& upper) {
  FL_CHECK(lower.to_double() <= upper.to_double(), RuntimeError,
           "rrelu: lower must not be above upper, got {} and {}", lower, upper);
}

}  // namespace

Tensor rrelu_impl(const Tensor& self, const Scalar& lower, const Scalar& upper, bool training,
                  Generator* generator) {
  check_slopes(lower, upper);
  double low = lower.to_double(), high = upper.to_double();
  if (training) return _rrelu(self, slopes(self, low, high, generator));
  return leaky_relu(self, Scalar((low + high) / 2));
}

Tensor& rrelu_into(Tensor& self, const Scalar& lower, const Scalar& upper, bool training,
                   Generator* generator) {
  check_slopes(lower, upper);
  double low = lower.to_double(), high = upper.to_double();
  if (training) return _rrelu_(self, slopes(self, low, high, generator));
  return leaky_relu_(self, Scalar((low + high) / 2));
}

}  // namespace ops

}  // namespace flambeau
