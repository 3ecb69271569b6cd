// A Python number on its way into an op: kept as a number down to the kernel, never a 0-d tensor.
#pragma once
#include <complex>
#include <type_traits>

#include "flambeau/core/dtype.h"

namespace flambeau {

class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, UInt, Double, Complex };

  Scalar() : Scalar(int64_t{0}) {}
  Scalar(bool v) : kind_(Kind::Bool) { v_.i = v; }
  Scalar(double v) : kind_(Kind::Double) { v_.d = v; }
  Scalar(float v) : Scalar(double(v)) {}
  Scalar(std::complex<double> v) : imag_(v.imag()), kind_(Kind::Complex) { v_.d = v.real(); }
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Scalar(T v)
      : kind_(std::is_same_v<T, uint64_t> && int64_t(v) < 0 ? Kind::UInt : Kind::Int) {
    v_.i = int64_t(v);
  }

  Kind kind() const { return kind_; }
  bool is_bool() const { return kind_ == Kind::Bool; }
  bool is_integer() const { return kind_ == Kind::Int || kind_ == Kind::UInt; }
  bool is_float() const { return kind_ == Kind::Double; }
  bool is_complex() const { return kind_ == Kind::Complex; }

  // The value as a plain type. Fractions are cut, imaginary parts dropped: the caller has checked.
  double to_double() const {
    return kind_ >= Kind::Double ? v_.d
           : kind_ == Kind::UInt ? double(uint64_t(v_.i))
                                 : double(v_.i);
  }
  int64_t to_int() const { return kind_ >= Kind::Double ? int64_t(v_.d) : v_.i; }
  bool to_bool() const { return kind_ >= Kind::Double ? v_.d != 0 || imag_ != 0 : v_.i != 0; }
  std::complex<double> to_complex() const { return {to_double(), imag_}; }

  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>)
      return to_bool();
    else if constexpr (std::is_integral_v<T>)
      return T(to_int());
    else if constexpr (std::is_floating_point_v<T>)
      return T(to_double());
    else
      return T(to_complex());
  }

  // The dtype a tensor made of this number has (floats: the default dtype is the caller's
  // business).
  DType dtype() const {
    constexpr DType of[] = {DType::Bool, DType::Int64, DType::UInt64, DType::Float64,
                            DType::Complex128};
    return of[int(kind_)];
  }

 private:
  union {
    int64_t i;
    double d;
  } v_;
  double imag_ = 0;
  Kind kind_;
};

}  // namespace flambeau
