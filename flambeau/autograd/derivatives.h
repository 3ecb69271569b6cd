// Derivatives too big for a row. Each says what it computes; all call ops, so that they can be
// differentiated again.
#pragma once
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau {

// Sums dims of `g` away that were broadcast, so that it has `sizes`.
Tensor sum_to(const Tensor& g, IntList sizes);
// The gradient of a sum: g, with the reduced dims back, repeated to `sizes`.
Tensor expand_reduced(const Tensor& g, IntList sizes, const Dims& dim, bool keepdim);
inline Tensor expand_reduced(const Tensor& g, IntList sizes, int, int) {
  return expand_reduced(g, sizes, std::nullopt, false);
}
Tensor as_strided_backward(const Tensor& g, IntList base_sizes, IntList size, IntList stride,
                           std::optional<int64_t> offset);

}  // namespace flambeau
