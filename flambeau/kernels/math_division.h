// Division with a rule for the rest: fmod, remainder (the divisor's sign), floor_divide.
#pragma once
#include "flambeau/kernels/math_base.h"

namespace flambeau::FL_ISA {

// x - q y for the truncated q = x / y, exact while q has at most 52 bits: the fused product loses
// nothing. The rounded quotient may be one too large or small.
inline Vec<double> fmod_short(Vec<double> x, Vec<double> y, Vec<double> q) {
  Vec<double> a = abs(x), b = abs(y);
  Vec<double> r = fma(-abs(trunc(q)), b, a);
  r = select(r < 0, r + b, r);
  r = select(r >= b, r - b, r);
  return copysign(r, x);
}
inline Vec<double> fmod(Vec<double> x, Vec<double> y) {
  Vec<double> q = x / y;
  if (!kFused || FL_UNLIKELY(any(!(abs(q) < 0x1p52) || isinf(y)))) {
    return map_lanes([](double a, double b) { return __builtin_fmod(a, b); }, x, y);
  }
  return fmod_short(x, y, q);
}
// Products of a quotient below 2^28 with a float are exact in double, fused or not. A zero divisor
// makes q infinite or NaN, an infinite one makes it 0: both take the slow way with the large
// quotients.
inline Vec<float> fmod(Vec<float> x, Vec<float> y) {
  Vec<float> q = abs(x / y);
  if (FL_UNLIKELY(any(!(q < 0x1p28f) || isinf(y)))) {
    return map_lanes([](float a, float b) { return __builtin_fmodf(a, b); }, x, y);
  }
  return through_double([](Vec<double> a, Vec<double> b) { return fmod_short(a, b, a / b); }, x, y);
}
template <Integral T>
inline Vec<T> fmod(Vec<T> x, Vec<T> y) {
  return x % y;
}

template <class T>
inline Vec<T> remainder(Vec<T> x, Vec<T> y) {
  Vec<T> r = fmod(x, y);
  if constexpr (!std::is_unsigned_v<T>) r = select(r != 0 && (r < 0) != (y < 0), r + y, r);
  return r;
}

// The quotient of x - remainder is nearly an integer already: rounded to the nearest rather than
// down, as Python does.
template <class T>
inline Vec<T> floor_divide(Vec<T> x, Vec<T> y) {
  if constexpr (kIsFloat<T>) {
    Vec<T> r = fmod(x, y), exact = x / y;
    Vec<T> q = (x - r) / y;
    q = select(r != 0 && (r < 0) != (y < 0), q - 1, q);
    Vec<T> low = floor(q);
    low = select(q - low > 0.5, low + 1, low);
    low = select(q == 0, copysign(Vec<T>(0), exact), low);
    return select(y == 0, exact, low);
  } else {
    Vec<T> q = x / y;
    if constexpr (std::is_signed_v<T>) {
      Vec<T> r = x - q * y;
      q = select(y != 0 && r != 0 && (r < 0) != (y < 0), q - 1, q);
    }
    return q;
  }
}

template <class T, Number S>
inline Vec<T> fmod(Vec<T> x, S y) {
  return fmod(x, Vec<T>(y));
}
template <class T, Number S>
inline Vec<T> remainder(Vec<T> x, S y) {
  return remainder(x, Vec<T>(y));
}
template <class T, Number S>
inline Vec<T> floor_divide(Vec<T> x, S y) {
  return floor_divide(x, Vec<T>(y));
}

}  // namespace flambeau::FL_ISA
