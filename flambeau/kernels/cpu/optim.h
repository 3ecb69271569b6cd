// Steps of optimizers over many tensors at once. Each tensor's arrays lie alike in memory, so that
// they are read as flat runs.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

struct StepArrays {  // one parameter
  void* param;
  const void* grad;
  void* state[3];  // sgd: momentum buffer; adam: mean, mean square, its maximum; each may be null
  int64_t n;
  bool fresh;  // sgd: the momentum buffer has no value yet
  // adam: what depends on the number of steps.
  double step_size, root_correction;
};

struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false;
  bool decoupled = false;  // AdamW: the decay acts on the parameter, not on the gradient
};

// All arrays have the dtype `t` (f16, bf16, f32, f64): halves are widened, the step is taken in
// float and rounded once.
FL_KERNEL(sgd_arrays, void(DType t, const StepArrays* list, int64_t count, const SgdOptions&));
FL_KERNEL(adam_arrays, void(DType t, const StepArrays* list, int64_t count, const AdamOptions&));
// The sum of squares of one array, in double.
FL_KERNEL(sum_squares, double(DType t, const void* x, int64_t n));
FL_KERNEL(scale_array, void(DType t, void* x, int64_t n, double factor));

}  // namespace flambeau
