// The same elements in other places: flip, roll, rotations, triangles, repetition, diagonals.
#include "flambeau/kernels/cpu/rearrange.h"
#include "flambeau/core/saturate.h"

#include "flambeau/generated/impl.h"
#include "flambeau/ops/indices.h"

namespace flambeau::ops {

namespace {

// Wrapped dims as a mask; a dim may be named once.
uint64_t dims_mask(std::string_view op, IntList dims, int64_t ndim) {
  uint64_t mask = 0;
  for (int64_t d : dims) {
    uint64_t bit = uint64_t{1} << wrap_dim(op, d, ndim);
    FL_CHECK(!(mask & bit), RuntimeError, "{}: a dim may be named once, got dims={}", op, dims);
    mask |= bit;
  }
  return mask;
}

}  // namespace

void flip_kernel(Tensor& result, const Tensor& self, IntList dims) {
  uint64_t mask = dims_mask("flip", dims, self.ndim());
  if (self.numel() == 0) return;
  Ints strides(self.strides());
  const char* from = self->data;
  for (int64_t d = 0; d < self.ndim(); d++) {
    if (!(mask >> d & 1)) continue;
    from += (self.size(d) - 1) * self.stride(d) * itemsize(self.dtype());
    strides[size_t(d)] = -strides[size_t(d)];
  }
  copy_strided(itemsize(self.dtype()), int(self.ndim()), self->sizes, from, strides.data(),
               result->data, result->strides);
}

Tensor fliplr_impl(const Tensor& self) {
  FL_CHECK(self.ndim() >= 2, RuntimeError, "fliplr: at least two dims are needed, got shape {}",
           self.sizes());
  return flip(self, {1});
}

Tensor flipud_impl(const Tensor& self) {
  FL_CHECK(self.ndim() >= 1, RuntimeError, "flipud: at least one dim is needed, got a 0-d tensor");
  return flip(self, {0});
}

void roll_kernel(Tensor& result, const Tensor& self, IntList shifts, IntList dims) {
  FL_CHECK(!shifts.empty(), RuntimeError, "roll: shifts must not be empty");
  int64_t item = itemsize(self.dtype()), n = self.numel();
  if (dims.empty()) {
    FL_CHECK(shifts.size() == 1, RuntimeError, "roll: {} shifts need as many dims, got none",
             shifts.size());
    if (n) roll_items(item, 1, &n, shifts.data(), self->data, result->data);
    return;
  }
  FL_CHECK(shifts.size() == dims.size(), RuntimeError,
           "roll: shifts and dims must be as many, got {} and {}", shifts, dims);
  Ints by(static_cast<size_t>(std::max<int64_t>(self.ndim(), 1)), 0);
  for (size_t i = 0; i < dims.size(); i++) {
    int64_t d = wrap_dim("roll", dims[i], self.ndim()), size = self.ndim() ? self.size(d) : 1;
    if (n) by[size_t(d)] = (by[size_t(d)] + shifts[i] % size) % size;
  }
  if (n) roll_items(item, int(self.ndim()), self->sizes, by.data(), self->data, result->data);
}

Tensor rot90_impl(const Tensor& self, int64_t k, IntList dims) {
  FL_CHECK(dims.size() == 2, RuntimeError, "rot90: two dims must be named, got {}", dims);
  FL_CHECK(self.ndim() >= 2, RuntimeError, "rot90: at least two dims are needed, got shape {}",
           self.sizes());
  for (int64_t d : dims) {
    FL_CHECK(-self.ndim() <= d && d < self.ndim(), RuntimeError,
             "rot90: dims must be in [{}, {}], got {}", -self.ndim(), self.ndim() - 1, dims);
  }
  dims_mask("rot90", dims, self.ndim());
  switch ((k % 4 + 4) % 4) {
    case 1:
      return transpose(flip(self, {dims[1]}), dims[0], dims[1]);
    case 2:
      return flip(self, dims);
    case 3:
      return flip(transpose(self, dims[0], dims[1]), {dims[1]});
    default:
      return clone(self, MemoryFormat::Contiguous);
  }
}

// ---- triangles ----

namespace {

Ints triangle_shape(std::string_view op, const Tensor& self) {
  FL_CHECK(self.ndim() >= 2, RuntimeError, "{}: at least two dims are needed, got shape {}", op,
           self.sizes());
  return self.sizes();
}

template <class Kernel>
void triangle(const Kernel& kernel, const Tensor& result, const Tensor& self, int64_t diagonal) {
  int64_t rows = self.size(-2), cols = self.size(-1);
  if (self.numel() == 0) return;
  kernel(itemsize(self.dtype()), self->data, result->data, self.numel() / (rows * cols), rows, cols,
         diagonal);
}

}  // namespace

Ints tril_shape(const Tensor& self, int64_t) { return triangle_shape("tril", self); }
Ints triu_shape(const Tensor& self, int64_t) { return triangle_shape("triu", self); }
void tril_kernel(Tensor& result, const Tensor& self, int64_t diagonal) {
  triangle(tril_rows, result, self, diagonal);
}
void triu_kernel(Tensor& result, const Tensor& self, int64_t diagonal) {
  triangle(triu_rows, result, self, diagonal);
}

// ---- repetition ----

Ints repeat_shape(const Tensor& self, IntList repeats) {
  int64_t extra = int64_t(repeats.size()) - self.ndim();
  FL_CHECK(extra >= 0, RuntimeError,
           "repeat: a number for each dim is needed, got {} for a tensor of shape {}", repeats,
           self.sizes());
  Ints sizes(repeats);
  for (size_t d = 0; d < sizes.size(); d++) {
    FL_CHECK(repeats[d] >= 0, RuntimeError, "repeat: numbers must not be negative, got {}",
             repeats);
    if (int64_t(d) >= extra) sizes[d] = mul_sat(sizes[d], self.size(int64_t(d) - extra));
  }
  return sizes;
}

void repeat_kernel(Tensor& result, const Tensor& self, IntList repeats) {
  if (result.numel() == 0) return;
  // Every dim of the result as (repeat, size), the repeats with stride 0.
  int64_t extra = int64_t(repeats.size()) - self.ndim();
  Ints sizes, from, to;
  for (int64_t d = 0; d < result.ndim(); d++) {
    int64_t size = d < extra ? 1 : self.size(d - extra);
    sizes.push_back(repeats[size_t(d)]);
    from.push_back(0);
    to.push_back(result.stride(d) * size);
    if (d < extra || size == 1) continue;
    sizes.push_back(size);
    from.push_back(self.stride(d - extra));
    to.push_back(result.stride(d));
  }
  FL_CHECK(sizes.size() <= size_t(kCopyDims), NotImplementedError,
           "repeat: too many dims, got shape {} and repeats {}", self.sizes(), repeats);
  copy_strided(itemsize(self.dtype()), int(sizes.size()), sizes.data(), self->data, from.data(),
               result->data, to.data());
}

Tensor tile_impl(const Tensor& self, IntList dims) {
  int64_t missing = self.ndim() - int64_t(dims.size());
  if (missing <= 0) return repeat(self, dims);
  Ints full(static_cast<size_t>(missing), 1);
  for (int64_t n : dims) full.push_back(n);
  return repeat(self, full);
}

Tensor repeat_interleave_impl(const Tensor& repeats, std::optional<int64_t> output_size) {
  FL_CHECK(repeats.ndim() == 1, RuntimeError, "repeat_interleave: repeats must be 1-d, got {}",
           repeats.sizes());
  FL_CHECK(repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32, RuntimeError,
           "repeat_interleave: repeats must be int64 or int32, got {}", repeats.dtype());
  if (!has_memory(repeats)) {
    FL_CHECK(output_size, NotImplementedError,
             "repeat_interleave: the numbers are not known on the meta device, give output_size");
    return new_tensor({*output_size}, repeats.dtype(), repeats.device());
  }
  Tensor counts = dense(as_int64(repeats));
  const int64_t* times = counts.data<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < counts.numel(); i++) {
    FL_CHECK(times[i] >= 0, RuntimeError,
             "repeat_interleave: repeats must not be negative, got {} at {}", times[i], i);
    total = add_sat(total, times[i]);
  }
  FL_CHECK(!output_size || *output_size == total, RuntimeError,
           "repeat_interleave: repeats add up to {}, not to output_size {}", total,
           output_size.value_or(0));
  Tensor result = new_tensor({total}, repeats.dtype(), repeats.device());
  Tensor wide = repeats.dtype() == DType::Int64 ? result : new_tensor({total}, DType::Int64);
  int64_t* out = wide.data<int64_t>();
  for (int64_t i = 0; i < counts.numel(); i++) out = std::fill_n(out, times[i], i);
  if (!wide.is(result)) copy_elements(result, wide);
  return result;
}

Tensor repeat_interleave_impl(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                              std::optional<int64_t> output_size) {
  Tensor x = dim ? self : reshape(self, {-1});
  int64_t d = wrap_dim("repeat_interleave", dim.value_or(0), x.ndim()), size = size_of(x, d);
  FL_CHECK(repeats.ndim() <= 1, RuntimeError,
           "repeat_interleave: repeats must be a number or 1-d, got shape {}", repeats.sizes());
  FL_CHECK(repeats.numel() == 1 || repeats.numel() == size, RuntimeError,
           "repeat_interleave: repeats must have one number or {}, the size of dim {}, got {}",
           size, d, repeats.numel());
  Tensor each = repeats.numel() == size && repeats.ndim() == 1
                    ? repeats
                    : expand(reshape(repeats, {-1}), {size});
  Tensor owner = repeat_interleave(each, output_size);
  if (x.ndim() == 0) x = reshape(x, {1});
  return index_select(x, d, owner);
}

Tensor repeat_interleave_impl(const Tensor& self, int64_t repeats, std::optional<int64_t> dim,
                              std::optional<int64_t> output_size) {
  FL_CHECK(repeats >= 0, RuntimeError, "repeat_interleave: repeats must not be negative, got {}",
           repeats);
  Tensor x = dim && self.ndim() ? self : reshape(self, {-1});
  int64_t d = wrap_dim("repeat_interleave", dim.value_or(0), x.ndim());
  int64_t total = mul_sat(x.size(d), repeats);
  FL_CHECK(!output_size || *output_size == total, RuntimeError,
           "repeat_interleave: the result has {} elements in dim {}, not output_size {}", total, d,
           output_size.value_or(0));
  Ints many(x.sizes()), joined(x.sizes());
  many.insert(size_t(d) + 1, repeats);
  joined[size_t(d)] = total;
  return reshape(clone(expand(unsqueeze(x, d + 1), many), MemoryFormat::Contiguous), joined);
}

// ---- diagonals ----

Tensor diag_impl(const Tensor& self, int64_t diagonal) {
  FL_CHECK(self.ndim() == 1 || self.ndim() == 2, RuntimeError,
           "diag: one or two dims are needed, got shape {}", self.sizes());
  if (self.ndim() == 1) return diag_embed(self, diagonal);
  return clone(ops::diagonal(self, diagonal), MemoryFormat::Contiguous);
}

Tensor diag_embed_impl(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t ndim = self.ndim() + 1;
  FL_CHECK(self.ndim() > 0, RuntimeError, "diag_embed: a 0-d tensor has no diagonal to give");
  int64_t first = wrap_dim("diag_embed", dim1, ndim), second = wrap_dim("diag_embed", dim2, ndim);
  FL_CHECK(first != second, RuntimeError, "diag_embed: dim1 and dim2 must differ, got {} and {}",
           dim1, dim2);
  int64_t size = add_sat(self.size(-1), offset < 0 ? neg_sat(offset) : offset);
  Ints sizes(self.sizes());
  sizes.erase(sizes.size() - 1);
  sizes.insert(size_t(std::min(first, second)), size);
  sizes.insert(size_t(std::max(first, second)), size);
  Tensor result = new_tensor(sizes, self.dtype(), self.device());
  zero_into(result);
  if (has_memory(result))
    copy_elements(alias(result, diagonal_geometry(result, offset, first, second)), self);
  return result;
}

Tensor diagflat_impl(const Tensor& self, int64_t offset) {
  return diag(reshape(self, {-1}), offset);
}

Tensor block_diag_impl(TensorList tensors) {
  if (tensors.empty()) return new_tensor({1, 0}, default_dtype());
  std::vector<Tensor> blocks;
  int64_t cols = 0;
  for (const Tensor& t : tensors) {
    FL_CHECK(t.ndim() <= 2, RuntimeError,
             "block_diag: tensors must have at most two dims, got shape {} (tensor {})", t.sizes(),
             blocks.size());
    blocks.push_back(atleast_2d(t));
    cols += blocks.back().size(1);
  }
  int64_t before = 0;
  for (Tensor& block : blocks) {
    int64_t own = block.size(1);
    block = constant_pad_nd(block, {before, cols - before - own}, Scalar(int64_t{0}));
    before += own;
  }
  return cat(blocks, 0);
}

// ---- copies with a part replaced ----

namespace {

Tensor with_part(std::string_view op, const Tensor& self, const Tensor& src, const Geometry& part) {
  FL_CHECK(src.sizes() == IntList(part.sizes), RuntimeError,
           "{}: src must have the shape {} of the part it replaces, got {}", op, part.sizes,
           src.sizes());
  Tensor result = clone_impl(self, MemoryFormat::Contiguous);
  if (!has_memory(result)) return result;
  copy_elements(alias(result, part), src);
  return result;
}

Tensor shape_only(const Tensor& self) {  // contiguous geometry, so that parts of the copy fit
  return self->contiguous()
             ? self
             : alias(self, {Ints(self.sizes()), contiguous_strides(self.sizes()), 0});
}

Geometry from_start(const Tensor& self, Geometry part) {  // the copy starts at its own memory
  part.offset -= shape_only(self)->offset();
  return part;
}

}  // namespace

Tensor select_scatter_impl(const Tensor& self, const Tensor& src, int64_t dim, int64_t index) {
  Geometry part = select_geometry(shape_only(self), dim, index);
  return with_part("select_scatter", self, src, from_start(self, part));
}

Tensor slice_scatter_impl(const Tensor& self, const Tensor& src, int64_t dim,
                          std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  Geometry part = slice_geometry(shape_only(self), dim, start, end, step);
  return with_part("slice_scatter", self, src, from_start(self, part));
}

Tensor diagonal_scatter_impl(const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1,
                             int64_t dim2) {
  Geometry part = diagonal_geometry(shape_only(self), offset, dim1, dim2);
  return with_part("diagonal_scatter", self, src, from_start(self, part));
}

}  // namespace flambeau::ops
