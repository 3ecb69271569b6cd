// What only some tensors have: a gradient, hooks, a view's base, a level. Made when first needed.
#pragma once
#include <vector>

#include "flambeau/core/tensor.h"

namespace flambeau {

// A hook of a tensor or node. `call` gets the gradient and may return another; the Python layer
// fills both pointers.
struct Hook {
  int64_t id;
  Tensor (*call)(void* context, const Tensor& grad);
  void (*drop)(void* context);
  void* context;
};

struct TensorMeta {
  Tensor grad;
  bool retains_grad = false;
  std::vector<Hook> hooks;             // before accumulation
  std::vector<Hook> after_accumulate;  // post-accumulate-grad hooks: get the leaf
  // A view: where writing through it must go. The geometry is the impl's own sizes, strides and
  // offset.
  Tensor base;
  uint32_t base_version = 0;   // version at which grad_fn was last rebuilt
  bool view_of_multi = false;  // one of several views made at once: in-place on it is an error
  bool made_in_no_grad = false;
  Node* accumulator = nullptr;  // the AccumulateGrad node, once somebody looked at it (not owned)
  // Batch level and tangent of func transforms.
  int16_t level = -1;
  int16_t batch_dim = -1;
  Tensor batched_value, tangent;
};

FL_API TensorMeta& meta_of(TensorImpl* impl);  // creates it

}  // namespace flambeau
