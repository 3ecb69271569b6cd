// Losses that want the scores of some classes above those of others by a margin.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/regression_loss.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

const Scalar kZero(int64_t{0}), kOne(1.0);

Tensor sum_over(const Tensor& t, int64_t dim) { return sum(t, IntList(&dim, 1)); }

// Scores as rows of classes; one row may come without its batch dim.
Tensor rows_of(std::string_view op, const Tensor& self) {
  FL_CHECK((self.ndim() == 2 && self.size(1) > 0) || (self.ndim() == 1 && self.numel() > 0) ||
               self.ndim() == 0,
           RuntimeError, "{}: the input must be (n, classes) or (classes,), got shape {}", op,
           self.sizes());
  return self.ndim() == 2 ? self : reshape(self, {1, -1});
}

void check_classes(std::string_view op, const Tensor& target, int64_t lowest, int64_t classes) {
  FL_CHECK(target.dtype() == DType::Int64, RuntimeError, "{}: the target must be int64, got {}", op,
           target.dtype());
  if (!has_values(target) || target.numel() == 0) return;
  int64_t low = min(target).item().to_int(), high = max(target).item().to_int();
  FL_CHECK(lowest <= low && high < classes, RuntimeError,
           "{}: the target must lie in [{}, {}), got {} to {}", op, lowest, classes, low, high);
}

}  // namespace

Tensor multi_margin_loss_impl(const Tensor& self, const Tensor& target, const Scalar& p,
                              const Scalar& margin, const Tensor& weight, int64_t reduction) {
  constexpr auto op = "multi_margin_loss";
  Tensor x = rows_of(op, self), t = reshape(target, {-1, 1});
  int64_t classes = x.size(1), power = p.to_int();
  FL_CHECK(power == 1 || power == 2, RuntimeError, "{}: p must be 1 or 2, got {}", op, power);
  FL_CHECK(target.ndim() <= 1 && t.size(0) == x.size(0), RuntimeError,
           "{}: the target must hold one class for each of {} rows, got shape {}", op, x.size(0),
           target.sizes());
  FL_CHECK(!weight.defined() || (weight.ndim() <= 1 && weight.numel() == classes), RuntimeError,
           "{}: weight must hold one number for each of {} classes, got shape {}", op, classes,
           weight.sizes());
  check_classes(op, target, 0, classes);
  Tensor short_by = relu(x - gather(x, 1, t) + margin);
  if (power == 2) short_by = short_by * short_by;
  if (weight.defined()) short_by = short_by * gather(expand_as(weight, x), 1, t);
  Tensor own = arange(Scalar(classes), DType::Int64, std::nullopt, x.device()) == t;
  Tensor losses = sum_over(where(own, kZero, short_by), 1) / Scalar(double(classes));
  if (self.ndim() < 2) losses = reshape(losses, {});
  return reduced(op, losses, reduction);
}

Tensor multilabel_margin_loss_impl(const Tensor& self, const Tensor& target, int64_t reduction) {
  constexpr auto op = "multilabel_margin_loss";
  Tensor x = rows_of(op, self);
  FL_CHECK(target.sizes() == self.sizes(), RuntimeError,
           "{}: the target must have the input's shape {}, got {}", op, self.sizes(),
           target.sizes());
  int64_t classes = x.size(1);
  Tensor t = reshape(target, x.sizes());
  check_classes(op, t, -1, classes);
  Tensor listed = cumprod(to(t >= kZero, DType::Int64), 1);  // up to the first -1
  Tensor place = t * listed;
  Tensor own =
      scatter_add(zeros(x.sizes(), DType::Int64, std::nullopt, x.device()), 1, place, listed);
  // Every listed class against every other, (n, listed, others).
  Tensor gaps = relu(unsqueeze(x, 1) - unsqueeze(gather(x, 1, place), 2) + kOne);
  Tensor counts = logical_and(unsqueeze(listed, 2) != kZero, unsqueeze(own, 1) == kZero);
  Tensor losses = sum_over(sum_over(where(counts, gaps, kZero), 2), 1) / Scalar(double(classes));
  if (self.ndim() < 2) losses = reshape(losses, {});
  return reduced(op, losses, reduction);
}

Tensor cosine_embedding_loss_impl(const Tensor& input1, const Tensor& input2, const Tensor& target,
                                  double margin, int64_t reduction) {
  constexpr auto op = "cosine_embedding_loss";
  FL_CHECK(target.ndim() <= 1 && input1.ndim() == target.ndim() + 1 &&
               input2.ndim() == target.ndim() + 1,
           RuntimeError,
           "{}: inputs (n, d) and target (n,), or (d,) and () are needed, got {}, {} "
           "and {}",
           op, input1.sizes(), input2.sizes(), target.sizes());
  constexpr double kTiny = 1e-12;
  int64_t dim = target.ndim();
  Tensor square1 = sum_over(input1 * input1, dim) + kTiny;
  Tensor square2 = sum_over(input2 * input2, dim) + kTiny;
  Tensor cosine = sum_over(input1 * input2, dim) / sqrt(square1 * square2);
  Tensor unlike = clamp_min(cosine - margin, kZero);
  Tensor losses = where(target == kOne, Scalar(1.0) - cosine, kZero) +
                  where(target == Scalar(-1.0), unlike, kZero);
  return reduced(op, losses, reduction);
}

// ---- rows shortened to a norm ----

namespace {

// What each slice is multiplied by, so that its norm is at most `limit`.
Tensor shortening(const Tensor& norms, const Scalar& limit) {
  return where(norms > limit, limit / (norms + Scalar(1e-7)), kOne);
}

}  // namespace

Tensor renorm_impl(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  FL_CHECK(self.ndim() >= 2, RuntimeError, "renorm: at least 2 dims are needed, got shape {}",
           self.sizes());
  FL_CHECK(!p.is_complex() && p.to_double() > 0, RuntimeError,
           "renorm: p must be a positive number, got {}", p);
  FL_CHECK(maxnorm.to_double() >= 0, RuntimeError, "renorm: maxnorm must not be negative, got {}",
           maxnorm);
  dim = wrap_dim("renorm", dim, self.ndim());
  Ints others;
  for (int64_t d = 0; d < self.ndim(); d++)
    if (d != dim) others.push_back(d);
  DType exact = is_half(self.dtype()) ? DType::Float32 : self.dtype();
  Tensor norms = linalg_vector_norm(self, p, IntList(others), true, exact);
  return self * to(shortening(norms, maxnorm), real_of(self.dtype()));
}

Tensor& embedding_renorm_impl(Tensor& self, const Tensor& indices, double max_norm,
                              double norm_type) {
  FL_CHECK(self.ndim() == 2, RuntimeError, "embedding_renorm_: a matrix is needed, got shape {}",
           self.sizes());
  Tensor touched = std::get<0>(_unique2(reshape(indices, {-1})));
  Tensor rows = index_select(self, 0, touched);
  constexpr int64_t kLast = 1;
  Tensor norms = linalg_vector_norm(rows, norm_type, IntList(&kLast, 1), true);
  return index_copy_(self, 0, touched, rows * to(shortening(norms, max_norm), self.dtype()));
}

Tensor pdist_impl(const Tensor& self, double p) {
  FL_CHECK(self.ndim() == 2, RuntimeError, "pdist: a matrix of rows is needed, got shape {}",
           self.sizes());
  FL_CHECK(is_float(self.dtype()), RuntimeError, "pdist: floating numbers are needed, got {}",
           self.dtype());
  FL_CHECK(p >= 0, RuntimeError, "pdist: p must not be negative, got {}", p);
  int64_t rows = self.size(0);
  Tensor pairs = triu_indices(rows, rows, 1, DType::Int64, std::nullopt, self.device());
  constexpr int64_t kLast = 1;
  return linalg_vector_norm(
      index_select(self, 0, select(pairs, 0, 0)) - index_select(self, 0, select(pairs, 0, 1)), p,
      IntList(&kLast, 1));
}

}  // namespace flambeau::ops
