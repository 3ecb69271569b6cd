// Arithmetic written with symbols, for derivatives, composites and C++ programs.
#pragma once
#include "flambeau/generated/ops.h"

namespace flambeau {

inline Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
inline Tensor operator+(const Tensor& a, const Scalar& b) { return ops::add(a, b); }
inline Tensor operator+(const Scalar& a, const Tensor& b) { return ops::add(b, a); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return ops::sub(a, b); }
inline Tensor operator-(const Tensor& a, const Scalar& b) { return ops::sub(a, b); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return ops::rsub(b, a); }
inline Tensor operator-(const Tensor& a) { return ops::neg(a); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return ops::mul(a, b); }
inline Tensor operator*(const Tensor& a, const Scalar& b) { return ops::mul(a, b); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return ops::mul(b, a); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return ops::div(a, b); }
inline Tensor operator/(const Tensor& a, const Scalar& b) { return ops::div(a, b); }
inline Tensor operator/(const Scalar& a, const Tensor& b) {
  return ops::mul(ops::reciprocal(b), a);
}
inline Tensor operator>(const Tensor& a, const Tensor& b) { return ops::gt(a, b); }
inline Tensor operator>(const Tensor& a, const Scalar& b) { return ops::gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ops::ge(a, b); }
inline Tensor operator>=(const Tensor& a, const Scalar& b) { return ops::ge(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return ops::lt(a, b); }
inline Tensor operator<(const Tensor& a, const Scalar& b) { return ops::lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return ops::le(a, b); }
inline Tensor operator<=(const Tensor& a, const Scalar& b) { return ops::le(a, b); }
inline Tensor operator==(const Tensor& a, const Tensor& b) { return ops::eq(a, b); }
inline Tensor operator==(const Tensor& a, const Scalar& b) { return ops::eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ops::ne(a, b); }
inline Tensor operator!=(const Tensor& a, const Scalar& b) { return ops::ne(a, b); }
inline Tensor operator&&(const Tensor& a, const Tensor& b) { return ops::logical_and(a, b); }
inline Tensor operator||(const Tensor& a, const Tensor& b) { return ops::logical_or(a, b); }
inline Tensor operator!(const Tensor& a) { return ops::logical_not(a); }

// x += y writes x in place; x may be a part of another tensor: x[0] += 1.
template <class T>
concept TensorPlace = std::same_as<std::remove_cvref_t<T>, Tensor>;
template <TensorPlace T, class B>
T&& operator+=(T&& a, const B& b) {
  ops::add_(const_cast<Tensor&>(a), b);
  return std::forward<T>(a);
}
template <TensorPlace T, class B>
T&& operator-=(T&& a, const B& b) {
  ops::sub_(const_cast<Tensor&>(a), b);
  return std::forward<T>(a);
}
template <TensorPlace T, class B>
T&& operator*=(T&& a, const B& b) {
  ops::mul_(const_cast<Tensor&>(a), b);
  return std::forward<T>(a);
}
template <TensorPlace T, class B>
T&& operator/=(T&& a, const B& b) {
  ops::div_(const_cast<Tensor&>(a), b);
  return std::forward<T>(a);
}

// Numbers inside formulas.
inline Scalar conj(const Scalar& a) {
  return a.is_complex() ? Scalar(std::conj(a.to_complex())) : a;
}
template <class F>
Scalar combine(const Scalar& a, const Scalar& b, F f) {
  if (a.is_complex() || b.is_complex()) return Scalar(f(a.to_complex(), b.to_complex()));
  return Scalar(f(a.to_double(), b.to_double()));
}
inline Scalar operator+(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return x + y; });
}
inline Scalar operator-(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return x - y; });
}
inline Scalar operator*(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return x * y; });
}
inline Scalar operator/(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return x / y; });
}
inline Scalar operator-(const Scalar& a) { return Scalar(int64_t{0}) - a; }

}  // namespace flambeau
