// What only some tensors have: a gradient, hooks, a level. Made when first needed.
#pragma once
#include <vector>

#include "flambeau/core/tensor.h"

namespace flambeau {

// A hook of a tensor or node. `call` gets the gradient and may return another; the Python layer
// fills both pointers.
struct Hook {
  int64_t id = 0;
  int nr = 0;  // which output of the node
  Tensor (*call)(void* context, const Tensor& grad) = nullptr;
  void (*drop)(void* context) = nullptr;
  void* context = nullptr;
};

struct TensorMeta {
  Tensor grad;
  bool retains_grad = false;
  std::vector<Hook> hooks;             // before accumulation
  std::vector<Hook> after_accumulate;  // post-accumulate-grad hooks: get the leaf
  bool view_of_multi = false;   // one of several views made at once: in-place on it is an error
  Node* accumulator = nullptr;  // the AccumulateGrad node, once somebody looked at it (not owned)
  // Batch level and tangent of func transforms.
  int16_t level = -1;
  int16_t batch_dim = -1;
  Tensor batched_value, tangent;
  std::vector<Tensor> parts;  // of a sparse tensor (ops/sparse.h)
  bool is_coalesced = false;
};

FL_API TensorMeta& meta_of(TensorImpl* impl);  // creates it

}  // namespace flambeau
