// Elements chosen by a mask: masked_fill, masked_select, masked_scatter, nonzero.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/indices.h"
#include "flambeau/ops/operators.h"

namespace flambeau::ops {

namespace {

void check_mask(std::string_view op, const Tensor& mask, bool bytes = false) {
  FL_CHECK(mask.dtype() == DType::Bool || (bytes && mask.dtype() == DType::UInt8), RuntimeError,
           "{}: mask must be bool, got {}", op, mask.dtype());
}

void check_value(const Tensor& self, const Scalar& value) {
  FL_CHECK(!value.is_complex() || is_complex(self.dtype()), RuntimeError,
           "masked_fill: {} does not fit in {}", value, self.dtype());
}

void check_value(const Tensor& self, const Tensor& value) {
  FL_CHECK(value.ndim() == 0, RuntimeError,
           "masked_fill: value must be a number or a 0-d tensor, got shape {}", value.sizes());
  FL_CHECK(!is_complex(value.dtype()) || is_complex(self.dtype()), RuntimeError,
           "masked_fill: a value of {} does not fit in {}", value.dtype(), self.dtype());
}

template <class V>
Tensor fill(const Tensor& self, const Tensor& mask, const V& value) {
  check_mask("masked_fill", mask);
  check_value(self, value);
  return _masked_fill(self, mask, value);
}

template <class V>
Tensor& fill_in_place(Tensor& self, const Tensor& mask, const V& value) {
  check_mask("masked_fill_", mask);
  check_value(self, value);
  uint32_t& version = self->counter->version;
  Restore<uint32_t> kept(version, version);  // the machinery counts the write, not the op inside
  return _masked_fill_(self, mask, value);
}

// Broadcast to `sizes` and contiguous.
Tensor spread(const Tensor& x, IntList sizes) {
  return x.sizes() == sizes ? dense(x) : base_copy(x, sizes);
}

struct Blocks {  // how many true elements each block of a mask has
  std::vector<int64_t> counts;
  int64_t total;

  Blocks(DType dtype, const void* x, int64_t n)
      : counts(size_t(compact_blocks(n))),
        total(count_nonzero_blocks(dtype, x, n, counts.data())) {}
};

}  // namespace

Tensor masked_fill_impl(const Tensor& self, const Tensor& mask, const Scalar& value) {
  return fill(self, mask, value);
}
Tensor masked_fill_impl(const Tensor& self, const Tensor& mask, const Tensor& value) {
  return fill(self, mask, value);
}
Tensor& masked_fill_into(Tensor& self, const Tensor& mask, const Scalar& value) {
  return fill_in_place(self, mask, value);
}
Tensor& masked_fill_into(Tensor& self, const Tensor& mask, const Tensor& value) {
  return fill_in_place(self, mask, value);
}

Tensor masked_select_impl(const Tensor& self, const Tensor& mask) {
  check_mask("masked_select", mask, true);
  FL_CHECK(has_memory(self) && has_memory(mask), NotImplementedError,
           "masked_select: how many elements are selected is not known on the meta device");
  Ints sizes = broadcast_sizes("masked_select", {&self, &mask});
  Tensor flags = spread(as_bool(mask), sizes), x = spread(self, sizes);
  const auto* bytes = flags.data<uint8_t>();
  Blocks blocks(DType::Bool, bytes, flags.numel());
  Tensor result = new_tensor({blocks.total}, self.dtype(), self.device());
  if (blocks.total) {
    masked_select_items(itemsize(x.dtype()), x->data, bytes, flags.numel(), blocks.counts.data(),
                        result->data);
  }
  return result;
}

Ints masked_scatter_shape(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check_mask("masked_scatter", mask, true);
  FL_CHECK(self.dtype() == source.dtype(), RuntimeError,
           "masked_scatter: source must have self's dtype {}, got {}", self.dtype(),
           source.dtype());
  return broadcast_sizes("masked_scatter", {&self, &mask});
}

void masked_scatter_kernel(Tensor& result, const Tensor& mask, const Tensor& source) {
  check_unshared("masked_scatter", result);
  Ints sizes = broadcast_sizes("masked_scatter", {&result, &mask});
  FL_CHECK(result.sizes() == IntList(sizes), RuntimeError,
           "masked_scatter_: mask of shape {} does not broadcast to {}", mask.sizes(),
           result.sizes());
  Tensor flags = spread(as_bool(mask), sizes), from = dense(source);
  if (memory_overlap(result, from) != Overlap::None) from = base_copy(from, from.sizes());
  const auto* bytes = flags.data<uint8_t>();
  Blocks blocks(DType::Bool, bytes, flags.numel());
  FL_CHECK(blocks.total <= from.numel(), RuntimeError,
           "masked_scatter: the mask selects {} elements, source has {}", blocks.total,
           from.numel());
  if (blocks.total == 0) return;
  write_dense(result, [&](const Tensor& x) {
    masked_scatter_items(itemsize(x.dtype()), x->data, bytes, x.numel(), blocks.counts.data(),
                         from->data);
  });
}

Tensor nonzero_impl(const Tensor& self) {
  FL_CHECK(has_memory(self), NotImplementedError,
           "nonzero: how many elements are not zero is not known on the meta device");
  Tensor x = dense(self);
  Blocks blocks(x.dtype(), x->data, x.numel());
  Tensor result = new_tensor({blocks.total, x.ndim()}, DType::Int64, x.device());
  if (result.numel()) {
    nonzero_coords(x.dtype(), x->data, int(x.ndim()), x->sizes, blocks.counts.data(),
                   result.data<int64_t>());
  }
  return result;
}

Tensor argwhere_impl(const Tensor& self) { return nonzero(self); }

std::vector<Tensor> nonzero_numpy_impl(const Tensor& self) {
  return unbind(nonzero(self.ndim() ? self : reshape(self, {1})), 1);
}

std::vector<Tensor> where_impl(const Tensor& condition) { return nonzero_numpy(condition); }

Tensor nonzero_static_impl(const Tensor& self, int64_t size, int64_t fill_value) {
  FL_CHECK(size >= 0, RuntimeError, "nonzero_static: size must not be negative, got {}", size);
  Tensor result = new_tensor({size, self.ndim()}, DType::Int64, self.device());
  fill_into(result, Scalar(fill_value));
  if (!has_memory(self)) return result;
  Tensor found = nonzero_impl(self);
  int64_t kept = std::min(size, found.size(0));
  Ints sizes{kept, self.ndim()};
  Geometry place{sizes, Ints(result.strides()), 0}, part{sizes, Ints(found.strides()), 0};
  copy_elements(alias(result, place), alias(found, part));
  return result;
}

}  // namespace flambeau::ops
