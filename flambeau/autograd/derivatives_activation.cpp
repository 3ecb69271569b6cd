// Derivatives of activations and of other curves that a formula cannot say.
#include "flambeau/autograd/derivatives.h"

namespace flambeau {

// y = x (1 + t) / 2 with t = tanh(u), u = k (x + c x^3), so that
// y'' = (1 - t^2) (u' + x u'' / 2 - x t u'^2).
Tensor gelu_tanh_curvature(const Tensor& g, const Tensor& self) {
  constexpr double k = 0.79788456080286536, c = 0.044715;
  Tensor square = self * self;
  Tensor t = ops::tanh(self * (square * Scalar(c) + Scalar(1.0)) * Scalar(k));
  Tensor first = square * Scalar(3 * c * k) + Scalar(k);
  Tensor half_second = self * Scalar(3 * c * k);
  Tensor bend = first + self * half_second - self * t * first * first;
  return g * (Scalar(1.0) - t * t) * bend;
}

// The argument turns by i z / |z|^2; that of a real number stays.
Tensor angle_backward(const Tensor& g, const Tensor& self) {
  if (!is_complex(self.dtype())) return ops::zeros_like(g);
  Tensor modulus = ops::abs(self);
  Tensor turn = self * Scalar(std::complex<double>(0, 1)) * (g / (modulus * modulus));
  return ops::masked_fill(turn, ops::eq(self, Scalar(0.0)), Scalar(0.0));
}

// 1 / (x (1 - x)), zero where x was clamped, NaN outside [0, 1] where it was not.
Tensor logit_backward(const Tensor& g, const Tensor& self, double eps) {
  double low = eps < 0 ? 0 : eps;
  Tensor slope = g / (self * (Scalar(1.0) - self));
  Tensor inside = self >= Scalar(low) && self <= Scalar(1 - low);
  return ops::where(inside, slope, Scalar(eps < 0 ? __builtin_nan("") : 0.0));
}

}  // namespace flambeau
