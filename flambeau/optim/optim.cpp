// The optimizers' state; the arithmetic is in step.cpp and the kernels.
#include "flambeau/optim/optim.h"

#include "flambeau/ops/runtime.h"

namespace flambeau::optim {

Optimizer::Optimizer(std::vector<Tensor> params) : params_(std::move(params)) {
  FL_CHECK(!params_.empty(), ValueError, "Optimizer: got an empty parameter list");
  for (const Tensor& p : params_) {
    FL_CHECK(!p->grad_fn, ValueError, "Optimizer: can only optimize leaves, got a result of {}",
             p->grad_fn->type->op);
  }
}

void Optimizer::zero_grad() const {
  for (const Tensor& p : params_)
    if (p->meta) p->meta->grad = Tensor();
}

SGD::SGD(std::vector<Tensor> params, SgdOptions o)
    : Optimizer(std::move(params)), options(o), momenta_(params_.size()) {
  FL_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), ValueError,
           "SGD: nesterov needs momentum and no dampening, got {} and {}", o.momentum, o.dampening);
}

void SGD::step() {
  std::vector<StepItem> items;
  for (size_t i = 0; i < params_.size(); i++) {
    const Tensor& p = params_[i];
    if (!p->meta || !p->meta->grad.defined()) continue;
    StepItem item{.param = p.impl(), .grad = p->meta->grad.impl()};
    if (options.momentum != 0) {
      item.fresh = !momenta_[i].defined();
      if (item.fresh) momenta_[i] = new_like(p, p.dtype());
      item.state[0] = momenta_[i].impl();
    }
    items.push_back(item);
  }
  sgd_step(items, options);
}

Adam::Adam(std::vector<Tensor> params, AdamOptions o)
    : Optimizer(std::move(params)), options(o), states_(params_.size()) {}

void Adam::step() {
  NoGradGuard no_grad;
  std::vector<StepItem> items;
  for (size_t i = 0; i < params_.size(); i++) {
    const Tensor& p = params_[i];
    if (!p->meta || !p->meta->grad.defined()) continue;
    State& s = states_[i];
    if (!s.mean.defined()) {
      s.steps = ops::zeros({}, DType::Float32);
      s.mean = ops::zeros_like(p);
      s.square = ops::zeros_like(p);
    }
    if (options.amsgrad && !s.maximum.defined()) s.maximum = ops::zeros_like(p);
    StepItem item{.param = p.impl(), .grad = p->meta->grad.impl()};
    item.steps = s.steps.impl();
    item.state[0] = s.mean.impl();
    item.state[1] = s.square.impl();
    item.state[2] = options.amsgrad ? s.maximum.impl() : nullptr;
    items.push_back(item);
  }
  adam_step(items, options);
}

namespace {

AdamOptions decoupled(AdamOptions o) {
  o.decoupled = true;
  return o;
}

}  // namespace

AdamW::AdamW(std::vector<Tensor> params) : AdamW(std::move(params), {.weight_decay = 0.01}) {}
AdamW::AdamW(std::vector<Tensor> params, AdamOptions o) : Adam(std::move(params), decoupled(o)) {}

double clip_grad_norm_(TensorList params, double max_norm) {
  std::vector<Tensor> grads;
  for (const Tensor& p : params)
    if (p->meta && p->meta->grad.defined()) grads.push_back(p->meta->grad);
  double norm = total_norm(grads), factor = max_norm / (norm + 1e-6);
  if (!(factor >= 1)) scale_all(grads, factor);
  return norm;
}

}  // namespace flambeau::optim
