// Copies, casts, fills and moves between devices.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

Tensor like_in(const Tensor& self, DType dtype, Device device, std::optional<MemoryFormat> format) {
  MemoryFormat want = format.value_or(MemoryFormat::Preserve);
  if (want == MemoryFormat::Preserve) {
    if (device == self.device()) return new_like(self, dtype);
    Tensor shape = new_like(self, dtype);  // the order of dims, on another device
    return new_strided(self.sizes(), shape.strides(), dtype, device);
  }
  if (want == MemoryFormat::Contiguous) return new_tensor(self.sizes(), dtype, device);
  int64_t dims = want == MemoryFormat::ChannelsLast ? 4 : 5;
  FL_CHECK(self.ndim() == dims, RuntimeError, "memory_format: channels last needs {} dims, got {}",
           dims, self.sizes());
  return new_strided(self.sizes(), channels_last_strides(self.sizes()), dtype, device);
}

void check_device_exists(Device device) {
  FL_CHECK(device.type != DeviceType::CUDA, RuntimeError,
           "device: cuda is not available in this build");
  FL_CHECK(device.type != DeviceType::Fake || device.index <= 0, RuntimeError,
           "device: there is one fake device, got {}", device);
}

Device resolved(Device device) {
  check_device_exists(device);
  if (device.type == DeviceType::Fake) device.index = 0;
  if (device.type == DeviceType::CPU || device.type == DeviceType::Meta) device.index = -1;
  return device;
}

Tensor convert(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device,
               bool copy, std::optional<MemoryFormat> format) {
  DType to_dtype = dtype.value_or(self.dtype());
  Device to_device = device ? resolved(*device) : self.device();
  bool laid_out = !format || *format == MemoryFormat::Preserve ||
                  is_contiguous_as(self.sizes(), self.strides(), *format);
  if (!copy && to_dtype == self.dtype() && to_device == self.device() && laid_out) return self;
  return _to_copy(self, to_dtype, to_device, format);
}

}  // namespace

Tensor clone_impl(const Tensor& self, std::optional<MemoryFormat> memory_format) {
  Tensor copy = like_in(self, self.dtype(), self.device(), memory_format);
  copy_elements(copy, self);
  return copy;
}

Tensor contiguous_impl(const Tensor& self, MemoryFormat memory_format) {
  if (memory_format == MemoryFormat::Preserve ||
      is_contiguous_as(self.sizes(), self.strides(), memory_format))
    return self;
  return clone(self, memory_format);
}

Tensor detach_impl(const Tensor& self) { return alias(self); }

Tensor& copy_into(Tensor& self, const Tensor& src, bool) {
  FL_CHECK(IntList(broadcast_sizes("copy_", {&self, &src})) == self.sizes(), RuntimeError,
           "copy_: the source of shape {} does not broadcast to {}", src.sizes(), self.sizes());
  check_unshared("copy_", self);
  FL_CHECK(self.device().type == DeviceType::Meta || src.device().type != DeviceType::Meta,
           RuntimeError, "copy_: a meta tensor has no values to copy to {}", self.device());
  Overlap o = memory_overlap(self, src);
  if (o == Overlap::Same) return self;
  Tensor from = o == Overlap::None ? src : clone_impl(src, std::nullopt);
  if (from->data) copy_elements(self, from);
  return self;
}

namespace {

// Elements of expanded dims share memory: one of them stands for all.
Tensor distinct_elements(const Tensor& t) {
  Geometry one{t.sizes(), t.strides(), t->offset()};
  for (size_t d = 0; d < one.sizes.size(); d++)
    if (one.strides[d] == 0 && one.sizes[d] > 1) one.sizes[d] = 1;
  return alias(t, one);
}

}  // namespace

Tensor& fill_into(Tensor& self, const Scalar& value) {
  Tensor one = new_tensor({}, value.dtype(), Device{});
  switch (value.kind()) {
    case Scalar::Kind::Complex:
      *one.data<std::complex<double>>() = value.to_complex();
      break;
    case Scalar::Kind::Double:
      *one.data<double>() = value.to_double();
      break;
    case Scalar::Kind::Bool:
      *one.data<bool>() = value.to_bool();
      break;
    default:
      *one.data<int64_t>() = value.to_int();
  }
  check_fits("fill_", value, self.dtype());
  if (self->data) copy_elements(has_internal_overlap(self) ? distinct_elements(self) : self, one);
  return self;
}

Tensor& fill_into(Tensor& self, const Tensor& value) {
  FL_CHECK(value.ndim() == 0, RuntimeError,
           "fill_: the value must be a number or a 0-d tensor, got shape {}", value.sizes());
  return copy_into(self, value, false);
}

Tensor fill_impl(const Tensor& self, const Scalar& value) {
  Tensor result = new_like(self, self.dtype());
  return fill_into(result, value);
}

Tensor fill_impl(const Tensor& self, const Tensor& value) {
  Tensor result = new_like(self, self.dtype());
  return fill_into(result, value);
}

Tensor& zero_into(Tensor& self) { return fill_into(self, Scalar(false)); }

Tensor to_copy_impl(const Tensor& self, DType dtype, Device device,
                    std::optional<MemoryFormat> memory_format) {
  FL_CHECK(device.type == DeviceType::Meta || self.device().type != DeviceType::Meta,
           NotImplementedError, "to: a meta tensor has no values to copy to {}; use empty_like",
           device);
  Tensor copy = like_in(self, dtype, resolved(device), memory_format);
  if (copy->data) copy_elements(copy, self);
  return copy;
}

Tensor to_impl(const Tensor& self, DType dtype, bool, bool copy,
               std::optional<MemoryFormat> memory_format) {
  return convert(self, dtype, std::nullopt, copy, memory_format);
}
Tensor to_impl(const Tensor& self, Device device, std::optional<DType> dtype, bool, bool copy,
               std::optional<MemoryFormat> memory_format) {
  return convert(self, dtype, device, copy, memory_format);
}
Tensor to_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device, bool,
               bool copy, std::optional<MemoryFormat> memory_format) {
  return convert(self, dtype, device, copy, memory_format);
}
Tensor to_impl(const Tensor& self, const Tensor& other, bool, bool copy,
               std::optional<MemoryFormat> memory_format) {
  return convert(self, other.dtype(), other.device(), copy, memory_format);
}

Tensor as_strided_scatter_impl(const Tensor& self, const Tensor& src, IntList size, IntList stride,
                               std::optional<int64_t> storage_offset) {
  FL_CHECK(src.sizes() == size, RuntimeError, "as_strided_scatter: src has shape {}, the view {}",
           src.sizes(), size);
  Tensor copy = clone_impl(self, MemoryFormat::Preserve);
  Tensor view = as_strided(copy, size, stride, storage_offset);
  if (view->data) copy_elements(view, src);
  return copy;
}

Tensor bitwise_not_impl(const Tensor& self) {
  return self.dtype() == DType::Bool ? logical_not(self) : _bitwise_not(self);
}

Tensor conj_impl(const Tensor& self) {
  return is_complex(self.dtype()) ? conj_physical(self) : self;
}

Tensor sum_to_size_impl(const Tensor& self, IntList size) {
  int64_t extra = self.ndim() - int64_t(size.size());
  bool fits = extra >= 0;
  for (size_t d = 0; fits && d < size.size(); d++) {
    fits = size[d] == 1 || size[d] == self.size(int64_t(d) + extra);
  }
  FL_CHECK(fits, RuntimeError, "sum_to_size: {} cannot be summed to {}", self.sizes(), size);
  Ints dims;
  for (int64_t d = 0; d < self.ndim(); d++) {
    if (d < extra || (size[size_t(d - extra)] == 1 && self.size(d) != 1)) dims.push_back(d);
  }
  if (size.empty()) return sum(self);
  if (dims.empty()) return self;
  Tensor summed = sum(self, IntList(dims), true);
  return extra ? reshape(summed, size) : summed;
}

}  // namespace flambeau::ops
