// Element<dtype>: an element's storage, the type that arithmetic on it happens in, and the
// conversions. For kernels that add or compare single elements. Only for FL_ISA sources.
#pragma once
#include <type_traits>

#include "flambeau/core/dtype.h"
#include "flambeau/kernels/cplx.h"
#include "flambeau/kernels/halves.h"

namespace flambeau::FL_ISA {

template <class T, DType D>
struct Element {
  using Storage = T;
  using Wide = ComputeOf<T>;
  static constexpr bool is_bool = D == DType::Bool;
  static constexpr bool is_half = kIsHalf<T>;
  static constexpr bool is_complex = flambeau::is_complex(D);
  static Wide load(T x) {
    if constexpr (is_half) {
      return widen_one(x);
    } else {
      return x;
    }
  }
  // Rounds once.
  static T store(Wide x) {
    if constexpr (is_half) {
      return narrow_one<T>(x);
    } else {
      return x;
    }
  }
};

// Calls f(Element{}). Bool is told from uint8, which stores it, by the dtype.
template <class F>
inline void with_element(DType t, const F& f) {
  switch (t) {
    case DType::Bool:
      return f(Element<uint8_t, DType::Bool>{});
    case DType::UInt8:
      return f(Element<uint8_t, DType::UInt8>{});
    case DType::Int8:
      return f(Element<int8_t, DType::Int8>{});
    case DType::Int16:
      return f(Element<int16_t, DType::Int16>{});
    case DType::Int32:
      return f(Element<int32_t, DType::Int32>{});
    case DType::Int64:
      return f(Element<int64_t, DType::Int64>{});
    case DType::UInt16:
      return f(Element<uint16_t, DType::UInt16>{});
    case DType::UInt32:
      return f(Element<uint32_t, DType::UInt32>{});
    case DType::UInt64:
      return f(Element<uint64_t, DType::UInt64>{});
    case DType::Float16:
      return f(Element<Half, DType::Float16>{});
    case DType::BFloat16:
      return f(Element<BFloat16, DType::BFloat16>{});
    case DType::Float32:
      return f(Element<float, DType::Float32>{});
    case DType::Float64:
      return f(Element<double, DType::Float64>{});
    case DType::Complex64:
      return f(Element<Cplx<float>, DType::Complex64>{});
    case DType::Complex128:
      return f(Element<Cplx<double>, DType::Complex128>{});
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

}  // namespace flambeau::FL_ISA
