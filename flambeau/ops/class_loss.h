// What forward and backward of the losses over classes share.
#pragma once
#include "flambeau/core/tensor.h"
#include "flambeau/kernels/cpu/loss.h"

namespace flambeau::ops {

// self (n, c, *), target int64 (n, *), both contiguous.
ClassShape class_shape(const Tensor& self, const Tensor& target, const Tensor& weight,
                       int64_t reduction, int64_t ignore_index);

}  // namespace flambeau::ops
