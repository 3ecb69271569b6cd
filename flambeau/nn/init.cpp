// Initialisers: numbers are put together in the order that Python's math does,
// since rounding shows in the draws.
#include "flambeau/nn/init.h"

#include <cmath>

#include "flambeau/generated/ops.h"

namespace flambeau::nn::init {
namespace {

// In-place ops take the handle; what is written is the memory behind it.
Tensor& handle(const Tensor& t) { return const_cast<Tensor&>(t); }

}  // namespace

const Tensor& uniform_(const Tensor& t, double low, double high) {
  NoGradGuard no_grad;
  return ops::uniform_(handle(t), low, high);
}

const Tensor& normal_(const Tensor& t, double mean, double std) {
  NoGradGuard no_grad;
  return ops::normal_(handle(t), mean, std);
}

const Tensor& constant_(const Tensor& t, double value) {
  NoGradGuard no_grad;
  return ops::fill_(handle(t), value);
}

Fans fans_of(const Tensor& weight) {
  FL_CHECK(weight.ndim() >= 2, ValueError, "init: a weight must have at least 2 dims, got shape {}",
           weight.sizes());
  int64_t window = 1;
  for (int64_t d = 2; d < weight.ndim(); d++) window *= weight.size(d);
  return {weight.size(1) * window, weight.size(0) * window};
}

const Tensor& kaiming_uniform_(const Tensor& t, double a) {
  if (t.numel() == 0) return t;
  double gain = std::sqrt(2.0 / (1 + a * a));
  double bound = std::sqrt(3.0) * (gain / std::sqrt(double(fans_of(t).in)));
  return uniform_(t, -bound, bound);
}

const Tensor& xavier_uniform_(const Tensor& t, double gain) {
  Fans fans = fans_of(t);
  double std = gain * std::sqrt(2.0 / double(fans.in + fans.out));
  double bound = std::sqrt(3.0) * std;
  return uniform_(t, -bound, bound);
}

}  // namespace flambeau::nn::init
