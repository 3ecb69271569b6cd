// Cplx<T>: a complex number as a "vector" of one lane, so that the bodies written for Vec compile
// on it. The memory is std::complex's, whose templates a source compiled per instruction set must
// not use.
#pragma once
#include "flambeau/kernels/simd.h"

namespace flambeau::FL_ISA {

template <class T>
struct Cplx {
  using Scalar = Cplx;
  using Real = T;
  using Mask = bool;
  static constexpr int kLanes = 1;
  T re, im;

  Cplx() = default;
  template <Number S>
  Cplx(S real) : re(T(real)), im(0) {}
  Cplx(T real, T imaginary) : re(real), im(imaginary) {}

  static Cplx load(const Cplx* p) { return *p; }
  static Cplx load_partial(const Cplx* p, int64_t) { return *p; }
  void store(Cplx* p) const { *p = *this; }
  void store_partial(Cplx* p, int64_t) const { *p = *this; }

  friend Cplx operator+(Cplx a, Cplx b) { return {a.re + b.re, a.im + b.im}; }
  friend Cplx operator-(Cplx a, Cplx b) { return {a.re - b.re, a.im - b.im}; }
  friend Cplx operator-(Cplx a) { return {-a.re, -a.im}; }
  friend Cplx operator+(Cplx a) { return a; }
  friend Cplx operator*(Cplx a, Cplx b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  // Robert L. Smith 1962: divides by the larger part first, so that squares cannot overflow.
  friend Cplx operator/(Cplx a, Cplx b) {
    if (__builtin_fabs(b.re) >= __builtin_fabs(b.im)) {
      if (b.re == 0 && b.im == 0) return {a.re / T(0), a.im / T(0)};
      T ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);
      return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    T ratio = b.re / b.im, scale = 1 / (b.re * ratio + b.im);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
  }
  Cplx& operator+=(Cplx b) { return *this = *this + b; }
  Cplx& operator-=(Cplx b) { return *this = *this - b; }
  Cplx& operator*=(Cplx b) { return *this = *this * b; }
  Cplx& operator/=(Cplx b) { return *this = *this / b; }

  friend bool operator==(Cplx a, Cplx b) { return a.re == b.re && a.im == b.im; }
  friend bool operator!=(Cplx a, Cplx b) { return !(a == b); }
  // Complex numbers have no order. Formulas shared with real types compare real parts; the ops
  // refuse at the door.
  friend bool operator<(Cplx a, Cplx b) { return a.re < b.re; }
  friend bool operator<=(Cplx a, Cplx b) { return a.re <= b.re; }
  friend bool operator>(Cplx a, Cplx b) { return a.re > b.re; }
  friend bool operator>=(Cplx a, Cplx b) { return a.re >= b.re; }
  friend Cplx select(bool m, Cplx a, Cplx b) { return m ? a : b; }

  friend Cplx fma(Cplx a, Cplx b, Cplx c) { return a * b + c; }
  friend Cplx conj(Cplx a) { return {a.re, -a.im}; }
  // Real results keep the type, with no imaginary part; a loop whose output is real stores the real
  // part.
  friend Cplx real(Cplx a) { return {a.re, T(0)}; }
  friend Cplx imag(Cplx a) { return {a.im, T(0)}; }
  friend Cplx abs(Cplx a) {
    if constexpr (sizeof(T) == 4) return {__builtin_hypotf(a.re, a.im), T(0)};
    return {T(__builtin_hypot(a.re, a.im)), T(0)};
  }
};

inline bool any(bool m) { return m; }
inline bool all(bool m) { return m; }
template <Number T>
inline T select(bool m, T a, T b) {
  return m ? a : b;
}

// The type of the parts of a number.
template <class T>
struct RealOfType {
  using type = T;
};
template <class T>
struct RealOfType<Cplx<T>> {
  using type = T;
};
template <class T>
using RealOf = typename RealOfType<T>::type;

}  // namespace flambeau::FL_ISA
