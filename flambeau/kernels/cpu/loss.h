// Losses over classes: x is contiguous [n][classes][spatial], target int64 [n][spatial]. Targets
// have been checked (first_out_of_range); those equal to ignore_index count nothing. Weights are of
// x's dtype, or null for ones.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

enum class LossReduction : int { None, Mean, Sum };  // torch's numbers

struct ClassShape {
  DType dtype;
  int64_t n, classes, spatial;
  int64_t ignore_index;
  LossReduction reduction;
  const int64_t* target;
  const void* weight;
};

// loss = -weight[t] * x[t] of log-probabilities x. `loss` and `total_weight` are of x's dtype; loss
// is [n][spatial] for None, else one number; total_weight is the sum of the weights that counted
// (not written for None).
FL_KERNEL(nll_loss_forward, void(const ClassShape&, const void* x, void* loss, void* total_weight));
// g is of loss's shape; every element of gx is written.
FL_KERNEL(nll_loss_backward,
          void(const ClassShape&, const void* g, const void* total_weight, void* gx));

// Cross entropy of logits. lse, the logarithm of the sum of exponentials, is [n][spatial]; it and
// total_weight are saved for backward in Float32 (Float64 for Float64 logits).
FL_KERNEL(cross_entropy_forward, void(const ClassShape&, double label_smoothing, const void* x,
                                      void* loss, void* lse, void* total_weight));
// gx = (softmax(x) - target distribution) * g, scaled as the reduction asks.
FL_KERNEL(cross_entropy_backward,
          void(const ClassShape&, double label_smoothing, const void* g, const void* x,
               const void* lse, const void* total_weight, void* gx));

// The first position whose value is outside [low, high) and is not `ignore`, or -1.
FL_KERNEL(first_out_of_range,
          int64_t(const int64_t* values, int64_t n, int64_t low, int64_t high, int64_t ignore));

}  // namespace flambeau
