// Softmax and its logarithm along the middle dim of contiguous [outer][n][inner]; inner = 1 is a
// row.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// y = exp(x - max) / sum, or with `log` x - max - log(sum).
FL_KERNEL(softmax_forward,
          void(DType, const void* x, void* y, int64_t outer, int64_t n, int64_t inner, bool log));

// gx = y * (g - sum(g * y)), or with `log` g - exp(y) * sum(g).
FL_KERNEL(softmax_backward, void(DType, const void* g, const void* y, void* gx, int64_t outer,
                                 int64_t n, int64_t inner, bool log));

}  // namespace flambeau
