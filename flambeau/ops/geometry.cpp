// In-place forms of views: self becomes a view of what it was, its history included.
#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

void set_geometry(Tensor& self, IntList sizes, IntList strides, int64_t offset) {
  Ints new_sizes(sizes), new_strides(strides);  // they may be self's own
  copy_dims(self.impl(), new_sizes, new_strides);
  self->data =
      self->storage->data ? self->storage->data + offset * itemsize(self.dtype()) : nullptr;
  self->meta_offset = offset;
  self->refresh();
}

Tensor& become(Tensor& self, const Tensor& view) {
  set_geometry(self, view.sizes(), view.strides(), view->offset());
  if (view->grad_fn && view->grad_fn != self->grad_fn) {
    view->grad_fn->incref();
    attach(self, view->grad_fn);
  }
  return self;
}

}  // namespace

Tensor& squeeze_into(Tensor& self) { return become(self, squeeze(self)); }
Tensor& squeeze_into(Tensor& self, int64_t dim) { return become(self, squeeze(self, dim)); }
Tensor& squeeze_into(Tensor& self, IntList dim) { return become(self, squeeze(self, dim)); }
Tensor& unsqueeze_into(Tensor& self, int64_t dim) { return become(self, unsqueeze(self, dim)); }
Tensor& transpose_into(Tensor& self, int64_t dim0, int64_t dim1) {
  return become(self, transpose(self, dim0, dim1));
}
Tensor& t_into(Tensor& self) { return become(self, t(self)); }
Tensor& as_strided_into(Tensor& self, IntList size, IntList stride,
                        std::optional<int64_t> storage_offset) {
  return become(self, as_strided(self, size, stride, storage_offset));
}

Tensor& detach_into(Tensor& self) {
  FL_CHECK(!self->base || !self.requires_grad(), RuntimeError,
           "detach_: a view cannot be detached in place; use detach()");
  if (self->grad_fn) leave_node(self.impl());
  self->flags &= uint8_t(~kRequiresGrad);
  return self;
}

// ---- other memory or another size ----

namespace {

void check_resize(std::string_view op, const Tensor& self, IntList size) {
  FL_CHECK(!self.requires_grad(), RuntimeError,
           "{}: a tensor of shape {} that requires grad cannot be resized", op, self.sizes());
  for (int64_t n : size)
    FL_CHECK(n >= 0, RuntimeError, "{}: sizes must not be negative, got {}", op, size);
}

Ints strides_in(IntList size, std::optional<MemoryFormat> format) {
  MemoryFormat want = format.value_or(MemoryFormat::Contiguous);
  FL_CHECK(want != MemoryFormat::Preserve, RuntimeError,
           "resize_: memory_format must not be preserve_format");
  if (want == MemoryFormat::Contiguous) return contiguous_strides(size);
  int64_t dims = want == MemoryFormat::ChannelsLast ? 4 : 5;
  FL_CHECK(int64_t(size.size()) == dims, RuntimeError,
           "resize_: channels last needs {} dims, got {}", dims, size);
  return channels_last_strides(size);
}

void need_storage(Tensor& self, int64_t offset, int64_t elements) {
  if (!elements) return;
  int64_t bytes = mul_sat(add_sat(offset, elements), itemsize(self.dtype()));
  grow_storage(self, size_t(bytes));
}

}  // namespace

Tensor& resize_into(Tensor& self, IntList size, std::optional<MemoryFormat> memory_format) {
  check_resize("resize_", self, size);
  Ints strides = strides_in(size, memory_format);
  if (self.sizes() == size && !memory_format) return self;
  int64_t offset = self->offset();
  need_storage(self, offset, numel_of(size));
  set_geometry(self, size, strides, offset);
  return self;
}

Tensor& resize_as_into(Tensor& self, const Tensor& the_template,
                       std::optional<MemoryFormat> memory_format) {
  if (memory_format.value_or(MemoryFormat::Contiguous) != MemoryFormat::Preserve)
    return resize_into(self, the_template.sizes(), memory_format);
  resize_into(self, the_template.sizes(), std::nullopt);
  Tensor like = new_like(the_template, DType::Bool);
  set_geometry(self, the_template.sizes(), like.strides(), self->offset());
  return self;
}

namespace {

void take_storage(Tensor& self, const Tensor& source) {
  FL_CHECK(self.dtype() == source.dtype(), RuntimeError,
           "set_: source must have self's dtype {}, got {}", self.dtype(), source.dtype());
  FL_CHECK(!self.requires_grad(), RuntimeError,
           "set_: a tensor of shape {} that requires grad cannot get other memory", self.sizes());
  if (TensorImpl* base = std::exchange(self->base, nullptr)) base->decref();
  Tensor fresh = alias(source);
  std::swap(self->storage, fresh->storage);
  std::swap(self->counter, fresh->counter);
}

}  // namespace

Tensor& set_into(Tensor& self, const Tensor& source) {
  int64_t offset = source->offset();
  take_storage(self, source);
  set_geometry(self, source.sizes(), source.strides(), offset);
  return self;
}

Tensor& set_into(Tensor& self, const Tensor& source, int64_t storage_offset, IntList size,
                 IntList stride) {
  FL_CHECK(storage_offset >= 0, RuntimeError, "set_: storage_offset must not be negative, got {}",
           storage_offset);
  Ints strides = stride.empty() && !size.empty() ? contiguous_strides(size) : Ints(stride);
  FL_CHECK(strides.size() == size.size(), RuntimeError,
           "set_: sizes and strides must be as many, got {} and {}", size, stride);
  take_storage(self, source);
  int64_t last = 1;
  for (size_t d = 0; d < size.size(); d++) last += (size[d] - 1) * strides[d];
  need_storage(self, storage_offset, numel_of(size) ? last : 0);
  set_geometry(self, size, strides, storage_offset);
  return self;
}

Tensor& set_into(Tensor& self) {
  return set_into(self, new_tensor({0}, self.dtype(), self.device()));
}

}  // namespace flambeau::ops
