// Geometry of views: sizes, strides and offset, nothing else.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

Geometry expand_geometry(const Tensor& self, IntList size, bool) {
  Geometry g{Ints(size), Ints(size.size()), self->offset()};
  int64_t extra = int64_t(size.size()) - self.ndim();
  FL_CHECK(extra >= 0, RuntimeError, "expand: {} has fewer dims than the tensor's {}", size,
           self.sizes());
  for (int64_t d = 0; d < int64_t(size.size()); d++) {
    int64_t have = d < extra ? 1 : self.size(d - extra), want = size[size_t(d)];
    if (want == -1 && d >= extra) want = have;
    FL_CHECK(want >= 0, RuntimeError, "expand: -1 keeps a dim, but dim {} of {} is new", d, size);
    FL_CHECK(have == 1 || have == want, RuntimeError,
             "expand: only dims of size 1 can grow, got {} -> {} (dim {}: {} -> {})", self.sizes(),
             size, d, have, want);
    g.sizes[size_t(d)] = want;
    g.strides[size_t(d)] = d < extra || (have == 1 && want != 1) ? 0 : self.stride(d - extra);
  }
  return g;
}

Geometry as_strided_geometry(const Tensor& self, IntList size, IntList stride,
                             std::optional<int64_t> storage_offset) {
  FL_CHECK(size.size() == stride.size(), RuntimeError,
           "as_strided: sizes and strides must be as many, got {} and {}", size, stride);
  int64_t offset = storage_offset.value_or(self->offset()), last = offset;
  FL_CHECK(offset >= 0, RuntimeError, "as_strided: the offset must not be negative, got {}",
           offset);
  for (size_t d = 0; d < size.size(); d++) {
    FL_CHECK(stride[d] >= 0, RuntimeError, "as_strided: strides must not be negative, got {}",
             stride);
    FL_CHECK(size[d] >= 0, RuntimeError, "as_strided: sizes must not be negative, got {}", size);
    int64_t reach;
    bool overflow = __builtin_mul_overflow(size[d] - 1, stride[d], &reach);
    overflow = __builtin_add_overflow(last, reach, &last) || overflow;
    FL_CHECK(!overflow || numel_of(size) == 0, RuntimeError,
             "as_strided: sizes {} with strides {} reach beyond 63 bits", size, stride);
  }
  int64_t room = int64_t(self->storage->bytes) / itemsize(self.dtype());
  FL_CHECK(numel_of(size) == 0 || last < room, RuntimeError,
           "as_strided: sizes {}, strides {} and offset {} reach element {}, the memory has {}",
           size, stride, offset, last, room);
  return {Ints(size), Ints(stride), offset};
}

namespace {

// Replaces a -1 and checks the number of elements.
Ints filled_in(std::string_view op, IntList size, const Tensor& self) {
  Ints sizes(size);
  int64_t known = 1, open = -1;
  for (size_t d = 0; d < size.size(); d++) {
    if (size[d] == -1) {
      FL_CHECK(open < 0, RuntimeError, "{}: one size may be -1, got {}", op, size);
      open = int64_t(d);
      continue;
    }
    FL_CHECK(size[d] >= 0, RuntimeError, "{}: sizes must not be negative, got {}", op, size);
    FL_CHECK(!__builtin_mul_overflow(known, size[d], &known), RuntimeError,
             "{}: {} has more than 63 bits of elements", op, size);
  }
  if (open >= 0) {
    FL_CHECK(known > 0 && self.numel() % known == 0, RuntimeError,
             "{}: {} elements of shape {} do not divide into {}", op, self.numel(), self.sizes(),
             size);
    sizes[size_t(open)] = self.numel() / known;
    return sizes;
  }
  FL_CHECK(known == self.numel(), RuntimeError, "{}: shape {} has {} elements, {} has {}", op,
           self.sizes(), self.numel(), size, known);
  return sizes;
}

// Strides under which the same memory has the new sizes, if there are such: dims that join are cut
// again.
std::optional<Ints> view_strides(const Tensor& self, IntList sizes) {
  if (self->contiguous()) return contiguous_strides(sizes);
  if (self.numel() == 0)
    return self.sizes() == sizes ? Ints(self.strides()) : contiguous_strides(sizes);
  Ints strides(sizes.size());
  int64_t next = int64_t(sizes.size()) - 1;
  int64_t chunk = 1, base = self.ndim() ? self.strides().back() : 1;
  for (int64_t d = self.ndim() - 1; d >= 0; d--) {
    chunk *= self.size(d);
    bool ends = d == 0 || (self.size(d - 1) != 1 && self.stride(d - 1) != chunk * base);
    if (!ends) continue;
    int64_t covered = 1;
    while (next >= 0 && (covered < chunk || sizes[size_t(next)] == 1)) {
      strides[size_t(next)] = covered * base;
      covered *= sizes[size_t(next--)];
    }
    if (covered != chunk) return std::nullopt;
    chunk = 1;
    if (d > 0) base = self.stride(d - 1);
  }
  if (next >= 0) return std::nullopt;
  return strides;
}

}  // namespace

Geometry view_geometry(const Tensor& self, IntList size) {
  Ints sizes = filled_in("view", size, self);
  if (FL_LIKELY(self->contiguous())) {
    Ints steps = contiguous_strides(sizes);
    return {std::move(sizes), std::move(steps), self->offset()};
  }
  std::optional<Ints> strides = view_strides(self, sizes);
  FL_CHECK(strides.has_value(), RuntimeError,
           "view: sizes {} need a copy of a tensor of sizes {} and strides {}; use reshape()", size,
           self.sizes(), self.strides());
  return {std::move(sizes), std::move(*strides), self->offset()};
}

Tensor reshape_impl(const Tensor& self, IntList shape) {
  Ints sizes = filled_in("reshape", shape, self);
  if (FL_LIKELY(self->contiguous()) || view_strides(self, sizes)) return view(self, sizes);
  return view(clone(self, MemoryFormat::Contiguous), sizes);
}

Tensor view_as_real_impl(const Tensor& self) {
  FL_CHECK(is_complex(self.dtype()), RuntimeError,
           "view_as_real: the tensor must be complex, got {}", self.dtype());
  Ints sizes(self.sizes()), strides;
  for (int64_t s : self.strides()) strides.push_back(2 * s);
  sizes.push_back(2);
  strides.push_back(1);
  return make_view_as(self, real_of(self.dtype()), {sizes, strides, 2 * self->offset()});
}

Tensor view_as_complex_impl(const Tensor& self) {
  FL_CHECK(self.dtype() == DType::Float32 || self.dtype() == DType::Float64, RuntimeError,
           "view_as_complex: the tensor must be float32 or float64, got {}", self.dtype());
  FL_CHECK(self.ndim() > 0 && self.size(-1) == 2, RuntimeError,
           "view_as_complex: the last dim must be 2, got {}", self.sizes());
  bool even = self->offset() % 2 == 0 && self.stride(-1) == 1;
  Geometry g{Ints(self.sizes()), Ints(), self->offset() / 2};
  g.sizes.erase(g.sizes.size() - 1);
  for (int64_t d = 0; d + 1 < self.ndim(); d++) {
    even = even && self.stride(d) % 2 == 0;
    g.strides.push_back(self.stride(d) / 2);
  }
  FL_CHECK(even, RuntimeError,
           "view_as_complex: strides {} do not keep real and imaginary parts together",
           self.strides());
  return make_view_as(self, self.dtype() == DType::Float32 ? DType::Complex64 : DType::Complex128,
                      g);
}

Tensor view_dtype_impl(const Tensor& self, DType dtype) {
  int64_t from = itemsize(self.dtype()), to = itemsize(dtype);
  Geometry g{Ints(self.sizes()), Ints(self.strides()), self->offset()};
  if (from == to) return make_view_as(self, dtype, g);
  FL_CHECK(self.ndim() > 0, RuntimeError,
           "view: a 0-d tensor of {} cannot be read as {}, whose elements have another size",
           self.dtype(), dtype);
  size_t last = size_t(self.ndim() - 1);
  FL_CHECK(self.stride(-1) == 1 || self.size(-1) == 1, RuntimeError,
           "view: elements of {} must lie together to be read as {}, got strides {}", self.dtype(),
           dtype, self.strides());
  int64_t bytes = self.size(-1) * from;
  bool fits = bytes % to == 0 && g.offset * from % to == 0;
  for (size_t d = 0; d < last; d++) fits = fits && g.strides[d] * from % to == 0;
  FL_CHECK(fits, RuntimeError,
           "view: {} of {} with strides {} and offset {} do not divide into elements of {}",
           self.sizes(), self.dtype(), self.strides(), g.offset, dtype);
  for (size_t d = 0; d < last; d++) g.strides[d] = g.strides[d] * from / to;
  g.sizes[last] = bytes / to;
  g.offset = g.offset * from / to;
  return make_view_as(self, dtype, g);
}

namespace {

// The view of one of the parts of complex numbers.
Tensor part_of(const Tensor& self, int64_t part) {
  Tensor parts = view_as_real(self);
  Ints sizes(self.sizes()), strides(parts.strides());
  strides.erase(strides.size() - 1);
  return as_strided(parts, sizes, strides, parts->offset() + part);
}

}  // namespace

Tensor real_impl(const Tensor& self) { return is_complex(self.dtype()) ? part_of(self, 0) : self; }
Tensor imag_impl(const Tensor& self) {
  FL_CHECK(is_complex(self.dtype()), RuntimeError, "imag: the tensor must be complex, got {}",
           self.dtype());
  return part_of(self, 1);
}

Tensor resolve_impl(const Tensor& self) { return self; }

Tensor& fill_diagonal_impl(Tensor& self, const Scalar& fill_value, bool wrap) {
  FL_CHECK(self.ndim() >= 2, RuntimeError, "fill_diagonal_: at least 2 dims are needed, got {}",
           self.sizes());
  int64_t shortest = self.size(0), step = 0;
  for (int64_t d = 0; d < self.ndim(); d++) {
    FL_CHECK(self.ndim() == 2 || self.size(d) == self.size(0), RuntimeError,
             "fill_diagonal_: more than 2 dims must be of one size, got {}", self.sizes());
    shortest = std::min(shortest, self.size(d));
    step += self->strides[d];
  }
  int64_t rows = self.size(0), columns = self.size(1), start = self->offset();
  Tensor line = as_strided(self, {shortest}, {step}, start);
  fill_(line, fill_value);
  // Below a square and one free row the diagonal starts again.
  int64_t below = columns + 1;
  if (!wrap || self.ndim() > 2 || rows <= below) return self;
  for (int64_t row = below; row < rows; row += below) {
    Tensor rest =
        as_strided(self, {std::min(columns, rows - row)}, {step}, start + row * self->strides[0]);
    fill_(rest, fill_value);
  }
  return self;
}

}  // namespace flambeau::ops
