// Views that pick, cut or reorder dims. Geometry only: the machinery makes the tensors and their
// nodes.
#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/parts.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

Geometry geometry_of(const Tensor& t) { return {Ints(t.sizes()), Ints(t.strides()), t->offset()}; }

void need_dims(std::string_view op, const Tensor& self) {
  FL_CHECK(self.ndim() > 0, RuntimeError,
           "{}: a tensor with at least one dim is needed, got a 0-d one", op);
}

// The range of a slice, clipped as in Python.
struct Range {
  int64_t start, length;
};
Range clip(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  auto inside = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, 0, size); };
  int64_t first = inside(start.value_or(0)), last = end ? inside(*end) : size;
  return {first, last > first ? 1 + (last - first - 1) / step : 0};
}

}  // namespace

Geometry select_geometry(const Tensor& self, int64_t dim, int64_t index) {
  FL_CHECK(self.ndim() > 0, IndexError, "select: a 0-d tensor has no dim to select from");
  dim = wrap_dim("select", dim, self.ndim());
  int64_t size = self.size(dim);
  FL_CHECK(-size <= index && index < size, IndexError,
           "select: index must be in [{}, {}) for dim {} of shape {}, got {}", -size, size, dim,
           self.sizes(), index);
  Geometry g = geometry_of(self);
  g.offset += (index < 0 ? index + size : index) * self.stride(dim);
  g.sizes.erase(size_t(dim));
  g.strides.erase(size_t(dim));
  return g;
}

Geometry slice_geometry(const Tensor& self, int64_t dim, std::optional<int64_t> start,
                        std::optional<int64_t> end, int64_t step) {
  need_dims("slice", self);
  FL_CHECK(step > 0, RuntimeError, "slice: step must be positive, got {}", step);
  dim = wrap_dim("slice", dim, self.ndim());
  Range r = clip(self.size(dim), start, end, step);
  Geometry g = geometry_of(self);
  g.offset += r.start * self.stride(dim);
  g.sizes[size_t(dim)] = r.length;
  g.strides[size_t(dim)] = mul_sat(g.strides[size_t(dim)], step);
  return g;
}

Geometry piecewise_geometry(const Tensor& self) { return geometry_of(self); }

Geometry transpose_geometry(const Tensor& self, int64_t dim0, int64_t dim1) {
  dim0 = wrap_dim("transpose", dim0, self.ndim());
  dim1 = wrap_dim("transpose", dim1, self.ndim());
  Geometry g = geometry_of(self);
  if (self.ndim() == 0) return g;
  std::swap(g.sizes[size_t(dim0)], g.sizes[size_t(dim1)]);
  std::swap(g.strides[size_t(dim0)], g.strides[size_t(dim1)]);
  return g;
}

Geometry permute_geometry(const Tensor& self, IntList dims) {
  FL_CHECK(int64_t(dims.size()) == self.ndim(), RuntimeError,
           "permute: all {} dims must be listed, got {}", self.ndim(), dims);
  Geometry g{Ints(), Ints(), self->offset()};
  uint64_t seen = 0;
  for (int64_t d : dims) {
    d = wrap_dim("permute", d, self.ndim());
    FL_CHECK(!(seen >> d & 1), RuntimeError, "permute: each dim may be listed once, got {}", dims);
    seen |= uint64_t{1} << d;
    g.sizes.push_back(self.size(d));
    g.strides.push_back(self.stride(d));
  }
  return g;
}

Geometry unsqueeze_geometry(const Tensor& self, int64_t dim) {
  dim = wrap_dim("unsqueeze", dim, self.ndim() + 1);
  Geometry g = geometry_of(self);
  bool last = dim == self.ndim();
  g.strides.insert(size_t(dim), last ? 1 : self.size(dim) * self.stride(dim));
  g.sizes.insert(size_t(dim), 1);
  return g;
}

namespace {

Geometry squeezed(const Tensor& self, uint64_t mask) {
  Geometry g{Ints(), Ints(), self->offset()};
  for (int64_t d = 0; d < self.ndim(); d++) {
    if (self.size(d) == 1 && (mask >> d & 1)) continue;
    g.sizes.push_back(self.size(d));
    g.strides.push_back(self.stride(d));
  }
  return g;
}

}  // namespace

Geometry squeeze_geometry(const Tensor& self) { return squeezed(self, ~uint64_t{0}); }

Geometry squeeze_geometry(const Tensor& self, int64_t dim) {
  return squeezed(self, uint64_t{1} << wrap_dim("squeeze", dim, self.ndim()));
}

Geometry squeeze_geometry(const Tensor& self, IntList dim) {
  uint64_t mask = 0;
  for (int64_t d : dim) {
    uint64_t bit = uint64_t{1} << wrap_dim("squeeze", d, self.ndim());
    FL_CHECK(!(mask & bit), RuntimeError, "squeeze: a dim may be named once, got dim={}", dim);
    mask |= bit;
  }
  return squeezed(self, mask);
}

Geometry diagonal_geometry(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  FL_CHECK(self.ndim() >= 2, IndexError, "diagonal: two dims are needed, got shape {}",
           self.sizes());
  dim1 = wrap_dim("diagonal", dim1, self.ndim());
  dim2 = wrap_dim("diagonal", dim2, self.ndim());
  FL_CHECK(dim1 != dim2, RuntimeError, "diagonal: dim1 and dim2 must differ, got {} twice", dim1);
  int64_t length = offset >= 0 ? std::min(self.size(dim1), self.size(dim2) - offset)
                               : std::min(self.size(dim1) + offset, self.size(dim2));
  length = std::max<int64_t>(length, 0);
  Geometry g = geometry_of(self);
  if (length) g.offset += offset >= 0 ? offset * self.stride(dim2) : -offset * self.stride(dim1);
  int64_t step = self.stride(dim1) + self.stride(dim2);
  for (int64_t d : {std::max(dim1, dim2), std::min(dim1, dim2)}) {
    g.sizes.erase(size_t(d));
    g.strides.erase(size_t(d));
  }
  g.sizes.push_back(length);
  g.strides.push_back(step);
  return g;
}

Geometry unfold_geometry(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  FL_CHECK(step > 0, RuntimeError, "unfold: step must be positive, got {}", step);
  dimension = wrap_dim("unfold", dimension, self.ndim());
  int64_t room = self.ndim() ? self.size(dimension) : 1;
  FL_CHECK(0 <= size && size <= room, RuntimeError, "unfold: size must be in [0, {}], got {}", room,
           size);
  Geometry g = geometry_of(self);
  int64_t stride = self.ndim() ? self.stride(dimension) : 1;
  if (self.ndim()) {
    g.sizes[size_t(dimension)] = (room - size) / step + 1;
    g.strides[size_t(dimension)] = mul_sat(stride, step);
  }
  g.sizes.push_back(size);
  g.strides.push_back(stride);
  return g;
}

std::vector<Geometry> unbind_geometry(const Tensor& self, int64_t dim) {
  FL_CHECK(self.ndim() > 0, IndexError, "unbind: a 0-d tensor has no dim to unbind");
  dim = wrap_dim("unbind", dim, self.ndim());
  check_parts("unbind", self.size(dim));
  std::vector<Geometry> list;
  for (int64_t i = 0; i < self.size(dim); i++) list.push_back(select_geometry(self, dim, i));
  return list;
}

std::vector<Geometry> split_geometry(const Tensor& self, IntList split_size, int64_t dim) {
  need_dims("split", self);
  dim = wrap_dim("split", dim, self.ndim());
  int64_t total = 0;
  for (int64_t n : split_size) {
    FL_CHECK(n >= 0, RuntimeError, "split: sizes must not be negative, got {}", split_size);
    total = add_sat(total, n);
  }
  FL_CHECK(total == self.size(dim), RuntimeError,
           "split: sizes {} must add up to {}, the size of dim {}", split_size, self.size(dim),
           dim);
  std::vector<Geometry> list;
  int64_t start = 0;
  for (int64_t n : split_size) {
    list.push_back(slice_geometry(self, dim, start, start + n, 1));
    start += n;
  }
  return list;
}

std::vector<Geometry> split_geometry(const Tensor& self, int64_t split_size, int64_t dim) {
  need_dims("split", self);
  dim = wrap_dim("split", dim, self.ndim());
  int64_t size = self.size(dim);
  FL_CHECK(split_size > 0 || (split_size == 0 && size == 0), RuntimeError,
           "split: split_size must be positive, got {}", split_size);
  check_parts("split", size ? 1 + (size - 1) / split_size : 1);
  Ints sizes;
  for (int64_t start = 0; start < size; start += split_size)
    sizes.push_back(std::min(split_size, size - start));
  if (sizes.empty()) sizes.push_back(0);
  return split_geometry(self, IntList(sizes), dim);
}

Tensor adjoint_impl(const Tensor& self) {
  FL_CHECK(self.ndim() >= 2, RuntimeError, "adjoint: two dims are needed, got shape {}",
           self.sizes());
  return conj(transpose(self, -2, -1));
}

Tensor t_impl(const Tensor& self) {
  FL_CHECK(self.ndim() <= 2, RuntimeError, "t: at most two dims, got shape {}", self.sizes());
  return transpose(self, 0, self.ndim() < 2 ? 0 : 1);
}

Tensor swapaxes_impl(const Tensor& self, int64_t axis0, int64_t axis1) {
  return transpose(self, axis0, axis1);
}
Tensor broadcast_to_impl(const Tensor& self, IntList size) { return expand(self, size); }
Tensor expand_as_impl(const Tensor& self, const Tensor& other) {
  return expand(self, other.sizes());
}
Tensor reshape_as_impl(const Tensor& self, const Tensor& other) {
  return reshape(self, other.sizes());
}
Tensor view_as_impl(const Tensor& self, const Tensor& other) { return view(self, other.sizes()); }
Tensor ravel_impl(const Tensor& self) { return reshape(contiguous(self), {-1}); }

std::vector<Tensor> chunk_impl(const Tensor& self, int64_t chunks, int64_t dim) {
  need_dims("chunk", self);
  FL_CHECK(chunks > 0, RuntimeError, "chunk: chunks must be positive, got {}", chunks);
  dim = wrap_dim("chunk", dim, self.ndim());
  int64_t size = self.size(dim), each = size ? 1 + (size - 1) / chunks : 0;
  if (size == 0) {  // as torch: as many empty pieces as were asked for
    check_parts("chunk", chunks);
    Ints sizes(static_cast<size_t>(chunks), 0);
    return split(self, IntList(sizes), dim);
  }
  return split(self, each, dim);
}

std::vector<Tensor> split_with_sizes_impl(const Tensor& self, IntList split_sizes, int64_t dim) {
  return split(self, split_sizes, dim);
}

Tensor flatten_impl(const Tensor& self, int64_t start_dim, int64_t end_dim) {
  start_dim = wrap_dim("flatten", start_dim, self.ndim());
  end_dim = wrap_dim("flatten", end_dim, self.ndim());
  FL_CHECK(start_dim <= end_dim, RuntimeError,
           "flatten: start_dim must not come after end_dim, got {} and {}", start_dim, end_dim);
  if (self.ndim() == 0) return reshape(self, {1});
  if (start_dim == end_dim) return self;
  Ints sizes;
  int64_t joined = 1;
  for (int64_t d = 0; d < self.ndim(); d++) {
    if (d < start_dim || d > end_dim)
      sizes.push_back(self.size(d));
    else
      joined *= self.size(d);
    if (d == end_dim) sizes.push_back(joined);
  }
  return reshape(self, sizes);
}

Tensor unflatten_impl(const Tensor& self, int64_t dim, IntList sizes) {
  need_dims("unflatten", self);
  dim = wrap_dim("unflatten", dim, self.ndim());
  FL_CHECK(!sizes.empty(), RuntimeError, "unflatten: sizes must not be empty");
  int64_t known = 1, open = 0;
  for (int64_t n : sizes) n == -1 ? void(open++) : void(known = mul_sat(known, n));
  bool fits =
      open == 0 ? known == self.size(dim) : open == 1 && known > 0 && self.size(dim) % known == 0;
  FL_CHECK(fits, RuntimeError, "unflatten: sizes {} do not multiply to {}, the size of dim {}",
           sizes, self.size(dim), dim);
  Ints full;
  for (int64_t d = 0; d < self.ndim(); d++) {
    if (d != dim)
      full.push_back(self.size(d));
    else
      for (int64_t n : sizes) full.push_back(n == -1 ? self.size(dim) / known : n);
  }
  return view(self, full);
}

Tensor movedim_impl(const Tensor& self, IntList source, IntList destination) {
  FL_CHECK(source.size() == destination.size(), RuntimeError,
           "movedim: as many sources as destinations, got {} and {}", source, destination);
  Ints order(static_cast<size_t>(self.ndim()), -1);
  uint64_t taken = 0;
  for (size_t i = 0; i < source.size(); i++) {
    int64_t from = wrap_dim("movedim", source[i], self.ndim()),
            to = wrap_dim("movedim", destination[i], self.ndim());
    if (self.ndim() == 0) continue;
    FL_CHECK(!(taken >> from & 1) && order[size_t(to)] < 0, RuntimeError,
             "movedim: a dim may be named once, got {} and {}", source, destination);
    taken |= uint64_t{1} << from;
    order[size_t(to)] = from;
  }
  int64_t next = 0;
  for (int64_t& d : order) {
    if (d >= 0) continue;
    while (taken >> next & 1) next++;
    d = next++;
  }
  return permute(self, order);
}

Tensor movedim_impl(const Tensor& self, int64_t source, int64_t destination) {
  return movedim_impl(self, IntList(&source, 1), IntList(&destination, 1));
}

Tensor narrow_impl(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  need_dims("narrow", self);
  dim = wrap_dim("narrow", dim, self.ndim());
  int64_t size = self.size(dim), first = start < 0 ? start + size : start;
  FL_CHECK(-size <= start && start <= size, IndexError, "narrow: start must be in [{}, {}], got {}",
           -size, size, start);
  FL_CHECK(length >= 0 && length <= size - first, RuntimeError,
           "narrow: start {} and length {} reach beyond dim {} of size {}", start, length, dim,
           size);
  return slice(self, dim, first, first + length, 1);
}

Tensor narrow_impl(const Tensor& self, int64_t dim, const Tensor& start, int64_t length) {
  FL_CHECK(start.ndim() == 0 && is_integer(start.dtype()), RuntimeError,
           "narrow: start must be a 0-d integer tensor, got {} of shape {}", start.dtype(),
           start.sizes());
  return narrow_impl(self, dim, start.item().to_int(), length);
}

}  // namespace flambeau::ops
