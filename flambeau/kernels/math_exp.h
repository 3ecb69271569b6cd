// Exponentials and what is made of them: exp, exp2, expm1, sigmoid, tanh, sinh, cosh.
#pragma once
#include "flambeau/kernels/math_base.h"
#include "flambeau/kernels/math_table.h"

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

// The operands' order lets a NaN through.
template <class T>
inline Vec<T> clamp_above(Vec<T> x, double high) {
  return lesser_raw(Vec<T>(high).v, x.v);
}
template <class T>
inline Vec<T> clamp_exponent(Vec<T> x, double low, double high) {
  return clamp_above(Vec<T>(greater_raw(Vec<T>(low).v, x.v)), high);
}

#if defined(__AVX512F__)
// e^r 2^n for |r| <= ln 2 / 32, n a multiple of 1/16 and t its sum with kSixteenthRounder (P. T. P.
// Tang 1989). Lanes whose result is zero are left out: to underflow costs some processors a hundred
// cycles, and masked scores are minus infinity.
template <class T>
inline constexpr double kSixteenthRounder = kRounder<T> / 16;
template <class T>
inline Vec<T> exp_from_table(Vec<T> r, Vec<T> n, Vec<T> t, Vec<T> x, double zero_below) {
  Vec<T> series;
  if constexpr (kIsSingle<T>) {
    series = polynomial(r, 0.500016215, 0.166670266);
  } else {
    series = polynomial(r, 0.50000000000000034, 0.16666666664410142, 0.041666666661910708,
                        0.0083334721606340611, 0.0013889084012231105);
  }
  Vec<T> rest = fma(r * r, series, r + look_up(kSixteenthsLost<T>, t));
  Vec<T> power = look_up(kSixteenths<T>, t), y = fma(power, rest, power);
  if constexpr (kIsSingle<T>) {
    __mmask16 lives = _mm512_cmp_ps_mask(x.v, Vec<T>(zero_below).v, _CMP_NLT_UQ);
    return Raw<T>(_mm512_maskz_scalef_ps(lives, y.v, n.v));
  } else {
    __mmask8 lives = _mm512_cmp_pd_mask(x.v, Vec<T>(zero_below).v, _CMP_NLT_UQ);
    return Raw<T>(_mm512_maskz_scalef_pd(lives, y.v, n.v));
  }
}
template <Floating T>
inline Vec<T> exp(Vec<T> x) {
  constexpr double low = kIsSingle<T> ? -0x1.05c61p-29 : 0x1.abc9e3b39803fp-56;
  Vec<T> bounded = clamp_above(x, kIsSingle<T> ? 89 : 710);
  Vec<T> t = fma(bounded, Vec<T>(kLog2E), Vec<T>(kSixteenthRounder<T>));
  Vec<T> n = t - kSixteenthRounder<T>;
  Vec<T> r = fma(n, Vec<T>(-low), fma(n, Vec<T>(-kLn2), bounded));
  return exp_from_table(r, n, t, x, kIsSingle<T> ? -104 : -746);
}
template <Floating T>
inline Vec<T> exp2(Vec<T> x) {
  Vec<T> bounded = clamp_above(x, kIsSingle<T> ? 129 : 1025);
  Vec<T> t = bounded + kSixteenthRounder<T>, n = t - kSixteenthRounder<T>;
  return exp_from_table((bounded - n) * kLn2, n, t, x, kIsSingle<T> ? -151 : -1076);
}
#else
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
#endif

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

#if defined(__AVX512F__)
// On every piece a polynomial of the distance to a point where the function is nearly a float (S.
// Gal 1986), so that only the last sum rounds. The first piece reaches down to zero.
inline Vec<float> tanh(Vec<float> x) {
  Vec<float> bounded = clamp_above(abs(x), 15.5);
  Vec<int32_t> piece = (bits(bounded) - bits(Vec<float>(kTanhFirst))).v >> 21;
  piece = max(piece, Vec<int32_t>(0));
  Vec<float> d = bounded - look_up(kTanhPieces[0], piece), p = look_up(kTanhPieces[6], piece);
#pragma GCC unroll 5
  for (int k = 5; k > 0; k--) p = fma(p, d, look_up(kTanhPieces[k], piece));
  return with_sign_of(x, p);
}
#else
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
#endif
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
