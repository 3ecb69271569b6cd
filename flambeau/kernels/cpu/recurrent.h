// A layer of long short-term memory (Hochreiter and Schmidhuber 1997) over all steps.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// x and gates are [steps][batch][4][hidden] (input, forget, cell, output), output and cells
// [steps][batch][hidden], the states before the first step [batch][hidden], w [4 hidden][hidden].
// Everything is contiguous; dtype is Float32 or Float64. With `reverse` the last step is the first.
struct LstmArgs {
  DType dtype;
  int64_t steps, batch, hidden;
  bool reverse = false;
  const void *x = nullptr, *h0 = nullptr, *c0 = nullptr, *w = nullptr;
  const void* bias = nullptr;                                  // (4 hidden,), may be null
  void *output = nullptr, *cells = nullptr, *gates = nullptr;  // gates as they act
  const void *g_output = nullptr, *g_cells = nullptr;          // either may be null
  void *gx = nullptr, *gh0 = nullptr, *gc0 = nullptr;          // of x, h0, c0
};
FL_KERNEL(lstm_forward, void(const LstmArgs&));
FL_KERNEL(lstm_backward, void(const LstmArgs&));

}  // namespace flambeau
