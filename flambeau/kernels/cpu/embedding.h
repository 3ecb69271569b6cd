// Rows of a table by index, and the sum of gradients per row.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// out[i] = table[indices[i]] for rows of `row_bytes` bytes, `stride_bytes` apart in the table.
// Indices have been checked.
FL_KERNEL(embedding_rows, void(const void* table, int64_t stride_bytes, int64_t row_bytes,
                               const int64_t* indices, int64_t n, void* out));

struct EmbeddingGrads {
  DType dtype;
  int64_t n, rows, dim;   // indices, rows of the table, numbers per row
  int64_t padding_index;  // gets no gradient; negative for none
  bool scale_by_frequency;
  const int64_t* indices;
  const void* g;  // [n][dim]
  void* gw;       // [rows][dim]; every element is written
};
// Each row adds its gradients in the order of the indices, whatever the number of threads.
FL_KERNEL(embedding_backward, void(const EmbeddingGrads&));

}  // namespace flambeau
