// Views followed by a copy: for programs in which no result may share memory with an argument.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

std::vector<Tensor> clones(std::vector<Tensor> views) {
  for (Tensor& t : views) t = clone(t);
  return views;
}

}  // namespace

Tensor alias_copy_impl(const Tensor& self) { return clone(self); }
Tensor as_strided_copy_impl(const Tensor& self, IntList size, IntList stride,
                            std::optional<int64_t> storage_offset) {
  return clone(as_strided(self, size, stride, storage_offset));
}
Tensor detach_copy_impl(const Tensor& self) { return clone(detach(self)); }
Tensor diagonal_copy_impl(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  return clone(diagonal(self, offset, dim1, dim2));
}
Tensor expand_copy_impl(const Tensor& self, IntList size, bool implicit) {
  return clone(expand(self, size, implicit));
}
Tensor permute_copy_impl(const Tensor& self, IntList dims) { return clone(permute(self, dims)); }
Tensor select_copy_impl(const Tensor& self, int64_t dim, int64_t index) {
  return clone(select(self, dim, index));
}
Tensor slice_copy_impl(const Tensor& self, int64_t dim, std::optional<int64_t> start,
                       std::optional<int64_t> end, int64_t step) {
  return clone(slice(self, dim, start, end, step));
}
Tensor squeeze_copy_impl(const Tensor& self) { return clone(squeeze(self)); }
Tensor squeeze_copy_impl(const Tensor& self, int64_t dim) { return clone(squeeze(self, dim)); }
Tensor squeeze_copy_impl(const Tensor& self, IntList dim) { return clone(squeeze(self, dim)); }
Tensor t_copy_impl(const Tensor& self) { return clone(t(self)); }
Tensor transpose_copy_impl(const Tensor& self, int64_t dim0, int64_t dim1) {
  return clone(transpose(self, dim0, dim1));
}
Tensor unfold_copy_impl(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return clone(unfold(self, dimension, size, step));
}
Tensor unsqueeze_copy_impl(const Tensor& self, int64_t dim) { return clone(unsqueeze(self, dim)); }
Tensor view_as_complex_copy_impl(const Tensor& self) { return clone(view_as_complex(self)); }
Tensor view_as_real_copy_impl(const Tensor& self) { return clone(view_as_real(self)); }
Tensor view_copy_impl(const Tensor& self, IntList size) { return clone(view(self, size)); }
Tensor view_copy_impl(const Tensor& self, DType dtype) { return clone(view(self, dtype)); }
Tensor narrow_copy_impl(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  return clone(narrow(self, dim, start, length));
}
std::vector<Tensor> split_copy_impl(const Tensor& self, int64_t split_size, int64_t dim) {
  return clones(split(self, split_size, dim));
}
std::vector<Tensor> split_with_sizes_copy_impl(const Tensor& self, IntList split_sizes,
                                               int64_t dim) {
  return clones(split_with_sizes(self, split_sizes, dim));
}
std::vector<Tensor> unbind_copy_impl(const Tensor& self, int64_t dim) {
  return clones(unbind(self, dim));
}
std::vector<Tensor> unsafe_chunk_impl(const Tensor& self, int64_t chunks, int64_t dim) {
  return clones(chunk(self, chunks, dim));
}
std::vector<Tensor> unsafe_split_impl(const Tensor& self, int64_t split_size, int64_t dim) {
  return clones(split(self, split_size, dim));
}
std::vector<Tensor> unsafe_split_with_sizes_impl(const Tensor& self, IntList split_sizes,
                                                 int64_t dim) {
  return clones(split_with_sizes(self, split_sizes, dim));
}

}  // namespace flambeau::ops
