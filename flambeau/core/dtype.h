// The element types and what is known of each. Promotion between them is in promote.h.
#pragma once
#include <complex>
#include <cstring>
#include <string_view>

#include "flambeau/core/config.h"

namespace flambeau {

enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt16,
  UInt32,
  UInt64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128,
};
inline constexpr int kDTypes = 15;

// Storage of the half types. Arithmetic happens in float: kernels widen on load and round on store.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float to_float(BFloat16 x) {
  uint32_t bits = uint32_t(x.bits) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

inline BFloat16 to_bfloat16(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  if ((u & 0x7fffffff) > 0x7f800000) return {0x7fc0};  // a NaN must not round to infinity
  return {uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}

inline float to_float(Half x) {
  _Float16 h;
  std::memcpy(&h, &x, 2);
  return float(h);
}

inline Half to_half(float f) {
  _Float16 h = _Float16(f);
  Half x;
  std::memcpy(&x, &h, 2);
  return x;
}

struct DTypeInfo {
  std::string_view name;
  uint8_t size;   // bytes of one element
  char category;  // b bool, u unsigned, i signed, f float, c complex
};

inline constexpr DTypeInfo kDTypeInfo[kDTypes] = {
    {"bool", 1, 'b'},    {"uint8", 1, 'u'},     {"int8", 1, 'i'},       {"int16", 2, 'i'},
    {"int32", 4, 'i'},   {"int64", 8, 'i'},     {"uint16", 2, 'u'},     {"uint32", 4, 'u'},
    {"uint64", 8, 'u'},  {"float16", 2, 'f'},   {"bfloat16", 2, 'f'},   {"float32", 4, 'f'},
    {"float64", 8, 'f'}, {"complex64", 8, 'c'}, {"complex128", 16, 'c'}};

// Kernels use these two: an unoptimised build must not leave a copy that instruction sets would
// share.
[[gnu::always_inline]] constexpr const DTypeInfo& info(DType t) { return kDTypeInfo[int(t)]; }
constexpr std::string_view name(DType t) { return info(t).name; }
[[gnu::always_inline]] constexpr int64_t itemsize(DType t) { return info(t).size; }
constexpr bool is_float(DType t) { return info(t).category == 'f'; }
constexpr bool is_complex(DType t) { return info(t).category == 'c'; }
constexpr bool is_inexact(DType t) { return is_float(t) || is_complex(t); }  // can carry a gradient
constexpr bool is_integer(DType t) { return info(t).category == 'i' || info(t).category == 'u'; }
constexpr bool is_half(DType t) { return t == DType::Float16 || t == DType::BFloat16; }
// The real type behind a complex one; every other type is its own.
constexpr DType real_of(DType t) {
  return t == DType::Complex64 ? DType::Float32 : t == DType::Complex128 ? DType::Float64 : t;
}

template <class T>
inline constexpr DType kDTypeOf = DType::Bool;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::UInt8;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::Int8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::Int16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::Int32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::Int64;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::UInt16;
template <>
inline constexpr DType kDTypeOf<uint32_t> = DType::UInt32;
template <>
inline constexpr DType kDTypeOf<uint64_t> = DType::UInt64;
template <>
inline constexpr DType kDTypeOf<Half> = DType::Float16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::BFloat16;
template <>
inline constexpr DType kDTypeOf<float> = DType::Float32;
template <>
inline constexpr DType kDTypeOf<double> = DType::Float64;
template <>
inline constexpr DType kDTypeOf<std::complex<float>> = DType::Complex64;
template <>
inline constexpr DType kDTypeOf<std::complex<double>> = DType::Complex128;

}  // namespace flambeau
