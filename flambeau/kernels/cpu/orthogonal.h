// QR decompositions of batches of contiguous matrices, and products with their reflections.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// a (batch, m, n) becomes R, and below its diagonal the reflections that tau (batch, min(m, n))
// belongs to; q (batch, m, columns), unless null, the first columns of their product.
FL_KERNEL(qr_matrices, void(DType, void* a, void* tau, void* q, int64_t batch, int64_t m, int64_t n,
                            int64_t columns));

}  // namespace flambeau
