// Making, sharing and dropping TensorImpls, and what follows from sizes and strides.
#include "flambeau/core/tensor.h"

#include <new>

#include "flambeau/core/pool.h"
#include "flambeau/core/saturate.h"

namespace flambeau {

constinit CoreHooks core_hooks;

namespace {

TensorImpl* blank() { return new (take_block(tls.tensors, sizeof(TensorImpl))) TensorImpl; }

void free_dims(TensorImpl* t) {
  if (t->sizes != t->inline_) delete[] t->sizes;
}

// Contiguous strides in place; returns the number of elements.
int64_t fill_contiguous(TensorImpl* t) {
  int64_t step = 1;
  for (int d = t->ndim - 1; d >= 0; d--) {
    t->strides[d] = step;
    step = mul_sat(step, t->sizes[d] > 1 ? t->sizes[d] : 1);
  }
  int64_t numel = 1;
  for (int d = 0; d < t->ndim; d++) numel = mul_sat(numel, t->sizes[d]);
  return numel;
}

void give_memory(TensorImpl* t, size_t bytes) {
  t->storage = t->counter = new_storage(bytes, t->device);
  t->data = t->storage->data;
  if (FL_UNLIKELY(tls.inference)) t->flags |= kInference;
}

Device resolve(Device device) {
  if (device.type == DeviceType::Fake && device.index < 0) device.index = 0;
  return device;
}

}  // namespace

void TensorImpl::reserve_dims(int count) {
  FL_CHECK(count <= kMaxDims, RuntimeError, "tensor: at most {} dims are supported, got {}",
           kMaxDims, count);
  int64_t* fresh = count <= kInlineDims ? inline_ : new int64_t[2 * count];
  free_dims(this);
  sizes = fresh;
  strides = fresh + (count <= kInlineDims ? kInlineDims : count);
  ndim = uint8_t(count);
}

void TensorImpl::refresh() {
  numel = 1;
  bool overflow = false;
  for (int d = 0; d < ndim; d++)
    overflow = __builtin_mul_overflow(numel, sizes[d], &numel) || overflow;
  if (FL_UNLIKELY(overflow)) numel = numel_of(IntList(sizes, size_t(ndim)));
  int64_t step = 1;
  bool dense = true;
  for (int d = ndim - 1; d >= 0 && dense; d--) {
    if (sizes[d] == 1) continue;
    dense = strides[d] == step;
    step *= sizes[d];
  }
  flags = uint8_t(dense || numel == 0 ? flags | kContiguous : flags & ~kContiguous);
}

void TensorImpl::destroy() {
  if (FL_UNLIKELY(py != nullptr) && core_hooks.drop_python && core_hooks.drop_python(this)) return;
  if (grad_fn) core_hooks.leave_node(this);
  if (meta) core_hooks.drop_meta(meta);
  if (base) base->decref();
  if (counter && counter != storage) counter->decref();
  if (storage) storage->decref();
  free_dims(this);
  return_block(tls.tensors, this);
}

int64_t numel_of(IntList sizes) {
  int64_t numel = 1;
  bool empty = false, overflow = false;
  for (int64_t n : sizes) {
    FL_CHECK(n >= 0, RuntimeError, "size: no dim may be negative, got {}", sizes);
    empty = empty || n == 0;
    overflow = __builtin_mul_overflow(numel, n ? n : 1, &numel) || overflow;
  }
  FL_CHECK(empty || !overflow, RuntimeError, "size: {} has more elements than fit in 63 bits",
           sizes);
  return empty ? 0 : numel;
}

void copy_dims(TensorImpl* to, IntList sizes, IntList strides) {
  if (FL_LIKELY(sizes.size() <= TensorImpl::kInlineDims && to->sizes == to->inline_))
    to->ndim = uint8_t(sizes.size());
  else
    to->reserve_dims(int(sizes.size()));
  copy_few(sizes.data(), sizes.size(), to->sizes);
  copy_few(strides.data(), strides.size(), to->strides);
}

namespace {

size_t bytes_for(int64_t elements, DType dtype, IntList sizes) {
  int64_t bytes;
  bool overflow = __builtin_mul_overflow(elements, itemsize(dtype), &bytes);
  FL_CHECK(!overflow, RuntimeError, "size: {} of {} is more than 63 bits of bytes", sizes, dtype);
  return size_t(bytes);
}

// Few dims without zeros that make few elements: one walk sets everything. False for others.
bool set_small(TensorImpl* t, IntList sizes) {
  constexpr int64_t kFew = int64_t(1) << 31;
  if (sizes.size() > TensorImpl::kInlineDims) return false;
  t->ndim = uint8_t(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    int64_t n = sizes[d];
    if (FL_UNLIKELY(n <= 0 || n >= kFew)) return false;
    t->inline_[d] = n;
    t->inline_[TensorImpl::kInlineDims + d] = step;
    step *= n;  // both are below kFew
    if (FL_UNLIKELY(step >= kFew)) return false;
  }
  t->numel = step;
  return true;
}

}  // namespace

Tensor new_tensor(IntList sizes, DType dtype, Device device) {
  Tensor t(blank());
  if (FL_UNLIKELY(!set_small(t.impl(), sizes))) {
    int64_t numel = numel_of(sizes);
    (void)bytes_for(numel, dtype, sizes);
    t->reserve_dims(int(sizes.size()));
    std::copy(sizes.begin(), sizes.end(), t->sizes);
    t->numel = fill_contiguous(t.impl());
  }
  size_t bytes = size_t(t->numel * itemsize(dtype));
  t->dtype = dtype;
  t->device = resolve(device);
  give_memory(t.impl(), bytes);
  return t;
}

Tensor new_strided(IntList sizes, IntList strides, DType dtype, Device device) {
  int64_t numel = numel_of(sizes), last = 0;
  for (size_t d = 0; d < sizes.size(); d++) {
    FL_CHECK(strides[d] >= 0, RuntimeError, "strides: none may be negative, got {}", strides);
    int64_t reach;
    bool overflow = __builtin_mul_overflow(strides[d], sizes[d] - 1, &reach);
    overflow = __builtin_add_overflow(last, reach, &last) || overflow;
    FL_CHECK(numel == 0 || !overflow, RuntimeError, "strides: {} of sizes {} reach beyond 63 bits",
             strides, sizes);
  }
  size_t bytes = bytes_for(numel ? last + 1 : 0, dtype, sizes);
  Tensor t(blank());
  copy_dims(t.impl(), sizes, strides);
  t->dtype = dtype;
  t->device = resolve(device);
  t->refresh();
  give_memory(t.impl(), bytes);
  return t;
}

Tensor new_like(const Tensor& like, DType dtype) {
  const TensorImpl* from = like.impl();
  if (FL_LIKELY(from->contiguous() && from->ndim <= TensorImpl::kInlineDims)) {
    Tensor t(blank());
    t->ndim = from->ndim;
    __builtin_memcpy(t->inline_, from->inline_, sizeof t->inline_);
    t->numel = from->numel;
    t->dtype = dtype;
    t->device = from->device;
    if (FL_UNLIKELY(from->numel == 0)) fill_contiguous(t.impl());
    give_memory(t.impl(), size_t(from->numel * itemsize(dtype)));
    return t;
  }
  // Dense in some order of dims: keep that order. Otherwise contiguous.
  int n = from->ndim;
  Ints order(static_cast<size_t>(n));
  for (int d = 0; d < n; d++) order[d] = d;
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return from->strides[a] > from->strides[b]; });
  Ints strides(static_cast<size_t>(n));
  int64_t step = 1;
  bool dense = from->numel > 0;
  for (int i = n - 1; i >= 0; i--) {
    int64_t d = order[i];
    dense = dense && (from->sizes[d] == 1 || from->strides[d] == step);
    strides[d] = step;
    step *= from->sizes[d];
  }
  if (!dense) return new_tensor(like.sizes(), dtype, like.device());
  return new_strided(like.sizes(), strides, dtype, like.device());
}

namespace {

// On the same memory, with everything but numel and dims.
TensorImpl* sharing(TensorImpl* from) {
  if (FL_UNLIKELY(from->flags & kSparse)) check_elements("view", Tensor::borrow(from));
  TensorImpl* t = blank();
  t->dtype = from->dtype;
  t->device = from->device;
  t->flags = from->flags & (kContiguous | kInference);
  t->data = from->data;
  t->meta_offset = from->meta_offset;
  t->storage = from->storage;
  t->storage->incref();
  t->counter = from->counter;
  if (t->counter != t->storage) t->counter->incref();
  return t;
}

}  // namespace

Tensor alias(const Tensor& of) {
  Tensor t(sharing(of.impl()));
  if (FL_LIKELY(of->sizes == of->inline_)) {
    t->ndim = of->ndim;
    __builtin_memcpy(t->inline_, of->inline_, sizeof t->inline_);
  } else {
    copy_dims(t.impl(), of.sizes(), of.strides());
  }
  t->numel = of.numel();
  return t;
}

Tensor alias(const Tensor& of, const Geometry& geometry) {
  Tensor t(sharing(of.impl()));
  copy_dims(t.impl(), geometry.sizes, geometry.strides);
  t->refresh();
  t->meta_offset = geometry.offset;
  if (t->storage->data) t->data = t->storage->data + geometry.offset * itemsize(t->dtype);
  return t;
}

Tensor from_storage(StoragePtr storage, IntList sizes, IntList strides, int64_t offset,
                    DType dtype) {
  Tensor t(blank());
  copy_dims(t.impl(), sizes, strides);
  t->dtype = dtype;
  t->device = storage->device;
  t->refresh();
  t->meta_offset = offset;
  t->data = storage->data ? storage->data + offset * itemsize(dtype) : nullptr;
  t->storage = t->counter = storage.release();
  return t;
}

Ints contiguous_strides(IntList sizes) {
  Ints strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step = mul_sat(step, std::max<int64_t>(sizes[d], 1));
  }
  return strides;
}

Ints channels_last_strides(IntList sizes) {
  size_t n = sizes.size();
  Ints strides(n);
  int64_t step = 1;
  auto place = [&](size_t d) {
    strides[d] = step;
    step = mul_sat(step, std::max<int64_t>(sizes[d], 1));
  };
  place(1);
  for (size_t d = n; d-- > 2;) place(d);
  place(0);
  return strides;
}

bool is_contiguous_as(IntList sizes, IntList strides, MemoryFormat format) {
  bool last = format == MemoryFormat::ChannelsLast || format == MemoryFormat::ChannelsLast3d;
  if (last && sizes.size() != (format == MemoryFormat::ChannelsLast ? 4u : 5u)) return false;
  Ints want = last ? channels_last_strides(sizes) : contiguous_strides(sizes);
  for (size_t d = 0; d < sizes.size(); d++) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != want[d]) return false;
  }
  return true;
}

bool has_internal_overlap(const Tensor& t) {
  if (t->contiguous()) return false;
  for (int d = 0; d < t->ndim; d++) {
    if (t->strides[d] == 0 && t->sizes[d] > 1) return true;
  }
  return false;
}

Overlap memory_overlap(const Tensor& a, const Tensor& b) {
  if (a->storage != b->storage || a->numel == 0 || b->numel == 0 || !a->data) return Overlap::None;
  auto reach = [](const Tensor& t) {
    int64_t last = 0;
    for (int d = 0; d < t->ndim; d++) last += (t->sizes[d] - 1) * t->strides[d];
    return (last + 1) * itemsize(t.dtype());
  };
  if (a->data == b->data && a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
      a.strides() == b.strides()) {
    return Overlap::Same;
  }
  bool apart = a->data + reach(a) <= b->data || b->data + reach(b) <= a->data;
  if (apart) return Overlap::None;
  return a->contiguous() && b->contiguous() ? Overlap::Partial : Overlap::Maybe;
}

void check_elements(std::string_view what, const Tensor& t) {
  FL_CHECK(!(t->flags & kSparse), TypeError,
           "{}: the elements of a sparse tensor do not lie in one block of memory; use to_dense()",
           what);
}

int64_t wrap_dim(std::string_view op, int64_t dim, int64_t ndim) {
  int64_t n = std::max<int64_t>(ndim, 1);  // like torch, a scalar accepts dim 0 and -1
  FL_CHECK(-n <= dim && dim < n, IndexError, "{}: dim must be in [{}, {}], got {}", op, -n, n - 1,
           dim);
  return dim < 0 ? dim + n : dim;
}

}  // namespace flambeau
