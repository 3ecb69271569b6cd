// Derivatives of elementwise ops that a formula cannot say.
#include "flambeau/autograd/derivatives.h"

namespace flambeau {

void refuse_derivative() {
  fail<NotImplementedError>(
      "backward: this special function has no derivative for an argument that requires grad; "
      "detach the argument");
}

// Zero for a real tensor; for a complex one sgn turns with the angle only: (g / |z| - result *
// re(conj(result) g) / |z|).
Tensor sgn_backward(const Tensor& g, const Tensor& self, const Tensor& result) {
  if (!is_complex(self.dtype())) return ops::zeros_like(g);
  Tensor modulus = ops::abs(self);
  Tensor along = result * ops::real(ops::conj(result) * g);
  return ops::where(modulus == Scalar(0.0), ops::zeros_like(g), (g - along) / modulus);
}

// (cos(pi x) - sinc(x)) / x, zero at zero
Tensor sinc_backward(const Tensor& g, const Tensor& self) {
  constexpr double kPi = 3.14159265358979324;
  Tensor slope = (ops::cos(self * Scalar(kPi)) - ops::sinc(self)) / self;
  return ops::where(self == Scalar(0.0), Scalar(0.0), g * ops::conj(slope));
}

// d(x tanh(softplus(x))): with t the tanh, t + x (1 - t^2) sigmoid(x)
Tensor mish_backward(const Tensor& g, const Tensor& self) {
  Tensor t = ops::tanh(ops::log1p(ops::exp(self)));
  return g * (t + self * (1 - t * t) * ops::sigmoid(self));
}

Tensor softplus_backward(const Tensor& g, const Tensor& self, const Scalar& beta,
                         const Scalar& threshold) {
  Tensor scaled = self * beta;
  return ops::where(scaled > threshold, g, g * ops::sigmoid(scaled));
}

// The sign that was given, or taken away; zero where self is zero.
Tensor copysign_backward(const Tensor& g, const Tensor& self, const Tensor& result) {
  return ops::where(self == Scalar(0.0), Scalar(0.0), g * result / self);
}

Tensor pow_backward_self(const Tensor& g, const Tensor& self, const Scalar& exponent) {
  if (!exponent.is_complex() && exponent.to_double() == 0) return ops::zeros_like(g);
  return g * ops::conj(ops::pow(self, exponent - Scalar(int64_t{1})) * exponent);
}

Tensor pow_backward_self(const Tensor& g, const Tensor& self, const Tensor& exponent) {
  Tensor slope = g * ops::conj(exponent * ops::pow(self, exponent - Scalar(int64_t{1})));
  return ops::where(exponent == Scalar(0.0), Scalar(0.0), slope);
}

// result * log(self), and zero where self is zero and the exponent not negative: the limit from
// above.
Tensor pow_backward_exponent(const Tensor& g, const Tensor& self, const Tensor& exponent,
                             const Tensor& result) {
  Tensor flat = is_complex(exponent.dtype()) ? self == Scalar(0.0)
                                             : (self == Scalar(0.0)) && (exponent >= Scalar(0.0));
  return ops::where(flat, Scalar(0.0), g * ops::conj(result * ops::log(self)));
}

}  // namespace flambeau
