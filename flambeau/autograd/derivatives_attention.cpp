// Derivatives of attention. A kernel computes all three at once; a graph of the backward is made of
// plain ops.
#include "flambeau/autograd/derivatives.h"
#include "flambeau/ops/attention.h"

namespace flambeau {

namespace {

constexpr double kInfinity = __builtin_inf();

// The weights of all columns, (n, h, l, s), as a graph. A row that sees nothing has weights zero.
Tensor weights_of(const Tensor& query, const Tensor& key, const Tensor& mask,
                  const Tensor& logsumexp, bool is_causal, double scale) {
  Tensor scores = ops::matmul(query * Scalar(scale), ops::transpose(key, -2, -1));
  Tensor seen = mask;
  if (is_causal) {
    Tensor all = ops::ones({query.size(2), key.size(2)}, DType::Bool, {}, query.device());
    seen = ops::tril(all);
  }
  if (seen.defined() && seen.dtype() == DType::Bool) {
    scores = ops::where(seen, scores, Scalar(-kInfinity));
  } else if (seen.defined()) {
    scores = scores + seen;
  }
  Tensor blind = ops::eq(ops::unsqueeze(ops::detach(logsumexp), -1), Scalar(-kInfinity));
  return ops::masked_fill(ops::softmax(ops::masked_fill(scores, blind, Scalar(0.0)), -1), blind,
                          Scalar(0.0));
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> attention_grads(const Tensor& g, const Tensor& query,
                                                   const Tensor& key, const Tensor& value,
                                                   const Tensor& mask, const Tensor& values,
                                                   const Tensor& logsumexp, bool is_causal,
                                                   double scale, bool rounded,
                                                   std::array<bool, 3> wanted) {
  if (tls.grad) {
    Tensor weights = weights_of(query, key, mask, logsumexp, is_causal, scale);
    Tensor heads = ops::transpose(g, 1, 2);
    Tensor slopes = ops::matmul(heads, ops::transpose(value, -2, -1));
    slopes = weights * (slopes - ops::sum(weights * slopes, IntList{-1}, true)) * Scalar(scale);
    return {wanted[0] ? ops::matmul(slopes, key) : Tensor(),
            wanted[1] ? ops::matmul(ops::transpose(slopes, -2, -1), query) : Tensor(),
            wanted[2] ? ops::matmul(ops::transpose(weights, -2, -1), heads) : Tensor()};
  }
  Tensor q = ops::attention_rows_dense(query), k = ops::attention_rows_dense(key),
         v = ops::attention_rows_dense(value), m = ops::attention_rows_dense(mask);
  Tensor gd = dense(g), grads[3];
  const Tensor* of[3] = {&q, &k, &v};
  for (int i = 0; i < 3; i++) {
    const Tensor& t = *of[i];
    if (!wanted[size_t(i)]) continue;
    grads[i] = new_tensor({t.size(0), t.size(2), t.size(1), t.size(3)}, t.dtype(), t.device());
  }
  AttentionArgs a = ops::attention_args(q, k, v, m, is_causal, scale, rounded);
  a.g = gd->data, a.values = values->data, a.logsumexp = logsumexp->data;
  a.gq = data_or_null(grads[0]), a.gk = data_or_null(grads[1]), a.gv = data_or_null(grads[2]);
  if (has_memory(q)) attention_backward(a);
  for (Tensor& t : grads) {
    if (t.defined()) t = ops::transpose(t, 1, 2);
  }
  return {grads[0], grads[1], grads[2]};
}

}  // namespace flambeau
