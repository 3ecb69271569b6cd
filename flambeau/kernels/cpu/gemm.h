// Matrix products: c = act(alpha * a @ b + beta * c + bias).
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// a is (m, k), b is (k, n), c is (m, n) with adjacent columns. Strides are in elements; those of a
// and b are free (transposed, strided, expanded). With beta == 0 c is not read.
struct GemmArgs {
  DType dtype;
  int64_t m, n, k;
  const void* a = nullptr;
  int64_t a_row = 0, a_col = 1;
  const void* b = nullptr;
  int64_t b_row = 0, b_col = 1;
  void* c = nullptr;
  int64_t c_row = 0;
  double alpha = 1, beta = 0;
  const void* bias = nullptr;  // one value per column of c, of type dtype
  int activation = 0;          // 0 none, 1 relu
  bool rounded = false;        // elements of Float32 may be rounded to bfloat16 on the way
};

FL_KERNEL(gemm, void(const GemmArgs&));

// Products of `batch` equal shapes; the steps lead from one matrix to the next and may be 0 for a
// and b.
FL_KERNEL(gemm_batched, void(const GemmArgs& first, int64_t batch, int64_t a_step, int64_t b_step,
                             int64_t c_step));

}  // namespace flambeau
