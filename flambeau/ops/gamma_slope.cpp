// How a sample of the gamma distribution moves with its shape at a fixed quantile (Figurnov,
// Mohamed & Mnih 2018, "Implicit reparameterization gradients").
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

constexpr int kMostTerms = 20000;
constexpr double kTiny = 1e-300;

// Recurrence up to 8, then the asymptotic series (Abramowitz & Stegun 6.3.18).
double digamma_of(double x) {
  double result = 0;
  for (; x < 8; x++) result -= 1 / x;
  double y = 1 / (x * x);
  double tail = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
  return result + std::log(x) - 0.5 / x - tail;
}

// From P = sum of x^(a+n) e^-x / Gamma(a+n+1), term by term, over the density.
double slope_by_series(double a, double x) {
  double psi = digamma_of(a + 1), log_x = std::log(x);
  double term = x / a, sum = 0;
  for (int n = 0; n < kMostTerms; n++) {
    double part = term * (psi - log_x);
    sum += part;
    if (n > 0 && term < 1e-17 * std::fabs(sum)) break;
    psi += 1 / (a + n + 1);
    term *= x / (a + n + 1);
  }
  return sum;
}

// A value and its derivative by a.
struct Dual {
  double value, slope;
};
inline Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.value * b.slope + a.slope * b.value};
}
inline Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
inline Dual inverse(Dual a) { return {1 / a.value, -a.slope / (a.value * a.value)}; }

// From the continued fraction of Q = 1 - P (Abramowitz & Stegun 6.5.31), by Lentz's method on
// duals.
double slope_by_fraction(double a, double x) {
  Dual b{x + 1 - a, -1};
  Dual c{1 / kTiny, 0}, d = inverse(b), f = d;
  for (int n = 1; n < kMostTerms; n++) {
    Dual factor{-n * (n - a), double(n)};
    b.value += 2;
    d = factor * d + b;
    if (std::fabs(d.value) < kTiny) d.value = kTiny;
    c = factor * inverse(c) + b;
    if (std::fabs(c.value) < kTiny) c.value = kTiny;
    d = inverse(d);
    Dual step = d * c;
    f = f * step;
    if (std::fabs(step.value - 1) < 1e-16 && std::fabs(step.slope) < 1e-16) break;
  }
  return x * (f.value * (std::log(x) - digamma_of(a)) + f.slope);
}

// x = a (1 - 1 / (9 a) + z / (3 sqrt(a)))^3 for normal z: Wilson & Hilferty 1931.
double slope_of_large(double a, double x) {
  double c = std::cbrt(x / a);
  return c * c * c + 3 * a * c * c * (1 / (9 * a * a) - (c - 1 + 1 / (9 * a)) / (2 * a));
}

double slope(double a, double x) {
  if (!(x > 0) || !(a > 0)) return x == 0 ? 0 : NAN;
  if (a > 1e5) return slope_of_large(a, x);
  return x <= a + 1 ? slope_by_series(a, x) : slope_by_fraction(a, x);
}

}  // namespace

void gamma_slope_kernel(Tensor& result, const Tensor& self, const Tensor& output) {
  Tensor shape = new_tensor(self.sizes(), DType::Float64);
  Tensor sample = new_tensor(output.sizes(), DType::Float64);
  copy_elements(shape, self);
  copy_elements(sample, output);
  auto *a = shape.data<double>(), *x = sample.data<double>();
  for (int64_t i = 0; i < shape.numel(); i++) x[i] = slope(a[i], x[i]);
  copy_elements(result, sample);
}

}  // namespace flambeau::ops
