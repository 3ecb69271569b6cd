// What attention and its derivative tell their kernels in the same way.
#pragma once
#include "flambeau/core/tensor.h"
#include "flambeau/kernels/cpu/attention.h"

namespace flambeau::ops {

// The tensor itself if its rows are adjacent elements, else a copy. May be undefined. No tape.
Tensor attention_rows_dense(const Tensor& t);

AttentionArgs attention_args(const Tensor& query, const Tensor& key, const Tensor& value,
                             const Tensor& mask, bool is_causal, double scale, bool rounded);

}  // namespace flambeau::ops
