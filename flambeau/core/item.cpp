// Reading one value.
#include <complex>

#include "flambeau/core/tensor.h"

namespace flambeau {

Scalar Tensor::item() const {
  FL_CHECK(numel() == 1, RuntimeError, "item: a tensor with one element is needed, got shape {}",
           sizes());
  FL_CHECK(!(p_->flags & kBatched), RuntimeError,
           "item: inside vmap a tensor has one value per example; a condition or number cannot "
           "depend on it, use where(...) or stay with tensors");
  check_elements("item", *this);
  FL_CHECK(device().type != DeviceType::Meta, RuntimeError, "item: a meta tensor has no values");
  switch (dtype()) {
    case DType::Bool:
      return Scalar(*data<bool>());
    case DType::UInt8:
      return Scalar(*data<uint8_t>());
    case DType::Int8:
      return Scalar(*data<int8_t>());
    case DType::Int16:
      return Scalar(*data<int16_t>());
    case DType::Int32:
      return Scalar(*data<int32_t>());
    case DType::Int64:
      return Scalar(*data<int64_t>());
    case DType::UInt16:
      return Scalar(*data<uint16_t>());
    case DType::UInt32:
      return Scalar(*data<uint32_t>());
    case DType::UInt64:
      return Scalar(*data<uint64_t>());
    case DType::Float16:
      return Scalar(to_float(*data<Half>()));
    case DType::BFloat16:
      return Scalar(to_float(*data<BFloat16>()));
    case DType::Float32:
      return Scalar(*data<float>());
    case DType::Float64:
      return Scalar(*data<double>());
    case DType::Complex64:
      return Scalar(std::complex<double>(*data<std::complex<float>>()));
    case DType::Complex128:
      return Scalar(*data<std::complex<double>>());
  }
  return Scalar();
}

}  // namespace flambeau
