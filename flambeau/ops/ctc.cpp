// Connectionist temporal classification (Graves et al. 2006): sums over all alignments of a target,
// blanks between its labels, in logarithms.
#include <cmath>
#include <limits>

#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/indices.h"
#include "flambeau/ops/operators.h"

namespace flambeau::ops {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  double high = std::max(a, b);
  return high == kNever ? kNever : high + std::log1p(std::exp(std::min(a, b) - high));
}

int64_t longest(IntList lengths) {
  int64_t n = 0;
  for (int64_t l : lengths) n = std::max(n, l);
  return n;
}

// One sequence: its target with blanks between the labels, and its rows of log_probs.
template <class T>
struct Sequence {
  const int64_t* target;
  int64_t labels, steps, blank;
  const T* log_probs;
  int64_t row;  // elements from one step to the next

  int64_t states() const { return 2 * labels + 1; }
  int64_t label(int64_t s) const { return s % 2 ? target[s / 2] : blank; }
  double log_prob(int64_t t, int64_t s) const { return double(log_probs[t * row + label(s)]); }
  // A blank between equal labels must not be skipped.
  bool may_skip(int64_t s) const { return s % 2 && s >= 2 && label(s) != label(s - 2); }
};

// log_alpha[t][s] = log of the sum over beginnings that end in state s at step t.
template <class T>
double forward(const Sequence<T>& q, T* log_alpha, int64_t width) {
  if (q.steps == 0) return q.labels == 0 ? 0.0 : kNever;
  for (int64_t t = 0; t < q.steps; t++) {
    const T* last = log_alpha + (t - 1) * width;
    for (int64_t s = 0; s < q.states(); s++) {
      double sum = t == 0 ? (s < 2 ? 0 : kNever) : double(last[s]);
      if (t > 0 && s > 0) sum = log_add(sum, double(last[s - 1]));
      if (t > 0 && q.may_skip(s)) sum = log_add(sum, double(last[s - 2]));
      log_alpha[t * width + s] = T(sum + q.log_prob(t, s));
    }
  }
  const T* end = log_alpha + (q.steps - 1) * width;
  double last = double(end[q.states() - 1]);
  return q.labels ? log_add(last, double(end[q.states() - 2])) : last;
}

// gradient[t][c] = g * (exp(log_probs) - the share of alignments with label c at step t).
template <class T>
void backward(const Sequence<T>& q, const T* log_alpha, int64_t width, double loss, double g,
              T* gradient, int64_t classes) {
  std::vector<double> beta(size_t(q.states())), next(size_t(q.states())), share(size_t(classes), 0);
  for (int64_t t = q.steps - 1; t >= 0; t--) {
    std::fill(share.begin(), share.end(), kNever);
    for (int64_t s = 0; s < q.states(); s++) {
      double sum = kNever;
      if (t == q.steps - 1) {
        sum = s >= q.states() - 2 ? 0 : kNever;
      } else {
        sum = next[size_t(s)];
        if (s + 1 < q.states()) sum = log_add(sum, next[size_t(s + 1)]);
        if (s + 2 < q.states() && q.may_skip(s + 2)) sum = log_add(sum, next[size_t(s + 2)]);
      }
      double& of_label = share[size_t(q.label(s))];
      of_label = log_add(of_label, sum + double(log_alpha[t * width + s]));
      beta[size_t(s)] = sum + q.log_prob(t, s);
    }
    for (int64_t c = 0; c < classes; c++) {
      double p = std::exp(double(q.log_probs[t * q.row + c]));
      gradient[t * q.row + c] = T(g * (p - std::exp(share[size_t(c)] + loss)));
    }
    std::swap(beta, next);
  }
}

struct Batch {
  const Tensor &log_probs, &targets;
  IntList input_lengths, target_lengths;
  int64_t blank;

  int64_t width() const { return 2 * longest(target_lengths) + 1; }

  template <class T>
  Sequence<T> sequence(int64_t n) const {
    int64_t at = targets.ndim() == 2 ? n * targets.size(1) : 0;
    if (targets.ndim() == 1)
      for (int64_t i = 0; i < n; i++) at += target_lengths[size_t(i)];
    return {targets.data<int64_t>() + at,
            target_lengths[size_t(n)],
            input_lengths[size_t(n)],
            blank,
            log_probs.data<T>() + n * log_probs.size(2),
            log_probs.size(1) * log_probs.size(2)};
  }
};

void check_lengths(const Batch& b) {
  constexpr auto op = "ctc_loss";
  FL_CHECK(b.log_probs.ndim() == 3, RuntimeError,
           "{}: log_probs must have shape (steps, batch, classes), got {}", op,
           b.log_probs.sizes());
  FL_CHECK(b.log_probs.dtype() == DType::Float32 || b.log_probs.dtype() == DType::Float64,
           NotImplementedError, "{}: log_probs must be float32 or float64, got {}", op,
           b.log_probs.dtype());
  FL_CHECK(b.targets.ndim() == 1 || b.targets.ndim() == 2, RuntimeError,
           "{}: targets must have one or two dims, got shape {}", op, b.targets.sizes());
  auto batch = size_t(b.log_probs.size(1));
  FL_CHECK(b.input_lengths.size() == batch && b.target_lengths.size() == batch, RuntimeError,
           "{}: a length is needed for each of {} sequences, got {} and {}", op, batch,
           b.input_lengths.size(), b.target_lengths.size());
  FL_CHECK(b.blank >= 0 && b.blank < b.log_probs.size(2), RuntimeError,
           "{}: blank must be one of the {} classes, got {}", op, b.log_probs.size(2), b.blank);
  int64_t total = 0;
  for (size_t n = 0; n < batch; n++) {
    int64_t steps = b.input_lengths[n], labels = b.target_lengths[n];
    total = add_sat(total, labels);
    FL_CHECK(steps >= 0 && steps <= b.log_probs.size(0), RuntimeError,
             "{}: input_lengths must be at most the {} steps, got {}", op, b.log_probs.size(0),
             steps);
    FL_CHECK(labels >= 0 && (b.targets.ndim() == 1 || labels <= b.targets.size(1)), RuntimeError,
             "{}: target_lengths must fit into targets of shape {}, got {}", op, b.targets.sizes(),
             labels);
  }
  FL_CHECK(b.targets.ndim() == 2 ? b.targets.size(0) == int64_t(batch) : b.targets.size(0) == total,
           RuntimeError, "{}: targets must hold {} sequences of {} labels in all, got shape {}", op,
           batch, total, b.targets.sizes());
}

void check_labels(const Batch& b) {
  for (int64_t n = 0; n < b.log_probs.size(1); n++) {
    const int64_t* target = b.sequence<float>(n).target;
    for (int64_t i = 0; i < b.target_lengths[size_t(n)]; i++)
      FL_CHECK(target[i] >= 0 && target[i] < b.log_probs.size(2), RuntimeError,
               "ctc_loss: targets must be classes in [0, {}), got {} in sequence {}",
               b.log_probs.size(2), target[i], n);
  }
}

template <class F>
void visit_float(DType dtype, F&& f) {
  if (dtype == DType::Float64)
    f(double());
  else
    f(float());
}

}  // namespace

Ints ctc_loss_shape(const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                    IntList target_lengths, int64_t blank, bool) {
  check_lengths({log_probs, targets, input_lengths, target_lengths, blank});
  return {log_probs.size(1)};
}
Ints ctc_alpha_shape(const Tensor& log_probs, const Tensor&, IntList, IntList target_lengths,
                     int64_t, bool) {
  return {log_probs.size(1), log_probs.size(0), 2 * longest(target_lengths) + 1};
}

void ctc_loss_kernel(Tensor& loss, Tensor& log_alpha, const Tensor& log_probs,
                     const Tensor& targets, IntList input_lengths, IntList target_lengths,
                     int64_t blank, bool zero_infinity) {
  Tensor labels = dense(as_int64(targets));
  Batch batch{log_probs, labels, input_lengths, target_lengths, blank};
  if (loss.numel() == 0) return;
  fill_into(log_alpha, kNever);
  visit_float(log_probs.dtype(), [&](auto zero) {
    using T = decltype(zero);
    check_labels(batch);
    for (int64_t n = 0; n < loss.numel(); n++) {
      int64_t width = batch.width();
      double total =
          forward(batch.sequence<T>(n), log_alpha.data<T>() + n * log_probs.size(0) * width, width);
      loss.data<T>()[n] = T(zero_infinity && total == kNever ? 0.0 : -total);
    }
  });
}

Ints ctc_grad_shape(const Tensor&, const Tensor& log_probs, const Tensor&, IntList, IntList,
                    const Tensor&, const Tensor&, int64_t, bool) {
  return log_probs.sizes();
}
DType ctc_grad_dtype(const Tensor&, const Tensor& log_probs, const Tensor&, IntList, IntList,
                     const Tensor&, const Tensor&, int64_t, bool) {
  return log_probs.dtype();
}

void ctc_grad_kernel(Tensor& result, const Tensor& grad, const Tensor& log_probs,
                     const Tensor& targets, IntList input_lengths, IntList target_lengths,
                     const Tensor& loss, const Tensor& log_alpha, int64_t blank,
                     bool zero_infinity) {
  Tensor labels = dense(as_int64(targets));
  Batch batch{log_probs, labels, input_lengths, target_lengths, blank};
  zero_into(result);
  if (result.numel() == 0) return;
  visit_float(log_probs.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t n = 0; n < loss.numel(); n++) {
      auto value = double(loss.data<T>()[n]);
      int64_t width = log_alpha.size(2);
      const T* alpha = log_alpha.data<T>() + n * log_probs.size(0) * width;
      Sequence<T> q = batch.sequence<T>(n);
      // With zero_infinity an impossible target has loss 0: its last states tell it apart.
      bool impossible = q.steps == 0;
      if (!impossible && zero_infinity) {
        const T* end = alpha + (q.steps - 1) * width + q.states() - 1;
        impossible = double(end[0]) == kNever && (q.labels == 0 || double(end[-1]) == kNever);
      }
      if (impossible) continue;
      backward(q, alpha, width, value, double(grad.data<T>()[n]),
               result.data<T>() + n * log_probs.size(2), log_probs.size(2));
    }
  });
}

Tensor ctc_loss_impl(const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                     IntList target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  bool single = log_probs.ndim() == 2, half = is_half(log_probs.dtype());
  Tensor x = single ? unsqueeze(log_probs, 1) : log_probs;
  if (half) x = to(x, DType::Float32);
  Tensor labels = single && targets.ndim() == 1 ? unsqueeze(targets, 0) : targets;
  Tensor loss =
      std::get<0>(_ctc_loss(x, labels, input_lengths, target_lengths, blank, zero_infinity));
  if (reduction == 1) {
    Tensor lengths = new_tensor(loss.sizes(), DType::Int64, loss.device());
    if (has_memory(lengths))
      for (size_t n = 0; n < target_lengths.size(); n++)
        lengths.data<int64_t>()[n] = std::max<int64_t>(target_lengths[n], 1);
    loss = mean(loss / to(lengths, loss.dtype()));
  } else if (reduction == 2) {
    loss = sum(loss);
  } else if (single) {
    loss = squeeze(loss, 0);
  }
  return half ? to(loss, log_probs.dtype()) : loss;
}

Tensor ctc_loss_impl(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                     const Tensor& target_lengths, int64_t blank, int64_t reduction,
                     bool zero_infinity) {
  for (const Tensor* t : {&input_lengths, &target_lengths})
    FL_CHECK(has_memory(*t) && is_integer(t->dtype()), RuntimeError,
             "ctc_loss: lengths must be integers on the CPU, got {}", t->dtype());
  Tensor steps = dense(as_int64(input_lengths)), labels = dense(as_int64(target_lengths));
  return ctc_loss_impl(log_probs, targets, IntList(steps.data<int64_t>(), size_t(steps.numel())),
                       IntList(labels.data<int64_t>(), size_t(labels.numel())), blank, reduction,
                       zero_infinity);
}

}  // namespace flambeau::ops
