// Brings the tensors of a step into flat runs for the kernels, and counts steps and versions.
#include "flambeau/optim/step.h"

#include <cmath>

#include "flambeau/ops/runtime.h"

namespace flambeau {
namespace {

bool on_host(Device d) { return d.type == DeviceType::CPU || d.type == DeviceType::Fake; }

// Complex numbers are pairs of real ones to every optimizer here.
int64_t real_count(const TensorImpl* t) { return is_complex(t->dtype) ? 2 * t->numel : t->numel; }

IntList strides_of(const TensorImpl* t) { return {t->strides, t->ndim}; }
IntList sizes_of(const TensorImpl* t) { return {t->sizes, t->ndim}; }

// Do the elements fill one run of memory, each once?
bool is_dense(const TensorImpl* t) {
  if (t->contiguous()) return true;
  int64_t span = 1;
  for (int d = 0; d < t->ndim; d++) {
    if (t->sizes[d] != 1 && t->strides[d] == 0) return false;
    span += (t->sizes[d] - 1) * t->strides[d];
  }
  return span == t->numel && !has_internal_overlap(Tensor::borrow(const_cast<TensorImpl*>(t)));
}

void check_member(std::string_view op, const TensorImpl* param, const TensorImpl* t,
                  const char* what) {
  FL_CHECK(t->layout == Layout::Strided, RuntimeError, "{}: {} must be dense, got a sparse tensor",
           op, what);
  FL_CHECK(t->dtype == param->dtype, RuntimeError, "{}: {} must be {} like its parameter, got {}",
           op, what, param->dtype, t->dtype);
  FL_CHECK(t->device == param->device, RuntimeError,
           "{}: {} must be on {} like its parameter, got {}", op, what, param->device, t->device);
  FL_CHECK(sizes_of(t) == sizes_of(param), RuntimeError,
           "{}: {} must have shape {} like its parameter, got {}", op, what, sizes_of(param),
           sizes_of(t));
}

void check_item(std::string_view op, const StepItem& item) {
  const TensorImpl* p = item.param;
  FL_CHECK(is_inexact(p->dtype), RuntimeError, "{}: a parameter must be floating, got {}", op,
           p->dtype);
  FL_CHECK(on_host(p->device), NotImplementedError, "{}: there is no kernel for device {}", op,
           p->device);
  check_member(op, p, item.grad, "a gradient");
  for (const TensorImpl* s : item.state)
    if (s) check_member(op, p, s, "the state");
}

void mark_written(std::string_view op, TensorImpl* t) {
  if (FL_UNLIKELY(t->counter->watched)) check_inplace(op, Tensor::borrow(t));
  t->bump_version();
}

// Stands in for tensors that do not lie like each other: contiguous copies, written back.
class FlatCopies {
 public:
  explicit FlatCopies(StepItem& item) {
    for (TensorImpl** place :
         {&item.param, &item.grad, &item.state[0], &item.state[1], &item.state[2]}) {
      if (!*place) continue;
      Tensor original = Tensor::borrow(*place);
      Tensor copy = new_tensor(original.sizes(), original.dtype(), original.device());
      ops::copy_(copy, original);
      *place = copy.impl();
      if (place != &item.grad)
        pairs_.push_back({original, copy});
      else
        kept_ = copy;
    }
  }
  void write_back() {
    for (auto& [original, copy] : pairs_) ops::copy_(original, copy);
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> pairs_;
  Tensor kept_;
};

bool lies_flat(const StepItem& item) {
  const TensorImpl* p = item.param;
  bool all = p->contiguous() && item.grad->contiguous();
  for (const TensorImpl* s : item.state) all = all && (!s || s->contiguous());
  if (FL_LIKELY(all)) return true;
  if (!is_dense(p) || !(strides_of(item.grad) == strides_of(p))) return false;
  for (const TensorImpl* s : item.state)
    if (s && !(strides_of(s) == strides_of(p))) return false;
  return true;
}

StepArrays arrays_of(const StepItem& item) {
  StepArrays a{};
  a.param = item.param->data;
  a.grad = item.grad->data;
  for (int i = 0; i < 3; i++) a.state[i] = item.state[i] ? item.state[i]->data : nullptr;
  a.n = real_count(item.param);
  a.fresh = item.fresh;
  return a;
}

// Runs `kernel` over all items, in batches of one dtype.
template <class Options>
void run_step(std::string_view op, std::span<const StepItem> items, const Options& options,
              void (*prepare)(StepArrays&, const StepItem&, const Options&),
              void (*kernel)(DType, const StepArrays*, int64_t, const Options&)) {
  constexpr int kBatch = 64;
  StepArrays batch[kBatch];
  int count = 0;
  DType dtype = DType::Float32;
  auto flush = [&] {
    if (count) kernel(dtype, batch, count, options);
    count = 0;
  };
  for (const StepItem& item : items) {
    check_item(op, item);
    DType t = real_of(item.param->dtype);
    if (count == kBatch || t != dtype) flush();
    dtype = t;
    if (FL_LIKELY(lies_flat(item))) {
      batch[count] = arrays_of(item);
      prepare(batch[count++], item, options);
    } else {
      StepItem flat = item;
      FlatCopies copies(flat);
      StepArrays one = arrays_of(flat);
      prepare(one, item, options);
      kernel(t, &one, 1, options);
      copies.write_back();
    }
    mark_written(op, item.param);
    for (TensorImpl* s : item.state)
      if (s) mark_written(op, s);
  }
  flush();
}

// Adds one to the counter and returns its value.
double count_step(TensorImpl* steps) {
  FL_CHECK(steps && steps->numel == 1 && on_host(steps->device), RuntimeError,
           "Adam.step: the state's `step` must be a tensor of one element on the CPU");
  steps->bump_version();
  if (steps->dtype == DType::Float64) return *reinterpret_cast<double*>(steps->data) += 1;
  FL_CHECK(steps->dtype == DType::Float32, RuntimeError,
           "Adam.step: the state's `step` must be float32 or float64, got {}", steps->dtype);
  return double(*reinterpret_cast<float*>(steps->data) += 1);
}

void prepare_sgd(StepArrays&, const StepItem&, const SgdOptions&) {}

void prepare_adam(StepArrays& a, const StepItem& item, const AdamOptions& o) {
  double steps = count_step(item.steps);
  // The parameters of a group have nearly always taken the same number of steps.
  thread_local struct { double steps = 0, beta1 = 0, beta2 = 0, mean = 1, root = 1; } known;
  if (steps != known.steps || o.beta1 != known.beta1 || o.beta2 != known.beta2) {
    known = {steps, o.beta1, o.beta2, 1 - std::pow(o.beta1, steps),
             std::pow(1 - std::pow(o.beta2, steps), 0.5)};
  }
  a.step_size = o.lr / known.mean;
  a.root_correction = known.root;
}

void run_sgd(DType t, const StepArrays* list, int64_t count, const SgdOptions& o) {
  sgd_arrays(t, list, count, o);
}
void run_adam(DType t, const StepArrays* list, int64_t count, const AdamOptions& o) {
  adam_arrays(t, list, count, o);
}

Tensor flat(const Tensor& t) { return is_dense(t.impl()) ? t : ops::contiguous(t); }

}  // namespace

void sgd_step(std::span<const StepItem> items, const SgdOptions& options) {
  NoGradGuard no_grad;
  run_step<SgdOptions>("SGD.step", items, options, prepare_sgd, run_sgd);
}

void adam_step(std::span<const StepItem> items, const AdamOptions& options) {
  NoGradGuard no_grad;
  run_step<AdamOptions>(options.decoupled ? "AdamW.step" : "Adam.step", items, options,
                        prepare_adam, run_adam);
}

double total_norm(TensorList tensors) {
  NoGradGuard no_grad;
  double sum = 0;
  for (const Tensor& t : tensors) {
    FL_CHECK(is_inexact(t.dtype()) && on_host(t.device()), NotImplementedError,
             "clip_grad_norm_: there is no kernel for {} on {}", t.dtype(), t.device());
    Tensor run = flat(t);
    sum += sum_squares(real_of(t.dtype()), run->data, real_count(run.impl()));
  }
  return std::sqrt(sum);
}

void scale_all(TensorList tensors, double factor) {
  NoGradGuard no_grad;
  for (const Tensor& t : tensors) {
    if (!is_dense(t.impl())) {
      ops::mul_(const_cast<Tensor&>(t), Scalar(factor));
      continue;
    }
    scale_array(real_of(t.dtype()), t->data, real_count(t.impl()), factor);
    mark_written("clip_grad_norm_", t.impl());
  }
}

}  // namespace flambeau
