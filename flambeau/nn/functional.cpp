// Options turned into the arguments of operators.
#include "flambeau/nn/functional.h"

#include "flambeau/generated/ops.h"

namespace flambeau::nn::functional {

Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyOptions& o) {
  return ops::cross_entropy_loss(input, target, o.weight, int64_t(o.reduction), o.ignore_index,
                                 o.label_smoothing);
}

Tensor nll_loss(const Tensor& input, const Tensor& target, const NllOptions& o) {
  return ops::nll_loss_nd(input, target, o.weight, int64_t(o.reduction), o.ignore_index);
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return ops::mse_loss(input, target, int64_t(reduction));
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return ops::l1_loss(input, target, int64_t(reduction));
}

Tensor max_pool2d(const Tensor& input, Pair kernel, const MaxPool2dOptions& o) {
  Pair stride = o.stride.value_or(kernel);
  return ops::max_pool2d(input, {kernel.height, kernel.width}, {stride.height, stride.width},
                         {o.padding.height, o.padding.width}, {o.dilation.height, o.dilation.width},
                         o.ceil_mode);
}

Tensor dropout(const Tensor& input, double p, bool training) {
  FL_CHECK(p >= 0 && p <= 1, ValueError, "dropout: p must be in [0, 1], got {}", p);
  return ops::dropout(input, p, training);
}

}  // namespace flambeau::nn::functional
