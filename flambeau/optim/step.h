// One step of an optimizer over a list of parameters: what torch.optim's SGD, Adam and AdamW do
// with a group. The arithmetic is in kernels/cpu/optim.cpp.
#pragma once
#include <span>

#include "flambeau/core/tensor.h"
#include "flambeau/kernels/cpu/optim.h"

namespace flambeau {

// A parameter, its gradient and its state; all borrowed, all of one dtype and shape.
struct StepItem {
  TensorImpl* param = nullptr;
  TensorImpl* grad = nullptr;
  TensorImpl* state[3] = {};    // as in StepArrays
  TensorImpl* steps = nullptr;  // adam: the number of steps taken, a 0-d tensor
  bool fresh = false;           // sgd: the momentum buffer has no value yet
};

// Write parameters and state in place; nothing is recorded, version counters rise.
FL_API void sgd_step(std::span<const StepItem> items, const SgdOptions& options);
FL_API void adam_step(std::span<const StepItem> items, const AdamOptions& options);

// The 2-norm of all tensors taken together, as clip_grad_norm_ defines it.
FL_API double total_norm(TensorList tensors);
// Multiplies every tensor in place.
FL_API void scale_all(TensorList tensors, double factor);

}  // namespace flambeau
