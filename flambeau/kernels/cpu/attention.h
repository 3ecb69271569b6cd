// Attention: values = softmax(scale * q k^T + mask) v, computed by blocks, so that no matrix of all
// scores is ever made.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// Rows of adjacent elements; steps in elements from one batch, head and row to the next.
struct AttentionOperand {
  const void* data = nullptr;
  int64_t step[3] = {};
};

// q is [batch][heads][rows][depth], k [batch][heads][cols][depth], v [batch][heads][cols][width].
// Whatever is written is contiguous: values and the gradients [batch][row][heads][element],
// logsumexp [batch][heads][rows]. dtype: Float32 or Float64.
struct AttentionArgs {
  DType dtype;
  int64_t batch, heads, rows, cols, depth, width;
  double scale;
  bool causal = false;   // row i sees columns 0 to i
  bool rounded = false;  // factors of Float32 may be rounded to bfloat16
  AttentionOperand q, k, v;
  AttentionOperand mask;  // may be absent: added, or Bool: a column counts where it is true
  bool mask_is_bool = false;
  void *values = nullptr, *logsumexp = nullptr;  // written forward, read backward
  const void* g = nullptr;                       // like values
  void *gq = nullptr, *gk = nullptr, *gv = nullptr;
};
// A row that sees no column gets zeros.
FL_KERNEL(attention_forward, void(const AttentionArgs&));
FL_KERNEL(attention_backward, void(const AttentionArgs&));

}  // namespace flambeau
