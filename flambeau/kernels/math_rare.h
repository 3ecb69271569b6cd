// Rare functions of registers, lane by lane: the double versions of special.h, rounded once for
// floats.
#pragma once
#include "flambeau/kernels/math_short.h"
#include "flambeau/kernels/math_special.h"
#include "flambeau/kernels/special.h"

namespace flambeau::FL_ISA {

template <class T>
[[gnu::noinline]] Vec<T> each_lane(double (*f)(double), Vec<T> x) {
  return map_lanes([f](T v) { return T(f(v)); }, x);
}
template <class T>
[[gnu::noinline]] Vec<T> each_lane(double (*f)(double, double), Vec<T> x, Vec<T> y) {
  return map_lanes([f](T v, T w) { return T(f(v, w)); }, x, y);
}

// clang-format off
template <class T> Vec<T> digamma(Vec<T> x) { return each_lane(special::digamma, x); }
template <class T> Vec<T> zeta(Vec<T> x, Vec<T> q) { return each_lane(special::zeta, x, q); }
template <class T> Vec<T> polygamma(Vec<T> n, Vec<T> x) { return each_lane(special::polygamma, n, x); }
template <class T> Vec<T> igamma(Vec<T> a, Vec<T> x) { return each_lane(special::igamma, a, x); }
template <class T> Vec<T> igammac(Vec<T> a, Vec<T> x) { return each_lane(special::igammac, a, x); }
template <class T> Vec<T> ndtri(Vec<T> p) { return each_lane(special::ndtri, p); }
template <class T> Vec<T> bessel_j0(Vec<T> x) { return each_lane(special::bessel_j0, x); }
template <class T> Vec<T> bessel_j1(Vec<T> x) { return each_lane(special::bessel_j1, x); }
template <class T> Vec<T> bessel_y0(Vec<T> x) { return each_lane(special::bessel_y0, x); }
template <class T> Vec<T> bessel_y1(Vec<T> x) { return each_lane(special::bessel_y1, x); }
template <class T> Vec<T> i0(Vec<T> x) { return each_lane(special::i0, x); }
template <class T> Vec<T> i0e(Vec<T> x) { return each_lane(special::i0e, x); }
template <class T> Vec<T> i1(Vec<T> x) { return each_lane(special::i1, x); }
template <class T> Vec<T> i1e(Vec<T> x) { return each_lane(special::i1e, x); }
template <class T> Vec<T> modified_bessel_i0(Vec<T> x) { return each_lane(special::i0, x); }
template <class T> Vec<T> modified_bessel_i1(Vec<T> x) { return each_lane(special::i1, x); }
template <class T> Vec<T> modified_bessel_k0(Vec<T> x) { return each_lane(special::modified_bessel_k0, x); }
template <class T> Vec<T> modified_bessel_k1(Vec<T> x) { return each_lane(special::modified_bessel_k1, x); }
template <class T> Vec<T> scaled_modified_bessel_k0(Vec<T> x) { return each_lane(special::scaled_modified_bessel_k0, x); }
template <class T> Vec<T> scaled_modified_bessel_k1(Vec<T> x) { return each_lane(special::scaled_modified_bessel_k1, x); }
template <class T> Vec<T> spherical_bessel_j0(Vec<T> x) { return each_lane(special::spherical_bessel_j0, x); }
template <class T> Vec<T> airy_ai(Vec<T> x) { return each_lane(special::airy_ai, x); }
template <class T> Vec<T> chebyshev_polynomial_t(Vec<T> x, Vec<T> n) { return each_lane(special::chebyshev_polynomial_t, x, n); }
template <class T> Vec<T> chebyshev_polynomial_u(Vec<T> x, Vec<T> n) { return each_lane(special::chebyshev_polynomial_u, x, n); }
template <class T> Vec<T> chebyshev_polynomial_v(Vec<T> x, Vec<T> n) { return each_lane(special::chebyshev_polynomial_v, x, n); }
template <class T> Vec<T> chebyshev_polynomial_w(Vec<T> x, Vec<T> n) { return each_lane(special::chebyshev_polynomial_w, x, n); }
template <class T> Vec<T> hermite_polynomial_h(Vec<T> x, Vec<T> n) { return each_lane(special::hermite_polynomial_h, x, n); }
template <class T> Vec<T> hermite_polynomial_he(Vec<T> x, Vec<T> n) { return each_lane(special::hermite_polynomial_he, x, n); }
template <class T> Vec<T> laguerre_polynomial_l(Vec<T> x, Vec<T> n) { return each_lane(special::laguerre_polynomial_l, x, n); }
template <class T> Vec<T> legendre_polynomial_p(Vec<T> x, Vec<T> n) { return each_lane(special::legendre_polynomial_p, x, n); }
template <class T> Vec<T> shifted_chebyshev_polynomial_t(Vec<T> x, Vec<T> n) { return chebyshev_polynomial_t(x + x - 1, n); }
template <class T> Vec<T> shifted_chebyshev_polynomial_u(Vec<T> x, Vec<T> n) { return chebyshev_polynomial_u(x + x - 1, n); }
template <class T> Vec<T> shifted_chebyshev_polynomial_v(Vec<T> x, Vec<T> n) { return chebyshev_polynomial_v(x + x - 1, n); }
template <class T> Vec<T> shifted_chebyshev_polynomial_w(Vec<T> x, Vec<T> n) { return chebyshev_polynomial_w(x + x - 1, n); }
// clang-format on

// e^(x^2) erfc x without the overflow of its factors: the scaled form of erfc_positive, far out its
// expansion.
inline Vec<double> erfcx(Vec<double> x) {
  Vec<double> a = abs(x), z = 1 / (a * a);
  Vec<double> far = (1 + z * (-0.5 + z * (0.75 - z * 1.875))) / (a * 1.7724538509055160273);
  Vec<double> near = erfcx_positive(select(a > 28, 28, a));
  Vec<double> positive = select(a > 28, far, near);
  return select(x < 0, 2 * exp(x * x) - positive, positive);
}
inline Vec<float> erfcx(Vec<float> x) {
  return through_double([](Vec<double> v) { return erfcx(v); }, x);
}

// The normal distribution function and its logarithm.
template <class T>
inline Vec<T> ndtr(Vec<T> x) {
  return 0.5 * erfc(x * -0.70710678118654752);
}
inline Vec<double> log_ndtr(Vec<double> x) {
  Vec<double> t = x * 0.70710678118654752;
  return select(x < -1, log(0.5 * erfcx(-t)) - t * t, log1p(-0.5 * erfc(t)));
}
inline Vec<float> log_ndtr(Vec<float> x) {
  return through_double([](Vec<double> v) { return log_ndtr(v); }, x);
}

}  // namespace flambeau::FL_ISA
