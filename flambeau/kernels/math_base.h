// Tools of the elementary functions: polynomials, exact sums and products, powers of two, detours
// through double. Polynomials without a source named are minimax fits (Remez exchange in 200-bit
// arithmetic) made for these files.
#pragma once
#include "flambeau/kernels/simd.h"

namespace flambeau::FL_ISA {

inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kPi = 0x1.921fb54442d18p+1;
inline constexpr double kInf = __builtin_inf();
inline constexpr double kNaN = __builtin_nan("");

template <class T>
inline constexpr bool kIsSingle = std::is_same_v<T, float>;

// c0 + c1 x + c2 x^2 ...
template <class T>
inline Vec<T> polynomial(Vec<T>, double c0) {
  return c0;
}
template <class T, class... C>
inline Vec<T> polynomial(Vec<T> x, double c0, C... more) {
  return fma(polynomial(x, more...), x, Vec<T>(c0));
}

// A value as an unevaluated sum of two: twice the precision (T. J. Dekker 1971).
template <class T>
struct Doubled {
  Vec<T> high, low;
};
// Exact a + b where |a| >= |b| or a is zero.
template <class T>
inline Doubled<T> sum_ordered(Vec<T> a, Vec<T> b) {
  Vec<T> s = a + b;
  return {s, b - (s - a)};
}
// Exact a + b (D. E. Knuth).
template <class T>
inline Doubled<T> sum_exact(Vec<T> a, Vec<T> b) {
  Vec<T> s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
// x without the lower half of its mantissa: products of two such are exact.
template <class T>
inline Vec<T> upper_half(Vec<T> x) {
  if constexpr (kIsSingle<T>)
    return from_bits(bits(x) & int32_t(0xfffff000));
  else
    return from_bits(bits(x) & int64_t(0xfffffffff8000000));
}
// Exact a * b.
template <class T>
inline Doubled<T> product_exact(Vec<T> a, Vec<T> b) {
  Vec<T> p = a * b;
  if constexpr (kFused) {
    return {p, fma(a, b, -p)};
  } else {
    Vec<T> ah = upper_half(a), al = a - ah, bh = upper_half(b), bl = b - bh;
    return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
  }
}

// A value without sign, with the sign of x: one step less than copysign.
template <class T>
inline Vec<T> with_sign_of(Vec<T> x, Vec<T> magnitude) {
  return magnitude | (x & Vec<T>(-0.0));
}

template <int Count, class V>
inline V shift_left(V x) {
  return typename V::Lanes(typename V::Unsigned(x.v) << Count);
}
template <int Count, class V>
inline V shift_right_logical(V x) {
  return typename V::Lanes(typename V::Unsigned(x.v) >> Count);
}

template <class T>
inline constexpr int kMantissaBits = kIsSingle<T> ? 23 : 52;
template <class T>
inline constexpr int kExponentBias = kIsSingle<T> ? 127 : 1023;
// Adding and subtracting it rounds to an integer, which the low bits of the sum hold meanwhile.
template <class T>
inline constexpr double kRounder = kIsSingle<T> ? 0x1.8p23 : 0x1.8p52;

// 2^n for an integer n whose power is a normal number.
template <class T>
inline Vec<T> power_of_two(Vec<T> n) {
  return from_bits(shift_left<kMantissaBits<T>>(bits(n + (kRounder<T> + kExponentBias<T>))));
}

// x * 2^n for an integer n, rounded once, also where the result is subnormal.
template <class T>
inline Vec<T> scale(Vec<T> x, Vec<T> n) {
#if defined(__AVX512F__)
  if constexpr (kIsSingle<T>)
    return Raw<T>(_mm512_scalef_ps(x.v, n.v));
  else
    return Raw<T>(_mm512_scalef_pd(x.v, n.v));
#else
  Vec<T> half = floor(n * 0.5);
  return x * power_of_two(half) * power_of_two(n - half);
#endif
}

// 1 / x to 28 bits at least, for x far from the ends of the exponent range; rounded like a division
// for floats. Where the processor estimates 14 bits, one step of Newton's method is a fraction of a
// division.
template <class T>
inline Vec<T> reciprocal_near(Vec<T> x) {
#if defined(__AVX512F__)
  Vec<T> y;
  if constexpr (kIsSingle<T>)
    y = Raw<T>(_mm512_rcp14_ps(x.v));
  else
    y = Raw<T>(_mm512_rcp14_pd(x.v));
  return fma(y, fma(-x, y, Vec<T>(1)), y);
#else
  return 1 / x;
#endif
}

// The square root to 27 bits; negative numbers have none (NaN).
inline Vec<double> sqrt_near(Vec<double> x) {
#if defined(__AVX512F__)
  Vec<double> y = Raw<double>(_mm512_rsqrt14_pd(x.v)), half = 0.5 * x * y;
  y = fma(half, fma(-y, half, Vec<double>(0.5)), half) * 2;
  return select(x == 0, x, y);
#else
  return sqrt(x);
#endif
}

// f evaluated on doubles, for floats.
template <class F>
inline Vec<float> through_double(F f, Vec<float> x) {
  DoublePair a = widen(x);
  return narrow({f(a.low), f(a.high)});
}
template <class F>
inline Vec<float> through_double(F f, Vec<float> x, Vec<float> y) {
  DoublePair a = widen(x), b = widen(y);
  return narrow({f(a.low, b.low), f(a.high, b.high)});
}

// Whether some |x| is above the limit or NaN: the way to a slow path, so without a detour through a
// Mask.
template <class T>
inline bool any_beyond(Vec<T> x, double limit) {
  Vec<T> a = abs(x);
#if defined(__AVX512F__)
  if constexpr (kIsSingle<T>)
    return _mm512_cmp_ps_mask(a.v, Vec<T>(limit).v, _CMP_NLE_UQ) != 0;
  else
    return _mm512_cmp_pd_mask(a.v, Vec<T>(limit).v, _CMP_NLE_UQ) != 0;
#else
  return any(!(a <= Vec<T>(limit)));
#endif
}

template <class V>
inline auto isnan(V x) {
  return x != x;
}
template <class T>
inline auto isinf(Vec<T> x) {
  return kIsFloat<T> ? abs(x) == Vec<T>(kInf) : typename Vec<T>::Mask(false);
}
template <class T>
inline auto isfinite(Vec<T> x) {
  return kIsFloat<T> ? abs(x) < Vec<T>(kInf) : typename Vec<T>::Mask(true);
}
template <class T>
inline auto signbit(Vec<T> x) {
  if constexpr (kIsFloat<T>)
    return bits(x) < 0;
  else
    return x < 0;
}

}  // namespace flambeau::FL_ISA
