// Element types as the data-moving kernels see them: plain items of 1, 2, 4, 8 or 16 bytes where
// values do not matter, and Element<dtype> (storage, arithmetic type, conversions) where they do.
// Only for FL_ISA sources.
#pragma once
#include <cstring>
#include <type_traits>

#include "flambeau/core/dtype.h"
#include "flambeau/core/threadpool.h"

namespace flambeau::FL_ISA {

// Two words, not __int128: complex128 data is aligned to 8 bytes only.
struct Item16 {
  uint64_t low, high;
};

template <class T>
inline T least(T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T most(T a, T b) {
  return a < b ? b : a;
}

// Calls f(T{}) with T an item type of `itemsize` bytes.
template <class F>
inline void with_item(int64_t itemsize, const F& f) {
  switch (itemsize) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(Item16{});
  }
}

// std::complex would bring weak std:: symbols into these sources.
template <class T>
struct Pair {
  T re, im;
  friend Pair operator+(Pair a, Pair b) { return {a.re + b.re, a.im + b.im}; }
  friend Pair operator*(Pair a, Pair b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

// Wide is what arithmetic happens in; storing rounds once.
template <class T, DType D>
struct Same {
  using Storage = T;
  using Wide = T;
  static constexpr DType dtype = D;
  static constexpr bool is_bool = D == DType::Bool;
  static constexpr bool is_half = false;
  static constexpr bool is_complex = flambeau::is_complex(D);
  static T load(T x) { return x; }
  static T store(T x) { return x; }
};

template <DType D>
struct Element;
template <>
struct Element<DType::Bool> : Same<uint8_t, DType::Bool> {};
template <>
struct Element<DType::UInt8> : Same<uint8_t, DType::UInt8> {};
template <>
struct Element<DType::Int8> : Same<int8_t, DType::Int8> {};
template <>
struct Element<DType::Int16> : Same<int16_t, DType::Int16> {};
template <>
struct Element<DType::Int32> : Same<int32_t, DType::Int32> {};
template <>
struct Element<DType::Int64> : Same<int64_t, DType::Int64> {};
template <>
struct Element<DType::UInt16> : Same<uint16_t, DType::UInt16> {};
template <>
struct Element<DType::UInt32> : Same<uint32_t, DType::UInt32> {};
template <>
struct Element<DType::UInt64> : Same<uint64_t, DType::UInt64> {};
template <>
struct Element<DType::Float32> : Same<float, DType::Float32> {};
template <>
struct Element<DType::Float64> : Same<double, DType::Float64> {};
template <>
struct Element<DType::Complex64> : Same<Pair<float>, DType::Complex64> {};
template <>
struct Element<DType::Complex128> : Same<Pair<double>, DType::Complex128> {};

// The conversions of dtype.h again: a copy of those compiled here must not serve an older CPU.
template <>
struct Element<DType::Float16> {
  using Storage = uint16_t;
  using Wide = float;
  static constexpr DType dtype = DType::Float16;
  static constexpr bool is_bool = false, is_half = true, is_complex = false;
  static float load(uint16_t bits) {
    _Float16 h;
    __builtin_memcpy(&h, &bits, 2);
    return float(h);
  }
  static uint16_t store(float x) {
    _Float16 h = _Float16(x);
    uint16_t bits;
    __builtin_memcpy(&bits, &h, 2);
    return bits;
  }
};

template <>
struct Element<DType::BFloat16> {
  using Storage = uint16_t;
  using Wide = float;
  static constexpr DType dtype = DType::BFloat16;
  static constexpr bool is_bool = false, is_half = true, is_complex = false;
  static float load(uint16_t bits) {
    uint32_t u = uint32_t(bits) << 16;
    float f;
    __builtin_memcpy(&f, &u, 4);
    return f;
  }
  static uint16_t store(float x) {
    uint32_t u;
    __builtin_memcpy(&u, &x, 4);
    if ((u & 0x7fffffff) > 0x7f800000) return 0x7fc0;  // a NaN must not round to infinity
    return uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
};

// Calls f(Element<dtype>{}).
template <class F>
inline void with_element(DType t, const F& f) {
  switch (t) {
    case DType::Bool:
      return f(Element<DType::Bool>{});
    case DType::UInt8:
      return f(Element<DType::UInt8>{});
    case DType::Int8:
      return f(Element<DType::Int8>{});
    case DType::Int16:
      return f(Element<DType::Int16>{});
    case DType::Int32:
      return f(Element<DType::Int32>{});
    case DType::Int64:
      return f(Element<DType::Int64>{});
    case DType::UInt16:
      return f(Element<DType::UInt16>{});
    case DType::UInt32:
      return f(Element<DType::UInt32>{});
    case DType::UInt64:
      return f(Element<DType::UInt64>{});
    case DType::Float16:
      return f(Element<DType::Float16>{});
    case DType::BFloat16:
      return f(Element<DType::BFloat16>{});
    case DType::Float32:
      return f(Element<DType::Float32>{});
    case DType::Float64:
      return f(Element<DType::Float64>{});
    case DType::Complex64:
      return f(Element<DType::Complex64>{});
    case DType::Complex128:
      return f(Element<DType::Complex128>{});
  }
}

// Integers wrap in tensor arithmetic; in C++ a signed overflow is undefined, an unsigned one is
// not.
template <class T>
inline T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return T(uint64_t(a) + uint64_t(b));
  } else {
    return a + b;
  }
}
template <class T>
inline T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return T(uint64_t(a) * uint64_t(b));
  } else {
    return a * b;
  }
}

// Wraps a negative index; the range was checked before.
inline int64_t wrap(int64_t index, int64_t size) { return index + (size & (index >> 63)); }

}  // namespace flambeau::FL_ISA
