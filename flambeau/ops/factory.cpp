// Tensors from nothing.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

void check_strided(std::string_view op, std::optional<Layout> layout) {
  FL_CHECK(!layout || *layout == Layout::Strided, NotImplementedError,
           "{}: only strided tensors can be made here", op);
}

Tensor filled(Tensor t, const Scalar& value) {
  fill_into(t, value);
  return t;
}

Tensor like(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device,
            std::optional<MemoryFormat> format) {
  DType type = dtype.value_or(self.dtype());
  if ((!device || *device == self.device()) &&
      format.value_or(MemoryFormat::Preserve) == MemoryFormat::Preserve) {
    return new_like(self, type);
  }
  Tensor shape = new_like(self, type);
  Device where = device.value_or(self.device());
  MemoryFormat want = format.value_or(MemoryFormat::Preserve);
  if (want == MemoryFormat::Contiguous) return new_tensor(self.sizes(), type, where);
  if (want == MemoryFormat::Preserve)
    return new_strided(self.sizes(), shape.strides(), type, where);
  return new_strided(self.sizes(), channels_last_strides(self.sizes()), type, where);
}

}  // namespace

Tensor empty_impl(IntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                  std::optional<Device> device, std::optional<bool>,
                  std::optional<MemoryFormat> memory_format) {
  check_strided("empty", layout);
  DType type = dtype.value_or(default_dtype());
  Device where = device.value_or(default_device());
  MemoryFormat format = memory_format.value_or(MemoryFormat::Contiguous);
  if (format == MemoryFormat::Contiguous || format == MemoryFormat::Preserve)
    return new_tensor(size, type, where);
  return new_strided(size, channels_last_strides(size), type, where);
}

Tensor full_impl(IntList size, const Scalar& fill_value, std::optional<DType> dtype,
                 std::optional<Layout> layout, std::optional<Device> device, std::optional<bool>) {
  check_strided("full", layout);
  DType natural = fill_value.is_complex() ? default_complex()
                  : fill_value.is_float() ? default_dtype()
                                          : fill_value.dtype();
  return filled(new_tensor(size, dtype.value_or(natural), device.value_or(default_device())),
                fill_value);
}

Tensor zeros_impl(IntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                  std::optional<Device> device, std::optional<bool>) {
  check_strided("zeros", layout);
  return filled(
      new_tensor(size, dtype.value_or(default_dtype()), device.value_or(default_device())),
      Scalar(false));
}

Tensor zeros_like_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>,
                       std::optional<Device> device, std::optional<bool>,
                       std::optional<MemoryFormat> memory_format) {
  return filled(like(self, dtype, device, memory_format), Scalar(false));
}

Tensor ones_like_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>,
                      std::optional<Device> device, std::optional<bool>,
                      std::optional<MemoryFormat> memory_format) {
  return filled(like(self, dtype, device, memory_format), Scalar(true));
}

}  // namespace flambeau::ops
