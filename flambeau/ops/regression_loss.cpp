// Losses of numbers against numbers: a formula for each pair, then mean or sum.
#include "flambeau/ops/regression_loss.h"

#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

Tensor reduced(std::string_view op, const Tensor& losses, int64_t reduction) {
  FL_CHECK(reduction >= 0 && reduction <= 2, ValueError,
           "{}: reduction must be 0 (none), 1 (mean) or 2 (sum), got {}", op, reduction);
  if (reduction == 0) return losses;
  return reduction == 1 ? mean(losses, std::optional<DType>())
                        : sum(losses, std::optional<DType>());
}

namespace {

constexpr int64_t kZero = 0, kOne = 1;

Tensor weighed(const Tensor& losses, const Tensor& weight) {
  return weight.defined() ? losses * weight : losses;
}

}  // namespace

Tensor mse_loss_impl(const Tensor& self, const Tensor& target, int64_t reduction) {
  return reduced("mse_loss", _squared_error(self, target), reduction);
}

Tensor l1_loss_impl(const Tensor& self, const Tensor& target, int64_t reduction) {
  return reduced("l1_loss", abs(self - target), reduction);
}

Tensor smooth_l1_loss_impl(const Tensor& self, const Tensor& target, int64_t reduction,
                           double beta) {
  FL_CHECK(beta >= 0, RuntimeError, "smooth_l1_loss: beta must not be negative, got {}", beta);
  if (beta == 0) return l1_loss(self, target, reduction);
  return reduced("smooth_l1_loss", _smooth_l1(self, target, beta), reduction);
}

Tensor huber_loss_impl(const Tensor& self, const Tensor& target, int64_t reduction, double delta) {
  FL_CHECK(delta > 0, RuntimeError, "huber_loss: delta must be positive, got {}", delta);
  return reduced("huber_loss", _huber(self, target, delta), reduction);
}

Tensor binary_cross_entropy_impl(const Tensor& self, const Tensor& target, const Tensor& weight,
                                 int64_t reduction) {
  if (has_memory(self) && self.numel() && !(self->flags & kBatched)) {
    Tensor inside = logical_and(self >= kZero, self <= kOne);
    FL_CHECK(all(inside).item().to_bool(), RuntimeError,
             "binary_cross_entropy: probabilities must be in [0, 1], got {} to {}",
             min(self).item(), max(self).item());
  }
  return reduced("binary_cross_entropy", weighed(_bce(self, target), weight), reduction);
}

// With pos_weight p the loss is (1 - t) x - (1 + (p - 1) t) log(sigmoid(x)).
Tensor binary_cross_entropy_with_logits_impl(const Tensor& self, const Tensor& target,
                                             const Tensor& weight, const Tensor& pos_weight,
                                             int64_t reduction) {
  Tensor losses;
  if (pos_weight.defined()) {
    Tensor share = (pos_weight - kOne) * target + kOne;
    losses = (kOne - target) * self - share * log_sigmoid(self);
  } else {
    losses = _bce_logits(self, target);
  }
  return reduced("binary_cross_entropy_with_logits", weighed(losses, weight), reduction);
}

Tensor kl_div_impl(const Tensor& self, const Tensor& target, int64_t reduction, bool log_target) {
  Tensor losses =
      log_target ? exp(target) * (target - self) : xlogy(target, target) - target * self;
  return reduced("kl_div", losses, reduction);
}

Tensor soft_margin_loss_impl(const Tensor& self, const Tensor& target, int64_t reduction) {
  return reduced("soft_margin_loss", log1p(exp(-target * self)), reduction);
}

Tensor margin_ranking_loss_impl(const Tensor& input1, const Tensor& input2, const Tensor& target,
                                double margin, int64_t reduction) {
  Tensor losses = clamp_min(-target * (input1 - input2) + Scalar(margin), kZero);
  return reduced("margin_ranking_loss", losses, reduction);
}

Tensor hinge_embedding_loss_impl(const Tensor& self, const Tensor& target, double margin,
                                 int64_t reduction) {
  Tensor apart = clamp_min(Scalar(margin) - self, kZero);
  Tensor losses = where(target != kOne, apart, kZero) + where(target != -kOne, self, kZero);
  return reduced("hinge_embedding_loss", losses, reduction);
}

Tensor poisson_nll_loss_impl(const Tensor& input, const Tensor& target, bool log_input, bool full,
                             double eps, int64_t reduction) {
  Tensor losses =
      log_input ? exp(input) - target * input : input - target * log(input + Scalar(eps));
  if (full) {  // Stirling's approximation of log(target!)
    constexpr double kTwoPi = 6.283185307179586;
    Tensor term = target * log(target) - target + log(target * Scalar(kTwoPi)) * Scalar(0.5);
    losses = losses + where(target > kOne, term, kZero);
  }
  return reduced("poisson_nll_loss", losses, reduction);
}

Tensor triplet_margin_loss_impl(const Tensor& anchor, const Tensor& positive,
                                const Tensor& negative, double margin, double p, double eps,
                                bool swap, int64_t reduction) {
  FL_CHECK(anchor.ndim() == positive.ndim() && positive.ndim() == negative.ndim(), RuntimeError,
           "triplet_margin_loss: all three need as many dims, got {}, {} and {}", anchor.sizes(),
           positive.sizes(), negative.sizes());
  FL_CHECK(margin > 0, ValueError, "triplet_margin_loss: margin must be positive, got {}", margin);
  Tensor near = pairwise_distance(anchor, positive, p, eps),
         far = pairwise_distance(anchor, negative, p, eps);
  if (swap) far = minimum(far, pairwise_distance(positive, negative, p, eps));
  return reduced("triplet_margin_loss", clamp_min(near - far + Scalar(margin), kZero), reduction);
}

}  // namespace flambeau::ops
