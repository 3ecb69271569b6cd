// Powers and roots: pow, hypot, reciprocal, rsqrt; integer powers.
#pragma once
#include "flambeau/kernels/math_short.h"

namespace flambeau::FL_ISA {

template <class V>
inline V reciprocal(V x) {
  return 1 / x;
}
template <class V>
inline V rsqrt(V x) {
  return 1 / sqrt(x);
}

// ln x with some 65 bits, for positive finite x. With s = f / (2 + f), ln(1 + f) = 2s + 2/3 s^3 +
// ...: the first two terms are carried as sums of two doubles, for pow multiplies their error by up
// to 745.
inline Doubled<double> log_extended(Vec<double> x) {
  LogParts<double> parts = split_log(x, 0x1.6a09e667f3bcdp+0);
  Vec<double> f = parts.f;
  Doubled<double> divisor = sum_ordered(Vec<double>(2), f);
  Vec<double> s = f / divisor.high;
  Doubled<double> back = product_exact(s, divisor.high);
  Vec<double> s_low = (((f - back.high) - back.low) - s * divisor.low) / divisor.high;
  Doubled<double> square = product_exact(s, s);
  Vec<double> z = square.high, z_low = square.low + 2 * s * s_low;
  // s^3 * 2/3
  Doubled<double> cube = product_exact(z, s);
  Vec<double> cube_low = cube.low + z * s_low + z_low * s;
  Doubled<double> third = product_exact(cube.high, Vec<double>(2.0 / 3));
  Vec<double> third_low = third.low + cube.high * (2.0 / 3 / 0x1p54) + cube_low * (2.0 / 3);
  Vec<double> tail = polynomial(z, 0.40000000000002273, 0.28571428570091856, 0.22222222521358714,
                                0.18181784236718415, 0.15386763544359913, 0.13256668572006033,
                                0.13197752412975272);
  tail = z * cube.high * tail;
  Doubled<double> a = sum_ordered(parts.k * 0x1.62e42fefp-1, 2 * s);
  Doubled<double> b = sum_exact(a.high, third.high);
  Vec<double> low = parts.k * 0x1.473de6af278edp-34 + (2 * s_low + (third_low + tail));
  return sum_ordered(b.high, b.low + (a.low + low));
}

// C's rules for zeros, infinities, NaN and negative bases, given y for the base |x|.
template <class T>
inline Vec<T> with_pow_signs(Vec<T> x, Vec<T> exponent, Vec<T> y) {
  auto integer = trunc(exponent) == exponent;
  auto odd = integer && trunc(exponent * 0.5) * 2 != exponent;
  y = select(signbit(x) && odd, -y, y);
  y = select(x < 0 && x > Vec<T>(-kInf) && !integer, kNaN, y);
  return select(exponent == 0 || x == 1, 1, y);
}

[[gnu::noinline]] inline Vec<double> pow(Vec<double> x, Vec<double> y) {
  Vec<double> a = abs(x);
  Doubled<double> l = log_extended(a);
  auto ordinary = a > 0 && a < kInf;
  l.high = select(ordinary, l.high, with_log_limits(a, a));
  l.low = select(ordinary, l.low, 0);
  Doubled<double> t = product_exact(y, l.high);
  // 1 to an infinite power: log 1 is zero, and so is the product meant to be.
  t.high = select(a == 1, select(isnan(y), y, 0), t.high);
  auto correctable = abs(t.high) < 0x1p20 && a != 1;
  t.low = select(correctable, t.low + y * l.low, 0);
  Vec<double> bounded = clamp_exponent(t.high, -746, 710);
  ExpParts<double> parts = reduce_exp(bounded);
  Vec<double> r = parts.r, rest = parts.residue + t.low;
  Vec<double> tail = r * r * exp_series(r);
  Vec<double> e = 1 + (r + (tail + rest * (1 + (r + tail))));
  return with_pow_signs(x, y, scale(e, parts.n));
}

inline Vec<double> pow_for_float(Vec<double> a, Vec<double> y) {
  Vec<double> log2 = select(a == 0, -kInf, select(a < kInf, log2_short(a), a));
  Vec<double> t = select(a == 1, select(isnan(y), y, 0), y * log2);
  return exp2_short(clamp_exponent(t, -200, 200));
}
[[gnu::noinline]] inline Vec<float> pow(Vec<float> x, Vec<float> y) {
  Vec<float> power =
      through_double([](Vec<double> a, Vec<double> b) { return pow_for_float(a, b); }, abs(x), y);
  return with_pow_signs(x, y, power);
}

// As torch: a negative exponent gives 1 / x^|y| truncated, that is 0 unless x is 1 or -1.
template <Integral T>
inline Vec<T> pow(Vec<T> x, Vec<T> y) {
  Vec<T> result = 1, base = x, left = y;
  if constexpr (std::is_signed_v<T>) left = select(y < 0, 0, y);
  while (any(left != 0)) {
    result = select((left & 1) != 0, result * base, result);
    base = base * base;
    left = left >> 1;
  }
  if constexpr (std::is_signed_v<T>) {
    Vec<T> unit = select(x == 1, 1, select(x == -1, select((y & 1) == 0, Vec<T>(1), -1), 0));
    result = select(y < 0, unit, result);
  }
  return result;
}
template <class T, Number S>
inline Vec<T> pow(Vec<T> x, S y) {
  return pow(x, Vec<T>(y));
}
template <class T, Number S>
inline Vec<T> pow(S x, Vec<T> y) {
  return pow(Vec<T>(x), y);
}

// The larger side is taken out, so that squares neither overflow nor vanish.
inline Vec<double> hypot(Vec<double> x, Vec<double> y) {
  Vec<double> a = abs(x), b = abs(y);
  Vec<double> high = select(a > b, a, b), low = select(a > b, b, a);
  Vec<double> ratio = low / select(high == 0, 1, high);
  Vec<double> r = high * sqrt(1 + ratio * ratio);
  r = select(isnan(a) || isnan(b), kNaN, r);
  return select(isinf(x) || isinf(y), kInf, r);
}
inline Vec<float> hypot(Vec<float> x, Vec<float> y) {
  Vec<float> r =
      through_double([](Vec<double> a, Vec<double> b) { return sqrt(a * a + b * b); }, x, y);
  return select(isinf(x) || isinf(y), Vec<float>(kInf), r);
}

}  // namespace flambeau::FL_ISA
