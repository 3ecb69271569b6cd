// Elementary functions of complex numbers: the C library's, with C's branch cuts and special
// values.
#pragma once
#include "flambeau/kernels/cplx.h"
#include "flambeau/kernels/math_base.h"

namespace flambeau::FL_ISA {

// What the C functions take; std::complex would bring templates that the linker may mix up between
// instruction sets.
inline _Complex float to_c(Cplx<float> x) { return __builtin_bit_cast(_Complex float, x); }
inline _Complex double to_c(Cplx<double> x) { return __builtin_bit_cast(_Complex double, x); }
inline Cplx<float> from_c(_Complex float x) { return {__real__ x, __imag__ x}; }
inline Cplx<double> from_c(_Complex double x) { return {__real__ x, __imag__ x}; }

inline Cplx<float> exp(Cplx<float> x) { return from_c(__builtin_cexpf(to_c(x))); }
inline Cplx<double> exp(Cplx<double> x) { return from_c(__builtin_cexp(to_c(x))); }
inline Cplx<float> log(Cplx<float> x) { return from_c(__builtin_clogf(to_c(x))); }
inline Cplx<double> log(Cplx<double> x) { return from_c(__builtin_clog(to_c(x))); }
inline Cplx<float> sqrt(Cplx<float> x) { return from_c(__builtin_csqrtf(to_c(x))); }
inline Cplx<double> sqrt(Cplx<double> x) { return from_c(__builtin_csqrt(to_c(x))); }
inline Cplx<float> sin(Cplx<float> x) { return from_c(__builtin_csinf(to_c(x))); }
inline Cplx<double> sin(Cplx<double> x) { return from_c(__builtin_csin(to_c(x))); }
inline Cplx<float> cos(Cplx<float> x) { return from_c(__builtin_ccosf(to_c(x))); }
inline Cplx<double> cos(Cplx<double> x) { return from_c(__builtin_ccos(to_c(x))); }
inline Cplx<float> tan(Cplx<float> x) { return from_c(__builtin_ctanf(to_c(x))); }
inline Cplx<double> tan(Cplx<double> x) { return from_c(__builtin_ctan(to_c(x))); }
inline Cplx<float> sinh(Cplx<float> x) { return from_c(__builtin_csinhf(to_c(x))); }
inline Cplx<double> sinh(Cplx<double> x) { return from_c(__builtin_csinh(to_c(x))); }
inline Cplx<float> cosh(Cplx<float> x) { return from_c(__builtin_ccoshf(to_c(x))); }
inline Cplx<double> cosh(Cplx<double> x) { return from_c(__builtin_ccosh(to_c(x))); }
inline Cplx<float> tanh(Cplx<float> x) { return from_c(__builtin_ctanhf(to_c(x))); }
inline Cplx<double> tanh(Cplx<double> x) { return from_c(__builtin_ctanh(to_c(x))); }
inline Cplx<float> asin(Cplx<float> x) { return from_c(__builtin_casinf(to_c(x))); }
inline Cplx<double> asin(Cplx<double> x) { return from_c(__builtin_casin(to_c(x))); }
inline Cplx<float> acos(Cplx<float> x) { return from_c(__builtin_cacosf(to_c(x))); }
inline Cplx<double> acos(Cplx<double> x) { return from_c(__builtin_cacos(to_c(x))); }
inline Cplx<float> atan(Cplx<float> x) { return from_c(__builtin_catanf(to_c(x))); }
inline Cplx<double> atan(Cplx<double> x) { return from_c(__builtin_catan(to_c(x))); }
inline Cplx<float> asinh(Cplx<float> x) { return from_c(__builtin_casinhf(to_c(x))); }
inline Cplx<double> asinh(Cplx<double> x) { return from_c(__builtin_casinh(to_c(x))); }
inline Cplx<float> acosh(Cplx<float> x) { return from_c(__builtin_cacoshf(to_c(x))); }
inline Cplx<double> acosh(Cplx<double> x) { return from_c(__builtin_cacosh(to_c(x))); }
inline Cplx<float> atanh(Cplx<float> x) { return from_c(__builtin_catanhf(to_c(x))); }
inline Cplx<double> atanh(Cplx<double> x) { return from_c(__builtin_catanh(to_c(x))); }

template <class T>
inline Cplx<T> exp2(Cplx<T> x) {
  return exp(x * kLn2);
}
template <class T>
inline Cplx<T> log2(Cplx<T> x) {
  return log(x) * kLog2E;
}
template <class T>
inline Cplx<T> log10(Cplx<T> x) {
  return log(x) * 0x1.bcb7b1526e50ep-2;
}

inline Cplx<float> pow(Cplx<float> x, Cplx<float> y) {
  return from_c(__builtin_cpowf(to_c(x), to_c(y)));
}
inline Cplx<double> pow(Cplx<double> x, Cplx<double> y) {
  return from_c(__builtin_cpow(to_c(x), to_c(y)));
}
template <class T, Number S>
inline Cplx<T> pow(Cplx<T> x, S y) {
  return pow(x, Cplx<T>(y));
}
template <class T, Number S>
inline Cplx<T> pow(S x, Cplx<T> y) {
  return pow(Cplx<T>(x), y);
}

// Kahan's formulas (1987): no cancellation near zero.
template <class T>
inline Cplx<T> expm1(Cplx<T> x) {
  T e = T(__builtin_expm1(x.re)), half = T(__builtin_sin(x.im * T(0.5)));
  return {e * T(__builtin_cos(x.im)) - 2 * half * half, (e + 1) * T(__builtin_sin(x.im))};
}
template <class T>
inline Cplx<T> log1p(Cplx<T> x) {
  T square = x.re * (2 + x.re) + x.im * x.im;
  T real = __builtin_fabs(square) < 0.5 ? T(0.5 * __builtin_log1p(square)) : log(1 + x).re;
  return {real, T(__builtin_atan2(x.im, 1 + x.re))};
}

template <class T>
inline Cplx<T> sigmoid(Cplx<T> x) {
  return 1 / (1 + exp(-x));
}

// The argument in (-pi, pi], as a complex number without imaginary part.
template <class T>
inline Cplx<T> angle(Cplx<T> x) {
  return {T(__builtin_atan2(x.im, x.re)), T(0)};
}
template <class T>
inline bool isnan(Cplx<T> x) {
  return x.re != x.re || x.im != x.im;
}
template <class T>
inline bool isinf(Cplx<T> x) {
  return __builtin_isinf(x.re) || __builtin_isinf(x.im);
}
template <class T>
inline bool isfinite(Cplx<T> x) {
  return __builtin_isfinite(x.re) && __builtin_isfinite(x.im);
}
template <class T>
inline Cplx<T> sinc(Cplx<T> x) {
  Cplx<T> y = x * kPi;
  return x == 0 ? Cplx<T>(1) : sin(y) / y;
}

}  // namespace flambeau::FL_ISA
