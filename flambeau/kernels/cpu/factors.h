// LU and Cholesky factors, and triangular systems, of batches of contiguous matrices in place.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// a (batch, m, n) becomes L and U of P A = L U; pivots (batch, min(m, n)) the rows exchanged, from
// 1; info (batch) the place of the first zero pivot, from 1, or 0.
FL_KERNEL(lu_matrices, void(DType, void* a, int64_t batch, int64_t m, int64_t n, int32_t* pivots,
                            int32_t* info, bool pivot));

// Rows of x (batch, n, k) change places as lu_matrices says.
FL_KERNEL(exchange_rows,
          void(DType, void* x, int64_t batch, int64_t n, int64_t k, const int32_t* pivots));

// x (batch, n, k) becomes the solution of a x = x; of a (batch, n, n) one triangle is read, without
// its diagonal if unit.
FL_KERNEL(triangular_matrices, void(DType, const void* a, void* x, int64_t batch, int64_t n,
                                    int64_t k, bool upper, bool unit));

// a (batch, n, n) = L L^H becomes L, from its lower triangle, or L^H, from its upper one, with
// zeros in the other; info (batch) the order of the first leading minor that is not positive, or 0.
FL_KERNEL(cholesky_matrices,
          void(DType, void* a, int64_t batch, int64_t n, bool upper, int32_t* info));

}  // namespace flambeau
