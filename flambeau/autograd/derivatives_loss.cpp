// Derivatives of losses over classes.
#include "flambeau/autograd/derivatives.h"
#include "flambeau/ops/class_loss.h"
#include "flambeau/ops/indices.h"

namespace flambeau {

namespace {

// A row of class weights as it broadcasts against (n, c, *).
Tensor class_row(const Tensor& self, const Tensor& weight) {
  Ints sizes(static_cast<size_t>(self.ndim()), 1);
  sizes[1] = self.size(1);
  return weight.defined() ? ops::reshape(weight, sizes)
                          : ops::full(sizes, Scalar(1.0), self.dtype(), {}, self.device());
}

// The distribution that targets stand for, weighted; zero where they are ignored.
Tensor target_shares(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t ignore,
                     double smoothing) {
  NoGradGuard no_grad;
  Tensor valid = ops::unsqueeze(target != Scalar(ignore), 1);
  Tensor classes = ops::where(valid, ops::unsqueeze(target, 1), Scalar(int64_t{0}));
  Tensor ones = ops::to(valid, self.dtype());
  Tensor row = class_row(self, weight);
  Tensor shares = ops::scatter_add(zeros_for(self, self.sizes()), 1, classes, ones) * row *
                  Scalar(1 - smoothing);
  if (smoothing > 0) shares = shares + row * ones * Scalar(smoothing / double(self.size(1)));
  return shares;
}

// g as it multiplies (n, c, *), divided by the weights of a mean.
Tensor scale_of(const Tensor& g, const Tensor& total_weight, int64_t reduction) {
  if (reduction == 0) return ops::unsqueeze(g, 1);
  return reduction == 1 ? g / ops::to(total_weight, g.dtype()) : g;
}

}  // namespace

// (softmax(x) * sum of shares - shares) * g
Tensor cross_entropy_grad(const Tensor& g, const Tensor& self, const Tensor& target,
                          const Tensor& weight, const Tensor& lse, const Tensor& total_weight,
                          int64_t reduction, int64_t ignore_index, double label_smoothing) {
  if (tls.grad) {
    Tensor shares =
        target_shares(self, ops::as_int64(target), weight, ignore_index, label_smoothing);
    int64_t dim = 1;
    Tensor all = ops::detach(ops::sum(shares, IntList(&dim, 1), true));
    return (ops::softmax(self, 1) * all - shares) * scale_of(g, total_weight, reduction);
  }
  Tensor classes = dense(ops::as_int64(target));
  Tensor x = dense(self), w = dense(weight), grad = dense(g);
  Tensor gx = new_tensor(x.sizes(), x.dtype(), x.device());
  if (!has_memory(x)) return gx;
  ClassShape s = ops::class_shape(x, classes, w, reduction, ignore_index);
  cross_entropy_backward(s, label_smoothing, grad->data, x->data, lse->data, total_weight->data,
                         gx->data);
  return gx;
}

Tensor nll_loss_grad(const Tensor& g, const Tensor& self, const Tensor& target,
                     const Tensor& weight, const Tensor& total_weight, int64_t reduction,
                     int64_t ignore_index) {
  if (tls.grad)
    return -target_shares(self, ops::as_int64(target), weight, ignore_index, 0) *
           scale_of(g, total_weight, reduction);
  Tensor classes = dense(ops::as_int64(target));
  Tensor w = dense(weight), grad = dense(g);
  Tensor gx = new_tensor(self.sizes(), self.dtype(), self.device());
  if (!has_memory(gx)) return gx;
  ClassShape s = ops::class_shape(self, classes, w, reduction, ignore_index);
  nll_loss_backward(s, grad->data, total_weight->data, gx->data);
  return gx;
}

}  // namespace flambeau
