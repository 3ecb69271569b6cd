// Weighted sums of chosen elements along one dim: resizing, borders, and the adjoints of both.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// x is [outer][in][inner], y [outer][out][inner], both contiguous, Float32 or Float64. Element i of
// y is the sum of weights[e] * x[places[e]] over e from starts[i] to starts[i + 1].
struct ResampleArgs {
  DType dtype;
  int64_t outer, in, out, inner;
  const int64_t *starts, *places;
  const void* weights;  // null: all are 1
  const void* x;
  void* y;
};
FL_KERNEL(resample, void(const ResampleArgs&));

}  // namespace flambeau
