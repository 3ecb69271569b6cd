// The gamma function's relatives: digamma, zeta, polygamma, incomplete gamma; and the inverse
// normal distribution.
#include <cmath>
#include <limits>

#include "flambeau/kernels/special.h"

namespace flambeau::special {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon() / 2;

double log_gamma(double x) {
  int sign;  // lgamma itself writes a global
  return lgamma_r(x, &sign);
}

// x^a e^-x / gamma(a), the factor of both expansions of the incomplete gamma function.
double incomplete_factor(double a, double x) {
  return std::exp(a * std::log(x) - x - log_gamma(a));
}

// Converges fast for x < a + 1 (Abramowitz and Stegun 6.5.29).
double lower_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (double n = a + 1; term > sum * kEpsilon; n += 1) {
    term *= x / n;
    sum += term;
  }
  return incomplete_factor(a, x) * sum;
}

// And for x >= a + 1: a continued fraction (A. and S. 6.5.31), evaluated as W. J. Lentz (1976)
// does.
double upper_fraction(double a, double x) {
  constexpr double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, value = d;
  for (int i = 1; i < 100'000; ++i) {
    double an = -i * (i - a);
    b += 2;
    d = an * d + b;
    c = b + an / c;
    d = 1 / (std::fabs(d) < tiny ? tiny : d);
    c = std::fabs(c) < tiny ? tiny : c;
    double change = d * c;
    value *= change;
    if (std::fabs(change - 1) < 2 * kEpsilon) break;
  }
  return incomplete_factor(a, x) * value;
}

// For x below 1.1, where 1 - lower_series would cancel: the series of gamma(a, x) without its first
// term, and that term as 1 - x^a / gamma(1 + a).
double upper_series(double a, double x) {
  double factor = 1, sum = 0;
  for (int n = 1; n < 200; ++n) {
    factor *= -x / n;
    double term = factor / (a + n);
    sum += term;
    if (std::fabs(term) <= std::fabs(sum) * kEpsilon) break;
  }
  double log_gamma_1p = a < 1e-8 ? -0.57721566490153286061 * a : log_gamma(1 + a);
  double power = a * std::log(x) - log_gamma_1p;  // x^a / gamma(1 + a)
  return -std::expm1(power) - a * std::exp(power) * sum;
}

}  // namespace

// Reflection below zero, recurrence up to 10, then the asymptotic series (Abramowitz and
// Stegun 6.3.5 to 6.3.18).
double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  double result = 0;
  if (x < 0) {
    if (x == std::trunc(x)) return kNaN;
    double whole, fraction = std::modf(x, &whole);
    result = -kPi / std::tan(kPi * fraction);
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  constexpr double series[] = {1.0 / 12,  -1.0 / 120,      1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760., 1.0 / 12};
  double z = 1 / (x * x), sum = 0;
  for (int i = 6; i >= 0; --i) sum = (sum + series[i]) * z;
  return result + (std::log(x) - 0.5 / x - sum);
}

// Sum of (q + k)^-x: nine terms or until q + k > 9, then Euler and Maclaurin's formula.
double zeta(double x, double q) {
  if (x == 1) return kInf;
  if (!(x > 1)) return kNaN;
  if (q <= 0) {
    if (q == std::floor(q)) return kInf;
    if (x != std::floor(x)) return kNaN;
  }
  double sum = std::pow(q, -x), term = 0;
  for (int i = 0; i < 9 || q <= 9; ++i) {
    q += 1;
    term = std::pow(q, -x);
    sum += term;
    if (std::fabs(term) < std::fabs(sum) * kEpsilon) return sum;
  }
  sum += term * q / (x - 1) - 0.5 * term;
  // (2k)! over the Bernoulli numbers B_2k.
  constexpr double divisors[] = {12.0,
                                 -720.0,
                                 30240.0,
                                 -1209600.0,
                                 47900160.0,
                                 -1307674368000.0 / 691,
                                 74724249600.0,
                                 -10670622842880000.0 / 3617,
                                 5109094217170944000.0 / 43867,
                                 -802857662698291200000.0 / 174611,
                                 14101100039391805440000.0 / 77683,
                                 -1693824136731743669452800000.0 / 236364091};
  double factor = 1, k = 0;
  for (double divisor : divisors) {
    factor *= x + k;
    term /= q;
    double correction = factor * term / divisor;
    sum += correction;
    if (std::fabs(correction) < std::fabs(sum) * kEpsilon) break;
    k += 1;
    factor *= x + k;
    term /= q;
    k += 1;
  }
  return sum;
}

double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  // Reflection: the zeta sum would cancel for the first derivative of large negative arguments.
  if (n == 1 && x < 0.5 && x != std::floor(x)) {
    double sine = std::sin(kPi * (x - std::floor(x)));
    return kPi * kPi / (sine * sine) - zeta(2, 1 - x);
  }
  double sign = std::fmod(n, 2) == 0 ? -1 : 1;
  return sign * std::exp(log_gamma(n + 1)) * zeta(n + 1, x);
}

// At the ends one argument decides alone, even if the other is NaN.
double igamma(double a, double x) {
  if (a < 0 || x < 0) return kNaN;
  if (a == 0) return x > 0 ? 1 : kNaN;
  if (x == 0) return 0;
  if (std::isinf(a)) return std::isinf(x) ? kNaN : 0;
  if (std::isinf(x)) return 1;
  if (std::isnan(a + x)) return kNaN;
  return x < a + 1 ? lower_series(a, x) : 1 - upper_fraction(a, x);
}

double igammac(double a, double x) {
  if (a < 0 || x < 0) return kNaN;
  if (a == 0) return x > 0 ? 0 : kNaN;
  if (x == 0) return 1;
  if (std::isinf(a)) return std::isinf(x) ? kNaN : 1;
  if (std::isinf(x)) return 0;
  if (std::isnan(a + x)) return kNaN;
  if (x < 1.1) return upper_series(a, x);
  return x < a + 1 ? 1 - lower_series(a, x) : upper_fraction(a, x);
}

// Newton's method on the logarithm of the smaller tail, which is nearly a parabola: a handful of
// steps from anywhere.
double ndtri(double p) {
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  if (!(p > 0 && p < 1)) return kNaN;
  double tail = p < 0.5 ? p : 1 - p, target = std::log(tail);
  double x = tail > 0.2 ? (0.5 - tail) * 2.5 : std::sqrt(-2 * target) - 0.5;
  for (int step = 0; step < 60; ++step) {
    double area = 0.5 * std::erfc(x * M_SQRT1_2);
    if (area == 0) {  // only from the start value for a subnormal tail
      x -= 0.25;
      continue;
    }
    double slope = std::exp(-0.5 * x * x) / (std::sqrt(2 * kPi) * area);
    double change = (std::log(area) - target) / slope;
    x += change;
    if (std::fabs(change) <= 4 * kEpsilon * std::fabs(x)) break;
  }
  return p < 0.5 ? -x : x;
}

}  // namespace flambeau::special
