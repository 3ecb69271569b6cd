// Pooling over one to three spatial dims, forward and backward.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// Spatial dims are (depth, height, width); those that a pooling lacks are 1 with kernel, stride and
// dilation 1 and pad 0. The caller decides the output sizes, hence ceil_mode. x and y are both
// NCDHW-contiguous or, with channels_last, NDHWC-contiguous. adaptive: window o spans [floor(o * in
// / out), ceil((o + 1) * in / out)), and kernel, stride, pad and dilation are not read.
struct PoolArgs {
  DType dtype;
  int64_t batch, channels;
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  bool channels_last = false;
  bool adaptive = false;
  bool count_include_pad = true;  // average: padding counts as elements
  int64_t divisor = 0;            // average: divides by this instead of the window's size, unless 0
  const void* x = nullptr;
  void* y = nullptr;
  int64_t* indices = nullptr;  // maximum: place in the input plane of each output, laid out as y
  const void* gy = nullptr;
  void* gx = nullptr;
};

// The first maximum wins, but any NaN beats it and the last NaN is kept, as in torch. Every real
// dtype.
FL_KERNEL(max_pool_forward, void(const PoolArgs&));   // x -> y, indices (may be null)
FL_KERNEL(max_pool_backward, void(const PoolArgs&));  // gy, indices -> gx; floating types
FL_KERNEL(avg_pool_forward, void(const PoolArgs&));   // x -> y; floating types
FL_KERNEL(avg_pool_backward, void(const PoolArgs&));  // gy -> gx; floating types

}  // namespace flambeau
