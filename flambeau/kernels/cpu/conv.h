// Convolution over one to three spatial dims, forward and both backwards.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// Spatial dims are (depth, height, width); those that a convolution lacks are 1 with kernel, stride
// and dilation 1 and pad 0. x and y (and their gradients) are both NCDHW-contiguous or, with
// channels_last, NDHWC-contiguous. w is (c_out, c_in / groups, depth, height, width), contiguous. A
// kernel reads and writes only the pointers it names.
struct ConvArgs {
  DType dtype;
  int64_t batch, c_in, c_out, groups;
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  bool channels_last = false;
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;  // (c_out,), may be null
  void* y = nullptr;
  const void* gy = nullptr;
  void* gx = nullptr;
  void* gw = nullptr;
  void* gbias = nullptr;  // may be null
};

FL_KERNEL(conv_forward, void(const ConvArgs&));          // x, w, bias -> y
FL_KERNEL(conv_backward_input, void(const ConvArgs&));   // gy, w -> gx
FL_KERNEL(conv_backward_weight, void(const ConvArgs&));  // x, gy -> gw, gbias

}  // namespace flambeau
