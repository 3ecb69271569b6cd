// Gather and scatter along a dim: checks at the door, dims collapsed for the kernels.
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/scatter.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

void check_index(std::string_view op, const Tensor& self, int64_t dim, const Tensor& index) {
  FL_CHECK(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, RuntimeError,
           "{}: index must be int64, got {}", op, index.dtype());
  FL_CHECK(
      index.numel() == 0 || std::max<int64_t>(index.ndim(), 1) == std::max<int64_t>(self.ndim(), 1),
      RuntimeError, "{}: index must have as many dims as self, got {} and {}", op, index.sizes(),
      self.sizes());
  for (int64_t d = 0; d < index.ndim() && index.numel() && self.ndim(); d++) {
    FL_CHECK(d == dim || index.size(d) <= self.size(d), RuntimeError,
             "{}: index of shape {} is larger than self of shape {} in dim {}", op, index.sizes(),
             self.sizes(), d);
  }
}

// Values are checked before anything is written.
void check_values(std::string_view op, const Tensor& index, int64_t size, int64_t dim) {
  Tensor flat = dense(index);
  int64_t at = find_bad_index(flat.data<int64_t>(), flat.numel(), 0, size);
  FL_CHECK(at < 0, RuntimeError,
           "{}: index {} (element {} of index) is out of range for dim {} of size {}", op,
           flat.data<int64_t>()[at], at, dim, size);
}

Tensor as_int64(const Tensor& index) {
  if (index.dtype() == DType::Int64) return index;
  Tensor wide = new_tensor(index.sizes(), DType::Int64, index.device());
  copy_elements(wide, index);
  return wide;
}

// `x` is the tensor that is indexed, `src` runs along the index.
DimArgs dim_args(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  DimArgs a{};
  for (int64_t d = 0; d < index.ndim(); d++) {
    if (d == dim) continue;
    a.sizes[a.ndim] = index.size(d);
    a.x_strides[a.ndim] = x.ndim() ? x.stride(d) : 0;
    a.index_strides[a.ndim] = index.stride(d);
    a.src_strides[a.ndim++] = src.ndim() ? src.stride(d) : 0;
  }
  a.n = index.ndim() ? index.size(dim) : 1;
  a.x_size = x.ndim() ? x.size(dim) : 1;
  a.x_stride = x.ndim() ? x.stride(dim) : 0;
  a.index_stride = index.ndim() ? index.stride(dim) : 0;
  a.src_stride = src.ndim() ? src.stride(dim) : 0;
  a.x = x->data;
  a.index = index.data<int64_t>();
  a.src = src->data;
  return a;
}

}  // namespace

Ints gather_shape(const Tensor& self, int64_t dim, const Tensor& index, bool) {
  dim = wrap_dim("gather", dim, self.ndim());
  check_index("gather", self, dim, index);
  return index.sizes();
}

void gather_kernel(Tensor& result, const Tensor& self, int64_t dim, const Tensor& index, bool) {
  if (index.numel() == 0) return;
  dim = wrap_dim("gather", dim, self.ndim());
  Tensor where = as_int64(index);
  check_values("gather", where, self.ndim() ? self.size(dim) : 1, dim);
  gather_dim(itemsize(self.dtype()), dim_args(self, dim, where, result));
}

Ints scatter_shape(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  dim = wrap_dim("scatter", dim, self.ndim());
  check_index("scatter", self, dim, index);
  FL_CHECK(self.dtype() == src.dtype(), RuntimeError,
           "scatter: src must have self's dtype {}, got {}", self.dtype(), src.dtype());
  bool fits =
      index.numel() == 0 || std::max<int64_t>(src.ndim(), 1) == std::max<int64_t>(index.ndim(), 1);
  for (int64_t d = 0; fits && index.numel() && d < std::min(index.ndim(), src.ndim()); d++)
    fits = index.size(d) <= src.size(d);
  FL_CHECK(fits, RuntimeError, "scatter: index of shape {} is larger than src of shape {}",
           index.sizes(), src.sizes());
  return self.sizes();
}

void scatter_add_kernel(Tensor& result, int64_t dim, const Tensor& index, const Tensor& src) {
  if (index.numel() == 0) return;
  dim = wrap_dim("scatter_add", dim, result.ndim());
  Tensor where = as_int64(index);
  check_values("scatter_add", where, result.ndim() ? result.size(dim) : 1, dim);
  scatter_combine_dim(Combine::Sum, result.dtype(), dim_args(result, dim, where, src));
}

}  // namespace flambeau::ops
