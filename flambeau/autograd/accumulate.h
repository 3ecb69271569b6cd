// Gradients arriving at leaves.
#pragma once
#include "flambeau/tape/node.h"

namespace flambeau {

// The leaf's meta or null, also while another thread makes it.
inline TensorMeta* meta_if_any(TensorImpl* leaf) {
  return std::atomic_ref(leaf->meta).load(std::memory_order_acquire);
}
// What arrives at a leaf, as its hooks change it.
Tensor hooked_leaf_grad(TensorImpl* leaf, Tensor g);
// Adds `g` to a tensor's gradient: in place unless a graph of the backward is being made.
void accumulate_grad(TensorImpl* leaf, Tensor g);
// A gradient as the hooks see and change it.
Tensor run_hooks(const std::vector<Hook>& hooks, int nr, Tensor g);
// a + b, where either may be undefined; `a` is overwritten if nobody else holds it.
Tensor add_grads(Tensor a, Tensor b);

}  // namespace flambeau
