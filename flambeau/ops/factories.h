// Making tensors: factories with options, flambeau::tensor({1, 2, 3}), and
// short names of dtypes and devices.
#pragma once
#include <initializer_list>
#include <vector>

#include "flambeau/core/promote.h"
#include "flambeau/generated/ops.h"

namespace flambeau {

inline constexpr DType kBool = DType::Bool, kByte = DType::UInt8, kChar = DType::Int8;
inline constexpr DType kShort = DType::Int16, kInt = DType::Int32, kLong = DType::Int64;
inline constexpr DType kHalf = DType::Float16, kBFloat16 = DType::BFloat16;
inline constexpr DType kFloat = DType::Float32, kDouble = DType::Float64;
inline constexpr DType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt;
inline constexpr DType kInt64 = kLong, kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble;
inline constexpr Device kCPU{DeviceType::CPU};

// What a factory is told beside the size: zeros({2, 3}, {.dtype = kDouble,
// .requires_grad = true}).
struct TensorOptions {
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
  bool requires_grad = false;
};

namespace detail {
inline Tensor finished(Tensor t, const TensorOptions& options) {
  if (options.requires_grad) t.set_requires_grad();
  return t;
}
}  // namespace detail

using ops::arange;
using ops::empty;
using ops::eye;
using ops::full;
using ops::ones;
using ops::rand;
using ops::randint;
using ops::randn;
using ops::randperm;
using ops::zeros;

inline Tensor empty(IntList size, const TensorOptions& o) {
  return detail::finished(ops::empty(size, o.dtype, {}, o.device), o);
}
inline Tensor zeros(IntList size, const TensorOptions& o) {
  return detail::finished(ops::zeros(size, o.dtype, {}, o.device), o);
}
inline Tensor ones(IntList size, const TensorOptions& o) {
  return detail::finished(ops::ones(size, o.dtype, {}, o.device), o);
}
inline Tensor rand(IntList size, const TensorOptions& o) {
  return detail::finished(ops::rand(size, o.dtype, {}, o.device), o);
}
inline Tensor randn(IntList size, const TensorOptions& o) {
  return detail::finished(ops::randn(size, o.dtype, {}, o.device), o);
}
inline Tensor full(IntList size, const Scalar& value, const TensorOptions& o) {
  return detail::finished(ops::full(size, value, o.dtype, {}, o.device), o);
}
inline Tensor eye(int64_t n, const TensorOptions& o) {
  return detail::finished(ops::eye(n, o.dtype, {}, o.device), o);
}
inline Tensor arange(const Scalar& end, const TensorOptions& o) {
  return detail::finished(ops::arange(end, o.dtype, {}, o.device), o);
}

namespace detail {
// Whole numbers are int64 and fractions the default dtype, as in Python; sized
// C++ types are kept only by from_data.
template <class T>
DType literal_dtype() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::Bool;
  else if constexpr (std::is_integral_v<T>)
    return DType::Int64;
  else
    return std::is_floating_point_v<T> ? default_dtype() : default_complex();
}
FL_API Tensor copied(const void* data, DType of, IntList sizes, DType dtype, Device device);

template <class T>
Tensor from_values(const T* data, IntList sizes, const TensorOptions& o) {
  DType dtype = o.dtype.value_or(literal_dtype<T>());
  return finished(copied(data, kDTypeOf<T>, sizes, dtype, o.device.value_or(default_device())), o);
}
}  // namespace detail

template <class T>
requires(kDTypeOf<T> != DType::Bool || std::is_same_v<T, bool>) Tensor
    tensor(T value, const TensorOptions& options = {}) {
  return detail::from_values(&value, {}, options);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return detail::from_values(values.begin(), {int64_t(values.size())}, options);
}
template <class T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return detail::from_values(values.data(), {int64_t(values.size())}, options);
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
              const TensorOptions& options = {}) {
  std::vector<T> values;
  int64_t columns = rows.size() ? int64_t(rows.begin()->size()) : 0;
  for (const auto& row : rows) {
    FL_CHECK(int64_t(row.size()) == columns, ValueError,
             "tensor: all rows must have {} values, got one of {}", columns, row.size());
    values.insert(values.end(), row.begin(), row.end());
  }
  return detail::from_values(values.data(), {int64_t(rows.size()), columns}, options);
}

// A copy of memory, in the dtype of its elements unless told otherwise.
template <class T>
Tensor from_data(const T* data, IntList sizes, const TensorOptions& options = {}) {
  TensorOptions o = options;
  if (!o.dtype) o.dtype = kDTypeOf<T>;
  return detail::from_values(data, sizes, o);
}

}  // namespace flambeau
