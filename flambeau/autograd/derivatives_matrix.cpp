// Derivatives of the linear layer.
#include "flambeau/autograd/derivatives.h"

namespace flambeau {

// dx = g @ W
Tensor linear_input_backward(const Tensor& g, const Tensor& weight) {
  if (weight.ndim() == 2) return ops::matmul(g, ops::conj(weight));
  return ops::unsqueeze(g, -1) * ops::conj(weight);
}

// dW = g.T @ x, over all rows
Tensor linear_weight_backward(const Tensor& g, const Tensor& input, int64_t ndim) {
  int64_t count = numel_of(IntList(input->sizes, size_t(input.ndim() - 1)));
  Tensor rows = ops::reshape(input, {count, input.size(-1)});
  if (ndim == 1) return ops::mv(ops::adjoint(rows), ops::reshape(g, {-1}));
  Tensor gs = ops::reshape(g, {rows.size(0), g.size(-1)});
  return ops::mm(ops::transpose(gs, 0, 1), ops::conj(rows));
}

}  // namespace flambeau
