// Exponentials and what is made of them: exp, exp2, expm1, sigmoid, tanh, sinh, cosh.
#pragma once
#include "flambeau/kernels/math_base.h"

namespace flambeau::FL_ISA {

// x = n ln 2 + r + residue, |r| <= ln 2 / 2 (Cody and Waite 1980). The high part of ln 2 has so few
// bits that its multiples are exact even where fma rounds twice.
// Also 2^(n - Halvings), with no step of its own: n and the bias stand in the low bits of the
// rounded sum.
template <class T>
struct ExpParts {
  Vec<T> n, r, residue, power;
};
template <int Halvings = 0, class T>
inline ExpParts<T> reduce_exp(Vec<T> x) {
  constexpr double rounder = kRounder<T> + kExponentBias<T> - Halvings;
  constexpr double high = kIsSingle<T> ? 0x1.62e4p-1 : 0x1.62e42fefp-1;
  constexpr double low = kIsSingle<T> ? 0x1.7f7d1cf79abcap-20 : 0x1.473de6af278edp-34;
  Vec<T> sum = fma(x, Vec<T>(kLog2E), Vec<T>(rounder)), n = sum - rounder;
  Vec<T> coarse = fma(n, Vec<T>(-high), x);
  Vec<T> r = fma(n, Vec<T>(-low), coarse);
  return {n, r, fma(n, Vec<T>(-low), coarse - r),
          from_bits(shift_left<kMantissaBits<T>>(bits(sum)))};
}

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2.
template <class T>
inline Vec<T> exp_series(Vec<T> r) {
  if constexpr (kIsSingle<T>) {
    return polynomial(r, 0.499999934, 0.166665204, 0.0416683909, 0.00836874412, 0.00138145302);
  } else {
    return polynomial(r, 0.50000000000000111, 0.1666666666666641, 0.041666666666529739,
                      0.0083333333334949938, 0.0013888888943757694, 0.00019841269505745346,
                      2.4801492951958667e-05, 2.7557586824842095e-06, 2.7630305412137947e-07,
                      2.5000013108889113e-08);
  }
}
// e^r - 1.
template <class T>
inline Vec<T> expm1_short(Vec<T> r) {
  return fma(r * r, exp_series(r), r);
}

// The operands' order lets a NaN through, and is the processor's own for a minimum.
template <class T>
inline Vec<T> clamp_above(Vec<T> x, double high) {
  return select(Vec<T>(high) < x, high, x);
}
template <class T>
inline Vec<T> clamp_exponent(Vec<T> x, double low, double high) {
  return clamp_above(select(Vec<T>(low) > x, low, x), high);
}

// Where the result is zero, that of 0 is computed: to underflow costs some processors a hundred
// cycles, and masked scores are minus infinity.
template <Floating T>
inline Vec<T> exp(Vec<T> x) {
  const auto vanishes = x < Vec<T>(kIsSingle<T> ? -104 : -746);
  x = clamp_above(select(vanishes, 0, x), kIsSingle<T> ? 89 : 710);
  ExpParts<T> parts = reduce_exp(x);
  Vec<T> r = parts.r, p;
  if constexpr (kIsSingle<T>)
    p = expm1_short(r);
  else
    p = r + fma(r * r, exp_series(r), parts.residue);
  return select(vanishes, 0, scale(1 + p, parts.n));
}

template <Floating T>
inline Vec<T> exp2(Vec<T> x) {
  x = kIsSingle<T> ? clamp_exponent(x, -151, 129) : clamp_exponent(x, -1076, 1025);
  Vec<T> n = (x + kRounder<T>)-kRounder<T>;
  Vec<T> r = (x - n) * kLn2;
  return scale(1 + expm1_short(r), n);
}

// 2^n (1 + p) - 1 with the sum (2^n - 1) + 2^n r kept exact. Half of everything is computed: 2^n
// may overflow alone.
template <Floating T>
inline Vec<T> expm1(Vec<T> x) {
  Vec<T> bounded = kIsSingle<T> ? clamp_exponent(x, -18, 89) : clamp_exponent(x, -40, 710);
  ExpParts<T> parts = reduce_exp<1>(bounded);
  Vec<T> r = parts.r, half_power = parts.power;
  Doubled<T> whole = sum_exact(half_power, Vec<T>(-0.5));
  Doubled<T> s = sum_ordered(whole.high, half_power * r);
  Vec<T> rest = fma(r * r, exp_series(r), parts.residue);
  Vec<T> y = 2 * (s.high + (s.low + fma(half_power, rest, whole.low)));
  return select(abs(x) < Vec<T>(kIsSingle<T> ? 0x1p-25 : 0x1p-54), x, y);
}

// Of e^-|x| rather than e^-x: what is below 1/2 stays exact where e^-x overflows.
template <Floating T>
inline Vec<T> sigmoid(Vec<T> x) {
  Vec<T> e = exp(-abs(x));
  return select(x < 0, e, 1) / (1 + e);
}

// Near zero a polynomial; else 1 - 2 / (e^2x + 1), where splitting e^2x into 2^n and the rest saves
// a rounding.
inline Vec<float> tanh(Vec<float> x) {
  Vec<float> a = abs(x), z = x * x;
  Vec<float> small = polynomial(z, -0.33333326, 0.1333308, -0.0539384251, 0.0217009093,
                                -0.00834147991, 0.00266021068, -0.000485889295);
  small = fma(small * z, a, a);
  ExpParts<float> parts = reduce_exp(2 * clamp_above(a, 10));
  Vec<float> divisor = fma(parts.power, expm1_short(parts.r), parts.power + 1);
  Vec<float> large = fma(reciprocal_near(divisor), Vec<float>(-2), Vec<float>(1));
  return with_sign_of(x, select(a < 0.875, small, large));
}
inline Vec<double> tanh(Vec<double> x) {
  Vec<double> a = abs(x), t = expm1(2 * clamp_above(a, 20));
  return copysign(t / (t + 2), x);
}

// Beyond 708 intermediate results overflow before the final one does; infinities go there too.
inline Vec<double> sinh(Vec<double> x) {
  Vec<double> a = abs(x), t = expm1(a);
  Vec<double> y = copysign(0.5 * (t + t / (t + 1)), x);
  if (FL_UNLIKELY(any_beyond(x, 708)))
    return map_lanes([](double v) { return __builtin_sinh(v); }, x);
  return y;
}
inline Vec<double> cosh(Vec<double> x) {
  Vec<double> a = abs(x), t = 0.5 * exp(a);
  if (FL_UNLIKELY(any_beyond(x, 708)))
    return map_lanes([](double v) { return __builtin_cosh(v); }, x);
  return t + 0.25 / t;
}
}  // namespace flambeau::FL_ISA
