// Which C++ type stands behind a dtype, for the two files of distributions.
#pragma once
#include <complex>

#include "flambeau/core/check.h"
#include "flambeau/core/dtype.h"

namespace flambeau {

inline double to_double(Half x) { return to_float(x); }
inline double to_double(BFloat16 x) { return to_float(x); }
template <class T>
double to_double(T x) {
  return double(x);
}

// A double becomes a half by way of float, as in torch.
template <class T>
T element(double x) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(float(x));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(float(x));
  else
    return T(x);
}

// Calls body(T{}) with a value of the dtype's type, for its type alone.
template <class F>
bool visit_float(DType dtype, const F& body) {
  switch (dtype) {
    case DType::Float16:
      return body(Half{}), true;
    case DType::BFloat16:
      return body(BFloat16{}), true;
    case DType::Float32:
      return body(float{}), true;
    case DType::Float64:
      return body(double{}), true;
    default:
      return false;
  }
}

template <class F>
bool visit_integer(DType dtype, const F& body) {
  switch (dtype) {
    case DType::Bool:
      return body(bool{}), true;
    case DType::UInt8:
      return body(uint8_t{}), true;
    case DType::Int8:
      return body(int8_t{}), true;
    case DType::Int16:
      return body(int16_t{}), true;
    case DType::Int32:
      return body(int32_t{}), true;
    case DType::Int64:
      return body(int64_t{}), true;
    case DType::UInt16:
      return body(uint16_t{}), true;
    case DType::UInt32:
      return body(uint32_t{}), true;
    case DType::UInt64:
      return body(uint64_t{}), true;
    default:
      return false;
  }
}

[[noreturn]] inline void refuse(const char* op, DType dtype) {
  fail<NotImplementedError>("{}: not defined for dtype {}", op, dtype);
}

}  // namespace flambeau
