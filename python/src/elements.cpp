// Single elements of a tensor's memory, by dtype.
#include "python/src/elements.h"

namespace flambeau::python {
namespace {

template <class T>
T read(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void write(char* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

int64_t integer(const Scalar& s) {
  if (!s.is_complex()) return s.to_int();
  return int64_t(s.to_double());
}

}  // namespace

Scalar load_element(const char* from, DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return Scalar(*from != 0);
    case DType::UInt8:
      return Scalar(read<uint8_t>(from));
    case DType::Int8:
      return Scalar(read<int8_t>(from));
    case DType::Int16:
      return Scalar(read<int16_t>(from));
    case DType::Int32:
      return Scalar(read<int32_t>(from));
    case DType::Int64:
      return Scalar(read<int64_t>(from));
    case DType::UInt16:
      return Scalar(read<uint16_t>(from));
    case DType::UInt32:
      return Scalar(read<uint32_t>(from));
    case DType::UInt64:
      return Scalar(read<uint64_t>(from));
    case DType::Float16:
      return Scalar(to_float(read<Half>(from)));
    case DType::BFloat16:
      return Scalar(to_float(read<BFloat16>(from)));
    case DType::Float32:
      return Scalar(read<float>(from));
    case DType::Float64:
      return Scalar(read<double>(from));
    case DType::Complex64: {
      auto z = read<std::complex<float>>(from);
      return Scalar(std::complex<double>(z));
    }
    default:
      return Scalar(read<std::complex<double>>(from));
  }
}

void store_element(char* to, DType dtype, const Scalar& s) {
  switch (dtype) {
    case DType::Bool:
      write(to, uint8_t(s.to_bool()));
      break;
    case DType::UInt8:
      write(to, uint8_t(integer(s)));
      break;
    case DType::Int8:
      write(to, int8_t(integer(s)));
      break;
    case DType::Int16:
      write(to, int16_t(integer(s)));
      break;
    case DType::Int32:
      write(to, int32_t(integer(s)));
      break;
    case DType::Int64:
      write(to, integer(s));
      break;
    case DType::UInt16:
      write(to, uint16_t(integer(s)));
      break;
    case DType::UInt32:
      write(to, uint32_t(integer(s)));
      break;
    case DType::UInt64:
      write(to,
            s.is_float() && s.to_double() >= 0 ? uint64_t(s.to_double()) : uint64_t(integer(s)));
      break;
    case DType::Float16:
      write(to, to_half(float(s.to_double())));
      break;
    case DType::BFloat16:
      write(to, to_bfloat16(float(s.to_double())));
      break;
    case DType::Float32:
      write(to, float(s.to_double()));
      break;
    case DType::Float64:
      write(to, s.to_double());
      break;
    case DType::Complex64:
      write(to, std::complex<float>(s.to_complex()));
      break;
    case DType::Complex128:
      write(to, s.to_complex());
      break;
  }
}

Tensor scalar_tensor(const Scalar& value, DType dtype) {
  Tensor t = new_tensor({}, dtype);
  store_element(t->data, dtype, value);
  return t;
}

Tensor number_tensor(const Scalar& value) {
  Tensor t = scalar_tensor(value, value.dtype());
  t->is_number = true;
  return t;
}

}  // namespace flambeau::python
