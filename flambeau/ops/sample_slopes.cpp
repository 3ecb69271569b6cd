// How samples of the gamma and beta distributions move with their parameters at a fixed quantile
// (Figurnov, Mohamed & Mnih 2018, "Implicit reparameterization gradients").
#include <cmath>
#include <utility>

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

// b0 + a1 / (b1 + a2 / (b2 + ...)) with its derivative, by Lentz's method; term(n) gives (a, b).
template <class F>
Dual continued_fraction(Dual b0, const F& term) {
  Dual c = b0, d{0, 0}, f = b0;
  for (int n = 1; n < kMostTerms; n++) {
    auto [a, b] = term(n);
    d = a * d + b;
    if (std::fabs(d.value) < kTiny) d.value = kTiny;
    c = a * inverse(c) + b;
    if (std::fabs(c.value) < kTiny) c.value = kTiny;
    d = inverse(d);
    Dual step = d * c;
    f = f * step;
    if (std::fabs(step.value - 1) < 1e-15 && std::fabs(step.slope) < 1e-15) break;
  }
  return f;
}

// From the continued fraction of Q = 1 - P (Abramowitz & Stegun 6.5.31).
double slope_by_fraction(double a, double x) {
  auto term = [=](int n) {
    return std::pair(Dual{-n * (n - a), double(n)}, Dual{x + 1 - a + 2 * n, -1});
  };
  Dual f = inverse(continued_fraction({x + 1 - a, -1}, term));
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

// The continued fraction of the incomplete beta function (Abramowitz & Stegun 26.5.8) at p, q,
// each with its derivative.
Dual beta_fraction(Dual p, Dual q, double x) {
  auto term = [=](int n) {
    double m = n / 2;
    Dual even{p.value + 2 * m, p.slope}, one{1, 0};
    if (n % 2 == 0) {
      Dual a = Dual{m * x, 0} * (q + Dual{-m, 0});
      return std::pair(a * inverse((even + Dual{-1, 0}) * even), one);
    }
    Dual a = Dual{-x, 0} * (p + Dual{m, 0}) * (p + q + Dual{m, 0});
    return std::pair(a * inverse(even * (even + one)), one);
  };
  return inverse(continued_fraction({1, 0}, term));
}

// -(dI/da) / (dI/dx) / (1 - x) for I = betainc(a, b, x), b = total - a.
double beta_slope(double x, double a, double total) {
  double b = total - a;
  if (!(x > 0 && x < 1 && a > 0 && b > 0)) return x == 0 || x == 1 ? 0 : NAN;
  double by_factor = std::log(x) - digamma_of(a) + digamma_of(total);
  if (x <= (a + 1) / (total + 2)) {
    Dual f = beta_fraction({a, 1}, {b, 0}, x);
    return -x / a * (f.value * (by_factor - 1 / a) + f.slope);
  }
  Dual f = beta_fraction({b, 0}, {a, 1}, 1 - x);
  return x / b * (f.value * by_factor + f.slope);
}

Tensor as_doubles(std::string_view op, const Tensor& t, IntList sizes) {
  FL_CHECK(t.sizes() == sizes, RuntimeError, "{}: all shapes must be alike, got {} and {}", op,
           sizes, t.sizes());
  Tensor wide = new_tensor(t.sizes(), DType::Float64);
  copy_elements(wide, t);
  return wide;
}

}  // namespace

void gamma_slope_kernel(Tensor& result, const Tensor& self, const Tensor& output) {
  std::string_view op = "_standard_gamma_grad";
  Tensor shape = as_doubles(op, self, self.sizes()), sample = as_doubles(op, output, self.sizes());
  auto *a = shape.data<double>(), *x = sample.data<double>();
  for (int64_t i = 0; i < shape.numel(); i++) x[i] = slope(a[i], x[i]);
  copy_elements(result, sample);
}

void beta_slope_kernel(Tensor& result, const Tensor& x, const Tensor& alpha, const Tensor& total) {
  std::string_view op = "_dirichlet_grad";
  Tensor sample = as_doubles(op, x, x.sizes()), shape = as_doubles(op, alpha, x.sizes());
  Tensor sum = as_doubles(op, total, x.sizes());
  auto *values = sample.data<double>(), *a = shape.data<double>(), *t = sum.data<double>();
  for (int64_t i = 0; i < sample.numel(); i++) values[i] = beta_slope(values[i], a[i], t[i]);
  copy_elements(result, sample);
}

}  // namespace flambeau::ops
