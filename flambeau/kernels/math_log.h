// Logarithms and what is made of them: log, log2, log10, log1p, asinh, acosh, atanh.
#pragma once
#include "flambeau/kernels/math_base.h"

namespace flambeau::FL_ISA {

// log x = k ln 2 + f + rest, where x = 2^k (1 + f), for positive finite x.
template <class T>
struct LogParts {
  Vec<T> k, f, rest;
};

// 1 + f lies in [top / 2, top).
template <class T>
inline LogParts<T> split_log(Vec<T> x, double top) {
#if defined(__AVX512F__)
  Vec<T> m, k;
  if constexpr (kIsSingle<T>) {
    m = Raw<T>(_mm512_getmant_ps(x.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src));
    k = Raw<T>(_mm512_getexp_ps(x.v));
  } else {
    m = Raw<T>(_mm512_getmant_pd(x.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src));
    k = Raw<T>(_mm512_getexp_pd(x.v));
  }
  auto high = m >= Vec<T>(top);
  return {select(high, k + 1, k), select(high, m * 0.5, m) - 1, Vec<T>(0)};
#else
  constexpr int mantissa = kMantissaBits<T>;
  constexpr double smallest = kIsSingle<T> ? 0x1p-126 : 0x1p-1022;
  auto subnormal = x < Vec<T>(smallest);
  x = select(subnormal, x * (kIsSingle<T> ? 0x1p23 : 0x1p52), x);
  IntVec<T> bias = bits(Vec<T>(1));
  IntVec<T> shifted = bits(x) - bits(Vec<T>(top * 0.5)) + bias;
  IntVec<T> exponent = shift_right_logical<mantissa>(shifted);
  // The exponent becomes a number as the low bits of 2^mantissa.
  constexpr double rounder = kIsSingle<T> ? 0x1p23 : 0x1p52;
  Vec<T> k = from_bits(exponent | bits(Vec<T>(rounder))) - (rounder + kExponentBias<T>);
  Vec<T> m = from_bits(bits(x) - (shift_left<mantissa>(exponent) - bias));
  return {select(subnormal, k - mantissa, k), m - 1, Vec<T>(0)};
#endif
}

// (log(1 + f) - f) / f^2 for floats, times the scale.
inline Vec<float> log_series(Vec<float> f, double scale) {
  Vec<float> p = polynomial(f, 0.33333216 * scale, -0.249997979 * scale, 0.200104054 * scale,
                            -0.166804798 * scale, 0.140058789 * scale, -0.121843589 * scale,
                            0.139843811 * scale, -0.12891284 * scale);
  return fma(f, p, Vec<float>(-0.5 * scale));
}

// The interval around 1 is where the series in use is shortest.
template <class T>
inline constexpr double kLogTop = kIsSingle<T> ? 4.0 / 3 : 0x1.6a09e667f3bcdp+0;
template <class T>
inline LogParts<T> reduce_log(Vec<T> x) {
  LogParts<T> parts = split_log(x, kLogTop<T>);
  Vec<T> f = parts.f;
  if constexpr (kIsSingle<T>) {
    parts.rest = f * f * log_series(f, 1);
  } else {
    // With s = f / (2 + f), log(1 + f) is odd in s: f - f^2/2 + s (f^2/2 + R(s^2)), as in fdlibm
    // (Sun 1993).
    Vec<T> s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
    Vec<T> r = z * polynomial(z, 0.66666666666667351, 0.39999999999411168, 0.28571428743244109,
                              0.22222198478031382, 0.18183569627196017, 0.15313906272464872,
                              0.1479747614335345);
    parts.rest = s * (half_square + r) - half_square;
  }
  return parts;
}

// k ln 2 + f + rest. k times the high part of ln 2 is exact, and so is its sum with f.
template <class T>
inline Vec<T> join_log(const LogParts<T>& parts) {
  constexpr double high = kIsSingle<T> ? 0x1.62e4p-1 : 0x1.62e42fefp-1;
  constexpr double low = kIsSingle<T> ? 0x1.7f7d1cf79abcap-20 : 0x1.473de6af278edp-34;
  Doubled<T> s = sum_ordered(parts.k * high, parts.f);
  return s.high + (s.low + fma(parts.k, Vec<T>(low), parts.rest));
}

// y, but -inf where x is 0, NaN where x is below, and x itself where it is infinite or NaN.
template <class T>
inline Vec<T> with_log_limits(Vec<T> x, Vec<T> y) {
#if defined(__AVX512F__)
  // One digit per class of x, the last for quiet NaN: 0 keeps y, 2 is x's NaN, 3 NaN, 4 and 5 the
  // infinities.
  constexpr int answers = 0x03530422;
  if constexpr (kIsSingle<T>) {
    return Raw<T>(_mm512_fixupimm_ps(y.v, x.v, _mm512_set1_epi32(answers), 0));
  } else {
    return Raw<T>(_mm512_fixupimm_pd(y.v, x.v, _mm512_set1_epi64(answers), 0));
  }
#else
  Vec<T> limit = select(x == 0, -kInf, select(x < 0, kNaN, x));
  return select(x > 0 && x < Vec<T>(kInf), y, limit);
#endif
}

template <Floating T>
inline Vec<T> log(Vec<T> x) {
  return with_log_limits(x, join_log(reduce_log(x)));
}

// A logarithm's constants: 1 / ln(base) and log_base(2), the high part of the latter so short that
// its products are exact.
struct LogBase {
  double high, low, two_high, two_low;
};

// Of the product with 1 / ln(base) only that of f needs more digits than a number has.
template <class T>
inline Vec<T> log_of_base(Vec<T> x, LogBase base) {
  LogParts<T> parts = kIsSingle<T> ? split_log(x, kLogTop<T>) : reduce_log(x);
  Vec<T> f = parts.f;
  Doubled<T> product = product_exact(f, Vec<T>(base.high));
  Doubled<T> s = sum_ordered(parts.k * base.two_high, product.high);
  Vec<T> low = fma(f, Vec<T>(base.low), s.low + product.low);
  if (base.two_low != 0) low = fma(parts.k, Vec<T>(base.two_low), low);
  if constexpr (kIsSingle<T>)
    low = fma(f * f, log_series(f, base.high), low);
  else
    low = fma(parts.rest, Vec<T>(base.high), low);
  return with_log_limits(x, s.high + low);
}
template <Floating T>
inline Vec<T> log2(Vec<T> x) {
  if constexpr (kIsSingle<T>)
    return log_of_base(x, {0x1.715476p+0, 0x1.4ae0bf85ddf44p-26, 1, 0});
  else
    return log_of_base(x, {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, 1, 0});
}
template <Floating T>
inline Vec<T> log10(Vec<T> x) {
  if constexpr (kIsSingle<T>) {
    return log_of_base(x, {0x1.bcb7b20000000p-2, -0x1.5b235e39ab2a9p-27, 0x1.3440000000000p-2,
                           0x1.3509f79fef312p-18});
  } else {
    return log_of_base(x, {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f8000p-2,
                           -0x1.80433b83b532ap-44});
  }
}

// log(u) plus the part of 1 + x that u = fl(1 + x) lost, divided by u.
template <Floating T>
inline Vec<T> log1p(Vec<T> x) {
  Doubled<T> u = sum_exact(Vec<T>(1), x);
  LogParts<T> parts = reduce_log(u.high);
  parts.rest = parts.rest + u.low / u.high;
  Vec<T> y = with_log_limits(u.high, join_log(parts));
  return select(abs(x) < Vec<T>(kIsSingle<T> ? 0x1p-25 : 0x1p-54), x, y);
}

// Where adding 1 changes nothing log1p(x) is log(x), and the ln 2 of 2x is added apart: 2x might
// overflow.
inline Vec<double> log1p_or_log_of_twice(Vec<double> x, Vec<double> small) {
  auto large = x > 0x1p54;
  return log1p(select(large, x, small)) + select(large, Vec<double>(kLn2), 0);
}

[[gnu::noinline]] inline Vec<double> asinh(Vec<double> x) {
  Vec<double> a = abs(x), square = a * a;
  Vec<double> y = log1p_or_log_of_twice(a, a + square / (1 + sqrt(1 + square)));
  return copysign(y, x);
}
[[gnu::noinline]] inline Vec<double> acosh(Vec<double> x) {
  Vec<double> t = x - 1;
  Vec<double> y = log1p_or_log_of_twice(x, t + sqrt(t * (x + 1)));
  return select(x < 1, kNaN, y);
}
[[gnu::noinline]] inline Vec<double> atanh(Vec<double> x) {
  Vec<double> a = abs(x);
  return copysign(0.5 * log1p(2 * a / (1 - a)), x);
}
}  // namespace flambeau::FL_ISA
