// Derivatives of ops that only move or repeat elements.
#include "flambeau/autograd/derivatives.h"

namespace flambeau {

Tensor sum_to(const Tensor& g, IntList sizes) { return ops::sum_to_size(g, sizes); }

Tensor expand_reduced(const Tensor& g, IntList sizes, const Dims& dim, bool keepdim) {
  int64_t n = int64_t(sizes.size());
  if (n == 0) return g;
  if (keepdim || !dim || dim->empty()) return ops::expand(g, sizes);
  uint64_t mask = 0;
  for (int64_t d : *dim) mask |= uint64_t{1} << wrap_dim("sum", d, n);
  Ints kept;
  for (int64_t d = 0; d < n; d++) kept.push_back(mask >> d & 1 ? 1 : sizes[size_t(d)]);
  return ops::expand(ops::reshape(g, kept), sizes);
}

Tensor as_strided_backward(const Tensor& g, IntList base_sizes, IntList size, IntList stride,
                           std::optional<int64_t> offset) {
  Tensor zeros = ops::zeros(base_sizes, g.dtype(), {}, g.device());
  return ops::as_strided_scatter(zeros, g, size, stride, offset);
}

}  // namespace flambeau
