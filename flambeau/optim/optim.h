// Optimizers for C++ programs. They hold what torch.optim keeps in `state`; the steps are those of
// the Python classes of the same names.
#pragma once
#include "flambeau/optim/step.h"

namespace flambeau::optim {

// What all optimizers share: the parameters, and dropping their gradients.
class FL_API Optimizer {
 public:
  explicit Optimizer(std::vector<Tensor> params);
  virtual ~Optimizer() = default;
  // Updates every parameter that has a gradient.
  virtual void step() = 0;
  void zero_grad() const;
  const std::vector<Tensor>& params() const { return params_; }

 protected:
  std::vector<Tensor> params_;
};

class FL_API SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> params, SgdOptions options = {});
  void step() override;
  SgdOptions options;  // may be changed between steps

 private:
  std::vector<Tensor> momenta_;  // undefined until a parameter's first step
};

class FL_API Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> params, AdamOptions options = {});
  void step() override;
  AdamOptions options;

 private:
  struct State {
    Tensor steps, mean, square, maximum;
  };
  std::vector<State> states_;
};

// Adam with decoupled weight decay, 0.01 unless given.
class FL_API AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> params);
  AdamW(std::vector<Tensor> params, AdamOptions options);
};

// Scales the gradients so that their norm together is at most `max_norm`; returns the norm before.
FL_API double clip_grad_norm_(TensorList params, double max_norm);

}  // namespace flambeau::optim
