// Orthogonal polynomials by their three-term recurrences, with torch's rules for the ends of the
// interval.
#include <cmath>
#include <cstdint>

#include "flambeau/kernels/special.h"

namespace flambeau::special {
namespace {

constexpr int64_t kMostSteps = 1 << 20;  // higher degrees give NaN rather than hours of steps

// Follows p(k + 1) = next(k, p(k), p(k - 1)) from p(0) = 1 and p(1) up to degree n.
template <class F>
double recur(int64_t n, double first, F next) {
  if (n < 0) return 0;
  double before = 1, p = first;
  if (n == 0) return before;
  if (n > kMostSteps) return NAN;
  for (int64_t k = 1; k < n && !std::isnan(p); ++k) {
    double after = next(double(k), p, before);
    before = p;
    p = after;
  }
  return p;
}
double recur_chebyshev(int64_t n, double x, double first) {
  return recur(n, first, [x](double, double p, double before) { return 2 * x * p - before; });
}

// Inside the interval the trigonometric form is used from this degree on: its cost does not grow.
constexpr int64_t kTrigonometric = 6;
bool trigonometric(double x, int64_t n, int64_t from) { return n > from && std::fabs(x) < 1; }

}  // namespace

double chebyshev_polynomial_t(double x, double degree) {
  int64_t n = int64_t(degree);
  if (n < 0) return 0;
  if (std::fabs(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
  if (trigonometric(x, n, kTrigonometric)) return std::cos(n * std::acos(x));
  return recur_chebyshev(n, x, x);
}

double chebyshev_polynomial_u(double x, double degree) {
  int64_t n = int64_t(degree);
  if (n < 0) return 0;
  if (std::fabs(x) == 1) return x > 0 || n % 2 == 0 ? double(n) + 1 : -(double(n) + 1);
  if (trigonometric(x, n, 8)) {
    double angle = std::acos(x), sine = std::sin(angle);
    return sine != 0 ? std::sin((n + 1.0) * angle) / sine
                     : (n + 1.0) * std::cos((n + 1.0) * angle) / x;
  }
  return recur_chebyshev(n, x, 2 * x);
}

double chebyshev_polynomial_v(double x, double degree) {
  int64_t n = int64_t(degree);
  if (n < 0) return 0;
  if (x == 1) return 1;
  if (x == -1) return n % 2 == 0 ? (2 * double(n) + 1) : -(2 * double(n) + 1);
  if (trigonometric(x, n, 8)) {
    double angle = std::acos(x), half = std::cos(0.5 * angle);
    if (half != 0) return std::cos((n + 0.5) * angle) / half;
  }
  return recur_chebyshev(n, x, 2 * x - 1);
}

double chebyshev_polynomial_w(double x, double degree) {
  int64_t n = int64_t(degree);
  if (n < 0) return 0;
  if (x == 1) return (2 * double(n) + 1);
  if (x == -1) return n % 2 == 0 ? 1 : -1;
  if (trigonometric(x, n, 8)) {
    double angle = std::acos(x), half = std::sin(0.5 * angle);
    if (half != 0) return std::sin((n + 0.5) * angle) / half;
  }
  return recur_chebyshev(n, x, 2 * x + 1);
}

double hermite_polynomial_h(double x, double degree) {
  return recur(int64_t(degree), 2 * x,
               [x](double k, double p, double before) { return 2 * x * p - 2 * k * before; });
}

double hermite_polynomial_he(double x, double degree) {
  return recur(int64_t(degree), x,
               [x](double k, double p, double before) { return x * p - k * before; });
}

double laguerre_polynomial_l(double x, double degree) {
  return recur(int64_t(degree), 1 - x, [x](double k, double p, double before) {
    return ((2 * k + 1 - x) * p - k * before) / (k + 1);
  });
}

double legendre_polynomial_p(double x, double degree) {
  int64_t n = int64_t(degree);
  if (n < 0) return 0;
  if (std::fabs(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
  return recur(n, x, [x](double k, double p, double before) {
    return ((2 * k + 1) * x * p - k * before) / (k + 1);
  });
}

}  // namespace flambeau::special
