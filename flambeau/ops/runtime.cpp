// Making results, writing into existing tensors, views.
#include "flambeau/ops/runtime.h"

#include <cmath>
#include <cstring>

namespace flambeau {

DType promoted_dtype(Inputs inputs) {
  ResultType type;
  for (const Tensor* t : inputs) {
    if (t->defined()) type.add(*t);
  }
  return type.get();
}

double largest_number(DType dtype) {
  constexpr DType kFloats[] = {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};
  constexpr double kLargest[] = {65504, 0x1.fep127, 0x1.fffffep127, 0x1.fffffffffffffp1023};
  for (int i = 0; i < 4; i++)
    if (kFloats[i] == real_of(dtype)) return kLargest[i];
  int bits = int(8 * itemsize(dtype)) - (info(dtype).category == 'i');
  return dtype == DType::Bool ? 1 : std::ldexp(1.0, bits) - (bits < 53);
}

void check_fits(std::string_view op, const Scalar& value, DType dtype) {
  FL_CHECK(is_complex(dtype) || !value.is_complex() || value.to_complex().imag() == 0, RuntimeError,
           "{}: {} does not fit in {}", op, value, dtype);
  if (dtype == DType::Bool) return;
  double x = value.to_double(), limit = largest_number(dtype);
  bool fits = is_inexact(dtype) ? !(std::fabs(x) > limit) || std::isinf(x)
                                : x <= limit && x >= -limit - (info(dtype).category == 'i');
  FL_CHECK(fits, RuntimeError, "{}: {} does not fit in {}", op, value, dtype);
}

Tensor dense_copy(const Tensor& t) {
  Tensor copy = new_tensor(t.sizes(), t.dtype(), t.device());
  copy_elements(copy, t);
  return copy;
}

Tensor base_copy(const Tensor& base, IntList sizes) {
  Tensor copy = new_tensor(sizes, base.dtype(), base.device());
  copy_elements(copy, base);
  return copy;
}

Tensor make_view(const Tensor& of, const Geometry& geometry) {
  Tensor view = alias(of, geometry);
  if (tls.inference) return view;
  view->base = of->base ? of->base : of.impl();
  view->base->incref();
  view->history = view->base->history;
  if (!tls.grad || (of->flags & kNoGradView)) view->flags |= kNoGradView;
  return view;
}

Tensor make_view_as(const Tensor& of, DType dtype, const Geometry& geometry) {
  Tensor view = make_view(of, {Ints(of.sizes()), Ints(of.strides()), of->offset()});
  view->dtype = dtype;
  copy_dims(view.impl(), geometry.sizes, geometry.strides);
  view->refresh();
  view->meta_offset = geometry.offset;
  return view;
}

std::vector<Tensor> make_views(const Tensor& of, const std::vector<Geometry>& geometries) {
  std::vector<Tensor> views;
  views.reserve(geometries.size());
  for (const Geometry& g : geometries) {
    views.push_back(make_view(of, g));
    if (of.requires_grad() && tls.grad) meta_of(views.back().impl()).view_of_multi = true;
  }
  return views;
}

void check_unshared(std::string_view op, const Tensor& written) {
  FL_CHECK(!has_internal_overlap(written), RuntimeError,
           "{}: the written tensor is expanded, several of its elements share memory (sizes {}, "
           "strides {}); clone it first",
           op, written.sizes(), written.strides());
}

void write_into(std::string_view op, const Tensor& self, const Tensor& value) {
  FL_CHECK(can_cast(value.dtype(), self.dtype()), RuntimeError,
           "{}: the result is {} and does not fit in {}", op, value.dtype(), self.dtype());
  FL_CHECK(value.sizes() == self.sizes(), RuntimeError,
           "{}: the result has shape {}, the written tensor has {}", op, value.sizes(),
           self.sizes());
  check_unshared(op, self);
  copy_elements(self, value);
}

namespace {

void check_out_kind(std::string_view op, const Tensor& t) {
  if (!t.defined() || !(t->flags & kSlow)) return;
  FL_CHECK(!(t->flags & kBatched), RuntimeError, "{}: out= cannot be used inside vmap", op);
  FL_CHECK(!is_foreign(t), NotImplementedError,
           "{}: out= cannot be used with tensors whose class has __torch_dispatch__", op);
  FL_CHECK(!(t->flags & kSparse), NotImplementedError,
           "{}: out= cannot be used with sparse tensors", op);
}

void check_out_grad(std::string_view op, const Tensor& t, std::string_view who) {
  FL_CHECK(!tls.grad || !t.defined() || !t.requires_grad(), RuntimeError,
           "{}: out= does not record a gradient, but {} requires one; use no_grad or drop out=", op,
           who);
}

void check_out_memory(std::string_view op, const Tensor& out, const Tensor& input, bool may_be) {
  if (!input.defined()) return;
  Overlap o = memory_overlap(out, input);
  FL_CHECK(o != Overlap::Partial && (o != Overlap::Same || may_be), RuntimeError,
           "{}: out shares memory with an input (shapes {} and {}), which would change while it is "
           "read; use another tensor for out",
           op, out.sizes(), input.sizes());
}

}  // namespace

void check_out(std::string_view op, Inputs outs, Out rule, std::initializer_list<OutInput> inputs) {
  for (const Tensor* out : outs) {
    check_out_kind(op, *out);
    check_out_grad(op, *out, "out");
    if (rule != Out::Anywhere) check_unshared(op, *out);
  }
  FL_CHECK(!(tls.mode & kModeRecord), NotImplementedError,
           "{}: out= cannot be recorded; use the result", op);
  for (const OutInput& input : inputs) {
    bool may_be = rule == Out::Aligned || (rule == Out::Based && &input == inputs.begin());
    for (const Tensor& t : input.tensors) {
      check_out_kind(op, t);
      check_out_grad(op, t, "an input");
      if (rule == Out::Anywhere) continue;
      for (const Tensor* out : outs) check_out_memory(op, *out, t, may_be);
    }
  }
}

void grow_storage(Tensor& self, size_t bytes) {
  Storage* old = self->storage;
  if (old->bytes >= bytes) return;
  if (old->refs.load() == 1) return resize_storage(*old, bytes);
  Tensor own = new_tensor({int64_t(bytes)}, DType::UInt8, self.device());
  if (own->data && old->data) std::memcpy(own->data, old->data, old->bytes);
  if (TensorImpl* base = std::exchange(self->base, nullptr)) base->decref();
  std::swap(self->storage, own->storage);
  std::swap(self->counter, own->counter);
}

void resize_out(std::string_view, Tensor& out, IntList sizes) {
  if (out.sizes() == sizes) return;
  int64_t numel = numel_of(sizes);
  size_t need = size_t(numel * itemsize(out.dtype()));
  size_t start = size_t(out->offset() * itemsize(out.dtype()));
  grow_storage(out, start + need);
  Ints strides = contiguous_strides(sizes);
  copy_dims(out.impl(), sizes, strides);
  out->data = out->storage->data ? out->storage->data + start : nullptr;
  out->refresh();
}

Tensor& give_out(std::string_view op, Tensor& out, const Tensor& value, bool cast) {
  if (!cast) {
    FL_CHECK(out.dtype() == value.dtype(), RuntimeError, "{}: out must be {}, got {}", op,
             value.dtype(), out.dtype());
  }
  FL_CHECK(can_cast(value.dtype(), out.dtype()), RuntimeError,
           "{}: the result is {} and does not fit in out of {}", op, value.dtype(), out.dtype());
  FL_CHECK(out.device() == value.device(), RuntimeError, "{}: out is on {}, the inputs on {}", op,
           out.device(), value.device());
  resize_out(op, out, value.sizes());
  write_into(op, out, value);
  out->bump_version();
  return out;
}

}  // namespace flambeau
