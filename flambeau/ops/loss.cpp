// Losses over classes: checks of targets, calls of the kernels.
#include "flambeau/kernels/cpu/loss.h"

#include "flambeau/generated/impl.h"
#include "flambeau/ops/class_loss.h"
#include "flambeau/ops/indices.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

void check_shapes(std::string_view op, const Tensor& self, const Tensor& target,
                  const Tensor& weight) {
  FL_CHECK(is_float(self.dtype()), RuntimeError, "{}: floating scores are needed, got {}", op,
           self.dtype());
  FL_CHECK(target.dtype() == DType::Int64 || target.dtype() == DType::UInt8, RuntimeError,
           "{}: class indices must be int64, got {}", op, target.dtype());
  bool fits =
      self.ndim() >= 2 && target.ndim() == self.ndim() - 1 && target.size(0) == self.size(0);
  for (int64_t d = 2; fits && d < self.ndim(); d++) fits = target.size(d - 1) == self.size(d);
  FL_CHECK(fits, ValueError,
           "{}: scores of shape {} need targets of the same sizes without the class dim, got {}",
           op, self.sizes(), target.sizes());
  FL_CHECK(!weight.defined() || (weight.ndim() == 1 && weight.size(0) == self.size(1)),
           RuntimeError, "{}: weight must have shape ({},), got {}", op, self.size(1),
           weight.defined() ? weight.sizes() : IntList());
  FL_CHECK(!weight.defined() || weight.dtype() == self.dtype(), RuntimeError,
           "{}: weight must be {} like the scores, got {}", op, self.dtype(),
           weight.defined() ? weight.dtype() : DType{});
}

Ints loss_shape(const Tensor& target, int64_t reduction) {
  FL_CHECK(reduction >= 0 && reduction <= 2, ValueError,
           "loss: reduction must be 0 (none), 1 (mean) or 2 (sum), got {}", reduction);
  return reduction == 0 ? Ints(target.sizes()) : Ints();
}

// The first bad target is named with its position.
void check_targets(std::string_view op, const Tensor& target, int64_t classes, int64_t ignore) {
  int64_t at = first_out_of_range(target.data<int64_t>(), target.numel(), 0, classes, ignore);
  if (at < 0) return;
  Ints place;
  int64_t rest = at;
  for (int64_t d = target.ndim() - 1; d >= 0; d--) {
    place.insert(0, rest % target.size(d));
    rest /= target.size(d);
  }
  fail<IndexError>("{}: target {} at {} is outside [0, {})", op, target.data<int64_t>()[at], place,
                   classes);
}

}  // namespace

ClassShape class_shape(const Tensor& self, const Tensor& target, const Tensor& weight,
                       int64_t reduction, int64_t ignore_index) {
  int64_t spatial = 1;
  for (int64_t d = 2; d < self.ndim(); d++) spatial *= self.size(d);
  ClassShape s{};
  s.dtype = self.dtype();
  s.n = self.size(0);
  s.classes = self.size(1);
  s.spatial = spatial;
  s.ignore_index = ignore_index;
  s.reduction = LossReduction(reduction);
  s.target = target.data<int64_t>();
  s.weight = weight.defined() ? weight->data : nullptr;
  return s;
}

Ints class_loss_shape(const Tensor& self, const Tensor& target, const Tensor& weight,
                      int64_t reduction, int64_t, double smoothing) {
  check_shapes("cross_entropy", self, target, weight);
  FL_CHECK(smoothing >= 0 && smoothing <= 1, RuntimeError,
           "cross_entropy: label_smoothing must be in [0, 1], got {}", smoothing);
  return loss_shape(target, reduction);
}
Ints class_lse_shape(const Tensor&, const Tensor& target, const Tensor&, int64_t, int64_t, double) {
  return target.sizes();
}
Ints class_weight_shape(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, double) {
  return {};
}
DType class_sum_dtype(const Tensor& self, const Tensor&, const Tensor&, int64_t, int64_t, double) {
  return self.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
}

void cross_entropy_kernel(Tensor& loss, Tensor& lse, Tensor& total_weight, const Tensor& self,
                          const Tensor& target, const Tensor& weight, int64_t reduction,
                          int64_t ignore_index, double label_smoothing) {
  Tensor classes = as_int64(target);
  check_targets("cross_entropy", classes, self.size(1), ignore_index);
  ClassShape s = class_shape(self, classes, weight, reduction, ignore_index);
  cross_entropy_forward(s, label_smoothing, self->data, loss->data, lse->data, total_weight->data);
}

Ints nll_loss_shape(const Tensor& self, const Tensor& target, const Tensor& weight,
                    int64_t reduction, int64_t) {
  check_shapes("nll_loss", self, target, weight);
  return loss_shape(target, reduction);
}
Ints nll_weight_shape(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t) { return {}; }

void nll_loss_kernel(Tensor& loss, Tensor& total_weight, const Tensor& self, const Tensor& target,
                     const Tensor& weight, int64_t reduction, int64_t ignore_index) {
  Tensor classes = as_int64(target);
  check_targets("nll_loss", classes, self.size(1), ignore_index);
  ClassShape s = class_shape(self, classes, weight, reduction, ignore_index);
  nll_loss_forward(s, self->data, loss->data, total_weight->data);
}

namespace {

// One sample without a batch gets one for the length of the call.
template <class F>
Tensor with_batch(const Tensor& self, const Tensor& target, int64_t reduction, F f) {
  if (self.ndim() != 1) return f(self, target);
  Tensor loss = f(unsqueeze(self, 0), unsqueeze(target, 0));
  return reduction == 0 ? squeeze(loss, 0) : loss;
}

// Targets that are probabilities: every class counts by its share.
Tensor soft_cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight,
                          int64_t reduction, double smoothing) {
  FL_CHECK(is_float(target.dtype()), RuntimeError,
           "cross_entropy: targets of the scores' shape are probabilities, got {}", target.dtype());
  int64_t dim = self.ndim() == 1 ? 0 : 1, classes = self.size(dim);
  Tensor share = target;
  if (smoothing > 0) share = share * Scalar(1 - smoothing) + Scalar(smoothing / double(classes));
  Tensor terms = log_softmax(self, dim) * share;
  if (weight.defined()) {
    Ints sizes(static_cast<size_t>(self.ndim()), 1);
    sizes[size_t(dim)] = classes;
    terms = terms * reshape(weight, sizes);
  }
  if (reduction == 0) return -sum(terms, IntList(&dim, 1));
  Tensor total = -sum(terms);
  int64_t samples = classes ? self.numel() / classes : 0;
  return reduction == 1 ? total / Scalar(double(samples)) : total;
}

}  // namespace

Tensor cross_entropy_loss_impl(const Tensor& self, const Tensor& target, const Tensor& weight,
                               int64_t reduction, int64_t ignore_index, double label_smoothing) {
  if (self.sizes() == target.sizes() && self.ndim() > 0) {
    return soft_cross_entropy(self, target, weight, reduction, label_smoothing);
  }
  return with_batch(self, target, reduction, [&](const Tensor& x, const Tensor& t) {
    return std::get<0>(_cross_entropy(x, t, weight, reduction, ignore_index, label_smoothing));
  });
}

Tensor nll_loss_impl(const Tensor& self, const Tensor& target, const Tensor& weight,
                     int64_t reduction, int64_t ignore_index) {
  return with_batch(self, target, reduction, [&](const Tensor& x, const Tensor& t) {
    return std::get<0>(_nll_loss(x, t, weight, reduction, ignore_index));
  });
}

}  // namespace flambeau::ops
