// Bessel functions of orders 0 and 1 and the Airy function. The power series and asymptotic
// expansions are those of Abramowitz and Stegun, chapters 9 and 10; where neither converges, N. M.
// Temme's continued fraction (1975).
#include <cmath>
#include <limits>

#include "flambeau/kernels/special.h"

namespace flambeau::special {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kEulerGamma = 0.57721566490153286061;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon() / 2;

// Sum of (x^2/4)^k / (k! (k + order)!): all terms positive, so nothing cancels.
double power_series(double x, int order) {
  double quarter = 0.25 * x * x, term = 1, sum = 1;
  for (int k = 1; term > sum * kEpsilon; ++k) {
    term *= quarter / (double(k) * (k + order));
    sum += term;
  }
  return sum;
}

// e^-x I(x) for x > 20, where the expansion's least term is below e^-40.
double scaled_i_far(double x, int order) {
  double mu = 4.0 * order * order, term = 1, sum = 1;
  for (int k = 1; k < 40; ++k) {
    double odd = 2 * k - 1, next = -term * (mu - odd * odd) / (k * 8 * x);
    if (std::fabs(next) > std::fabs(term)) break;
    term = next;
    sum += term;
    if (std::fabs(term) < kEpsilon) break;
  }
  return sum / std::sqrt(2 * kPi * x);
}

// e^x K_order(x) and e^x K_(order+1)(x) for x >= 2 and 0 <= order <= 1/2.
struct KPair {
  double k, next;
};
KPair scaled_k(double x, double order) {
  double first = 0.25 - order * order, a = -first, b = 2 * (1 + x), d = 1 / b, h = d, delta = d;
  double q1 = 0, q2 = 1, q = first, c = first, s = 1 + q * delta;
  for (int i = 2; i < 10'000; ++i) {
    a -= 2 * (i - 1);
    c = -a * c / i;
    double next = (q1 - b * q2) / a;
    q1 = q2;
    q2 = next;
    q += c * next;
    b += 2;
    d = 1 / (b + a * d);
    delta = (b * d - 1) * delta;
    h += delta;
    double change = q * delta;
    s += change;
    if (std::fabs(change) < std::fabs(s) * kEpsilon) break;
  }
  double k = std::sqrt(kPi / (2 * x)) / s;
  return {k, k * (order + x + 0.5 - first * h) / x};
}

// K0 for x <= 2 (A. and S. 9.6.13) and K1 (9.6.11).
double k0_near(double x) {
  double quarter = 0.25 * x * x, term = 1, harmonic = 0, sum = 0;
  for (int k = 1; k < 40; ++k) {
    term *= quarter / (double(k) * k);
    harmonic += 1.0 / k;
    sum += term * harmonic;
  }
  return sum - (std::log(0.5 * x) + kEulerGamma) * power_series(x, 0);
}
double k1_near(double x) {
  double quarter = 0.25 * x * x, term = 1, psi = 1 - 2 * kEulerGamma, sum = psi;
  for (int k = 1; k < 40; ++k) {
    term *= quarter / (double(k) * (k + 1));
    psi += 1.0 / k + 1.0 / (k + 1);
    sum += term * psi;
  }
  return 1 / x + std::log(0.5 * x) * 0.5 * x * power_series(x, 1) - 0.25 * x * sum;
}

double k_by_order(double x, int order, bool scaled) {
  if (x == 0) return kInf;
  if (!(x > 0)) return kNaN;
  if (x <= 2) {
    double near = order == 0 ? k0_near(x) : k1_near(x);
    return scaled ? near * std::exp(x) : near;
  }
  if (std::isinf(x)) return 0;
  KPair pair = scaled_k(x, 0);
  double value = order == 0 ? pair.k : pair.next;
  return scaled ? value : value * std::exp(-x);
}

// Ai near zero: c1 f(x) - c2 g(x) (A. and S. 10.4.2).
double airy_near(double x) {
  double cube = x * x * x, f = 1, g = x, term_f = 1, term_g = x;
  for (int k = 1; k < 80; ++k) {
    term_f *= cube / ((3.0 * k - 1) * (3.0 * k));
    term_g *= cube / ((3.0 * k) * (3.0 * k + 1));
    f += term_f;
    g += term_g;
  }
  return 0.35502805388781723926 * f - 0.25881940379280679840 * g;
}

// Ai(-x) for x >= 8 (10.4.60): the even terms of the expansion go with the cosine, the odd ones
// with the sine.
double airy_far_negative(double x) {
  double zeta = 2.0 / 3 * x * std::sqrt(x), term = 1, even = 1, odd = 0;
  for (int k = 1; k < 30; ++k) {
    double next = term * (6.0 * k - 5) * (6.0 * k - 1) / (72.0 * k) / zeta;
    if (next > term) break;
    term = next;
    double sign = k / 2 % 2 == 0 ? 1 : -1;
    if (k % 2 == 0)
      even += sign * term;
    else
      odd += sign * term;
    if (term < kEpsilon) break;
  }
  double phase = zeta - kPi / 4;
  return (std::cos(phase) * even + std::sin(phase) * odd) / std::sqrt(kPi * std::sqrt(x));
}

}  // namespace

double bessel_j0(double x) { return j0(x); }
double bessel_j1(double x) { return j1(x); }
double bessel_y0(double x) { return x < 0 ? kNaN : y0(x); }
double bessel_y1(double x) { return x < 0 ? kNaN : y1(x); }

double i0e(double x) {
  double a = std::fabs(x);
  if (std::isinf(a)) return 0;
  return a > 20 ? scaled_i_far(a, 0) : power_series(a, 0) * std::exp(-a);
}
double i1e(double x) {
  double a = std::fabs(x);
  if (std::isinf(a)) return std::copysign(0.0, x);
  double y = a > 20 ? scaled_i_far(a, 1) : 0.5 * a * power_series(a, 1) * std::exp(-a);
  return std::copysign(y, x);
}
// The exponential in two halves: it may overflow alone.
double i0(double x) {
  double a = std::fabs(x);
  if (a <= 20) return power_series(a, 0);
  double root = std::exp(0.5 * a);
  return std::isinf(a) ? a : scaled_i_far(a, 0) * root * root;
}
double i1(double x) {
  double a = std::fabs(x);
  if (a <= 20) return 0.5 * x * power_series(a, 1);
  double root = std::exp(0.5 * a);
  return std::isinf(a) ? x : std::copysign(scaled_i_far(a, 1) * root * root, x);
}

double modified_bessel_k0(double x) { return k_by_order(x, 0, false); }
double modified_bessel_k1(double x) { return k_by_order(x, 1, false); }
double scaled_modified_bessel_k0(double x) { return k_by_order(x, 0, true); }
double scaled_modified_bessel_k1(double x) { return k_by_order(x, 1, true); }

double spherical_bessel_j0(double x) {
  if (std::isinf(x)) return 0;
  if (std::fabs(x) < 1e-4) return 1 - x * x / 6;
  return std::sin(x) / x;
}

double airy_ai(double x) {
  if (std::isinf(x)) return x > 0 ? 0 : kNaN;
  if (x < -8) return airy_far_negative(-x);
  if (!(x > 2.1)) return airy_near(x);
  double zeta = 2.0 / 3 * x * std::sqrt(x);
  return std::sqrt(x / 3) / kPi * scaled_k(zeta, 1.0 / 3).k * std::exp(-zeta);
}

}  // namespace flambeau::special
