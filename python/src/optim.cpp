// The optimizers' steps as Python calls them: one call per parameter group.
#include "flambeau/optim/step.h"

#include <cmath>

#include "flambeau/core/long_work.h"
#include "flambeau/ops/runtime.h"
#include "python/src/arguments.h"
#include "python/src/module.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

PyObject *momentum_key, *step_key, *mean_key, *square_key, *maximum_key;

// The items of a list or tuple, borrowed; anything else is copied into a list first.
class Items {
 public:
  explicit Items(PyObject* o) {
    kept_ = PyList_Check(o) ? Ref::borrow(o) : own(PySequence_List(o));
  }
  Py_ssize_t size() const { return PyList_Size(kept_.get()); }
  PyObject* operator[](Py_ssize_t i) const { return checked(PyList_GetItem(kept_.get(), i)); }

 private:
  Ref kept_;
};

double number(PyObject* o) {
  double value = is_tensor(o) ? tensor_of(o).item().to_double() : PyFloat_AsDouble(o);
  if (value == -1 && PyErr_Occurred()) throw ErrorSet{};
  return value;
}
bool truth(PyObject* o) {
  int answer = PyObject_IsTrue(o);
  checked(answer);
  return answer;
}

// The gradient of a parameter, null where there is none.
TensorImpl* gradient_of(PyObject* param) {
  const TensorMeta* meta = expect_tensor(param, "a parameter")->meta;
  return meta ? meta->grad.impl() : nullptr;
}

// state[param][key]: borrowed, null where absent or None.
PyObject* find(PyObject* state, PyObject* key) {
  PyObject* value = PyDict_GetItemWithError(state, key);
  if (!value && PyErr_Occurred()) throw ErrorSet{};
  return value == Py_None ? nullptr : value;
}
TensorImpl* find_tensor(PyObject* state, PyObject* key) {
  PyObject* value = find(state, key);
  return value ? expect_tensor(value, "an entry of an optimizer's state").impl() : nullptr;
}

// The dict of one parameter; a defaultdict makes it.
PyObject* state_of(PyObject* state, PyObject* param) {
  if (PyObject* found = PyDict_GetItemWithError(state, param)) return found;
  if (PyErr_Occurred()) throw ErrorSet{};
  Ref made = own(PyObject_GetItem(state, param));
  return made.get();  // the state keeps it
}

// What a step goes over: an item for every parameter that has a gradient.
class Steps {
 public:
  // fill(item, param) finds the parameter's state.
  template <class Fill>
  Steps(PyObject* params, Fill fill) : params_(params) {
    items.reserve(size_t(params_.size()));
    for (Py_ssize_t i = 0, n = params_.size(); i < n; i++) {
      PyObject* param = params_[i];
      TensorImpl* grad = gradient_of(param);
      if (!grad) continue;
      FL_CHECK(
          !(grad->flags & kForeign), NotImplementedError,
          "step: a gradient of shape {} is of a class with __torch_dispatch__, which optimizers "
          "do not ask",
          IntList(grad->sizes, grad->ndim));
      StepItem item{.param = tensor_of(param).impl(), .grad = grad};
      fill(item, param);
      items.push_back(item);
    }
  }
  std::vector<StepItem> items;

 private:
  Items params_;
  Alone alone_;  // the items are borrowed from dicts that other threads may change
};

void find_momentum(StepItem& item, PyObject* param, PyObject* state) {
  item.state[0] = find_tensor(state, momentum_key);
  if (item.state[0]) return;
  Tensor buffer = new_like(tensor_of(param), item.param->dtype);
  item.state[0] = buffer.impl();
  item.fresh = true;
  Ref object(wrap(std::move(buffer)));
  checked(PyDict_SetItem(state, momentum_key, object.get()));
}

// _sgd_step(params, state, lr, momentum, dampening, weight_decay, nesterov, maximize): False, and
// nothing done, where a gradient is sparse.
PyObject* sgd(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    FL_CHECK(nargs == 8, TypeError, "_sgd_step: takes 8 arguments, got {}", int64_t(nargs));
    SgdOptions o{number(args[2]), number(args[3]), number(args[4]),
                 number(args[5]), truth(args[6]),  truth(args[7])};
    Steps steps(args[0], [&](StepItem& item, PyObject* param) {
      if (o.momentum != 0) find_momentum(item, param, state_of(args[1], param));
    });
    for (const StepItem& item : steps.items)
      if (item.grad->flags & kSparse) return Py_NewRef(Py_False);
    sgd_step(steps.items, o);
    return Py_NewRef(Py_None);
  });
}

void find_moments(StepItem& item, PyObject* state, bool amsgrad) {
  item.steps = find_tensor(state, step_key);
  item.state[0] = find_tensor(state, mean_key);
  item.state[1] = find_tensor(state, square_key);
  if (amsgrad) item.state[2] = find_tensor(state, maximum_key);
  FL_CHECK(item.steps && item.state[0] && item.state[1] && (!amsgrad || item.state[2]),
           RuntimeError, "Adam.step: the state of a parameter of shape {} is incomplete",
           IntList(item.param->sizes, item.param->ndim));
}

// _adam_step(params, state, fill, lr, beta1, beta2, eps, weight_decay, amsgrad, maximize,
// decoupled): fill(param) makes the state of a parameter that has none.
PyObject* adam(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    FL_CHECK(nargs == 11, TypeError, "_adam_step: takes 11 arguments, got {}", int64_t(nargs));
    AdamOptions o{number(args[3]), number(args[4]), number(args[5]), number(args[6]),
                  number(args[7]), truth(args[8]),  truth(args[9]),  truth(args[10])};
    Steps steps(args[0], [&](StepItem& item, PyObject* param) {
      PyObject* state = state_of(args[1], param);
      if (PyDict_Size(state) == 0)
        Ref done = own(PyObject_CallFunctionObjArgs(args[2], param, nullptr));
      find_moments(item, state, o.amsgrad);
    });
    adam_step(steps.items, o);
    return Py_NewRef(Py_None);
  });
}

// _zero_grad(params, set_to_none)
PyObject* zero_grad(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    FL_CHECK(nargs == 2, TypeError, "_zero_grad: takes 2 arguments, got {}", int64_t(nargs));
    bool to_none = truth(args[1]);
    Items params(args[0]);
    NoGradGuard no_grad;
    Alone alone;
    for (Py_ssize_t i = 0, n = params.size(); i < n; i++) {
      TensorMeta* meta = expect_tensor(params[i], "a parameter")->meta;
      if (!meta || !meta->grad.defined()) continue;
      if (to_none) {
        Tensor dropped = std::move(meta->grad);
        continue;
      }
      if (meta->grad->grad_fn) {
        leave_node(meta->grad.impl());
        meta->grad->flags = uint8_t(meta->grad->flags & ~kRequiresGrad);
      } else {
        meta->grad.set_requires_grad(false);
      }
      ops::zero_(meta->grad);
    }
    return Py_NewRef(Py_None);
  });
}

std::vector<Tensor> gradients(PyObject* params) {
  Items items(params);
  std::vector<Tensor> grads;
  for (Py_ssize_t i = 0, n = items.size(); i < n; i++)
    if (TensorImpl* grad = gradient_of(items[i])) grads.push_back(Tensor::borrow(grad));
  return grads;
}

bool has_kernel(const Tensor& t) {
  bool host = t.device().type == DeviceType::CPU || t.device().type == DeviceType::Fake;
  return host && t->layout == Layout::Strided && is_inexact(t.dtype());
}

// _clip_grad_norm(params, max_norm, error_if_nonfinite): the 2-norm before clipping, a tensor like
// the first gradient. None: there is no kernel for some gradient.
PyObject* clip_grad_norm(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&]() -> PyObject* {
    FL_CHECK(nargs == 3, TypeError, "_clip_grad_norm: takes 3 arguments, got {}", int64_t(nargs));
    std::vector<Tensor> grads = gradients(args[0]);
    for (const Tensor& g : grads)
      if (!has_kernel(g) || g->flags & (kSparse | kForeign)) return Py_NewRef(Py_None);
    double limit = number(args[1]);
    double norm = grads.empty() ? 0 : total_norm(grads);
    FL_CHECK(!truth(args[2]) || std::isfinite(norm), RuntimeError,
             "clip_grad_norm_: the total norm of order 2 is {}; pass error_if_nonfinite=False to "
             "scale by it anyway",
             norm);
    DType dtype = grads.empty() ? DType::Float32 : real_of(grads[0].dtype());
    if (dtype == DType::Float32) norm = double(float(norm));
    double factor = limit / (norm + 1e-6);
    // A NaN scales too, as in torch, where the factor is clamped and not compared.
    if (!(factor >= 1)) scale_all(grads, factor);
    return wrap(ops::full({}, Scalar(norm), dtype));
  });
}

PyCFunction fast(PyObject* (*f)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

// _bump_version(tensor): somebody changed it in place without an op.
PyObject* bump_version(PyObject*, PyObject* o) {
  return guarded([&] {
    expect_tensor(o, "increment_version: the argument")->bump_version();
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {{"_bump_version", bump_version, METH_O, nullptr},
                           {"_sgd_step", fast(sgd), METH_FASTCALL, nullptr},
                           {"_adam_step", fast(adam), METH_FASTCALL, nullptr},
                           {"_zero_grad", fast(zero_grad), METH_FASTCALL, nullptr},
                           {"_clip_grad_norm", fast(clip_grad_norm), METH_FASTCALL, nullptr},
                           {}};

}  // namespace

void init_optim(PyObject* module) {
  momentum_key = checked(PyUnicode_InternFromString("momentum_buffer"));
  step_key = checked(PyUnicode_InternFromString("step"));
  mean_key = checked(PyUnicode_InternFromString("exp_avg"));
  square_key = checked(PyUnicode_InternFromString("exp_avg_sq"));
  maximum_key = checked(PyUnicode_InternFromString("max_exp_avg_sq"));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
