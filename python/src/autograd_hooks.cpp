// Hooks of tensors: x.register_hook, x.retain_grad and their like. The hooks of one tensor are an
// ordered dict, which its handles and `_backward_hooks` share.
#include "flambeau/tape/view.h"
#include "python/src/autograd_node.h"
#include "python/src/tensor_methods.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

Ref hooks_of(void* dict) { return own(PyMapping_Values(static_cast<PyObject*>(dict))); }

// Every hook sees what the one before it made of the gradient.
Tensor run_tensor_hooks(void* context, const Tensor& grad) {
  try {
    Ref list = hooks_of(context);
    Tensor now = grad;
    for (Py_ssize_t i = 0, n = PyList_Size(list.get()); i < n; i++) {
      Ref object(wrap(now));
      Ref answer =
          own(PyObject_CallFunctionObjArgs(PyList_GetItem(list.get(), i), object.get(), nullptr));
      if (answer.get() == Py_None) continue;
      FL_CHECK(is_tensor(answer.get()), TypeError,
               "tensor hook: must return a Tensor or None, got {}", type_name(answer.get()));
      Tensor changed = tensor_of(answer.get());
      FL_CHECK(changed.sizes() == grad.sizes(), RuntimeError,
               "tensor hook: must return a gradient of shape {}, got {}", grad.sizes(),
               changed.sizes());
      now = std::move(changed);
    }
    return now;
  } catch (const ErrorSet&) {
    throw_python_error();
  }
}

// Post-accumulate hooks get the leaf.
Tensor run_leaf_hooks(void* context, const Tensor& leaf) {
  try {
    Ref list = hooks_of(context);
    Ref object(wrap(leaf));
    for (Py_ssize_t i = 0, n = PyList_Size(list.get()); i < n; i++) {
      Ref answer =
          own(PyObject_CallFunctionObjArgs(PyList_GetItem(list.get(), i), object.get(), nullptr));
      FL_CHECK(answer.get() == Py_None, RuntimeError,
               "post-accumulate hook: must return None, got {}", type_name(answer.get()));
    }
    return Tensor();
  } catch (const ErrorSet&) {
    throw_python_error();
  }
}

// The collector must see a tensor whose hooks may refer to it (visit_tape).
void track(PyObject* self) {
  if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
}

// The tensor's Hook that carries a dict of Python hooks, null if there is none.
Hook* find_hook(const Tensor& t) {
  std::vector<Hook>* list = nullptr;
  if (t->grad_fn)
    list = t->grad_fn->hooks ? &t->grad_fn->hooks->pre : nullptr;
  else
    list = t->meta ? &t->meta->hooks : nullptr;
  if (!list) return nullptr;
  for (Hook& h : *list) {
    if (h.call == run_tensor_hooks && (!t->grad_fn || h.nr == t->output_nr)) return &h;
  }
  return nullptr;
}

Hook python_hook(Tensor (*call)(void*, const Tensor&), PyObject* dict) {
  Hook hook;
  hook.call = call;
  hook.drop = drop_object;
  hook.context = Py_NewRef(dict);
  return hook;
}

const Tensor& up_to_date(PyObject* self) {
  const Tensor& t = tensor_of(self);
  if (is_stale(t.impl())) refresh_view(t);
  return t;
}

PyObject* register_hook(PyObject* self, PyObject* hook) {
  return guarded([&] {
    const Tensor& t = up_to_date(self);
    FL_CHECK(t.requires_grad(), RuntimeError,
             "register_hook: a tensor that does not require grad has no gradient to hook");
    track(self);
    if (Hook* known = find_hook(t))
      return add_to_hooks(static_cast<PyObject*>(known->context), hook);
    Ref dict(new_hooks_dict());
    Ref handle(add_to_hooks(dict.get(), hook));
    add_hook(t, python_hook(run_tensor_hooks, dict.get()));
    return handle.release();
  });
}

PyObject* register_leaf_hook(PyObject* self, PyObject* hook) {
  return guarded([&] {
    const Tensor& t = up_to_date(self);
    FL_CHECK(t.requires_grad() && !t->grad_fn, RuntimeError,
             "register_post_accumulate_grad_hook: the tensor must be a leaf that requires grad{}",
             t.requires_grad() ? ", got a result of " + std::string(t->grad_fn->type->op) : "");
    track(self);
    std::vector<Hook>& list = meta_of(t.impl()).after_accumulate;
    for (Hook& h : list) {
      if (h.call == run_leaf_hooks) return add_to_hooks(static_cast<PyObject*>(h.context), hook);
    }
    Ref dict(new_hooks_dict());
    Ref handle(add_to_hooks(dict.get(), hook));
    list.push_back(python_hook(run_leaf_hooks, dict.get()));
    return handle.release();
  });
}

PyObject* keep_grad(PyObject* self, PyObject*) {
  return guarded([&] {
    retain_grad(up_to_date(self));
    return Py_NewRef(Py_None);
  });
}

PyObject* detach_in_place(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& t = up_to_date(self);
    FL_CHECK(!t->base || (t->flags & kNoGradView), RuntimeError,
             "detach_: a view cannot be cut from its base in place; use detach()");
    if (t->grad_fn) leave_node(t.impl());
    t->flags = uint8_t(t->flags & ~kRequiresGrad);
    return Py_NewRef(self);
  });
}

PyObject* is_view(PyObject* self, PyObject*) { return to_bool(tensor_of(self)->base); }

PyObject* get_hooks(PyObject* self, void*) {
  Hook* hook = find_hook(tensor_of(self));
  return Py_NewRef(hook ? static_cast<PyObject*>(hook->context) : Py_None);
}
// Unpickling and old code put a dict of hooks in place.
int set_hooks(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    const Tensor& t = tensor_of(self);
    bool empty = !value || value == Py_None || PyObject_Size(value) == 0;
    if (Hook* known = find_hook(t)) {
      Ref old(static_cast<PyObject*>(known->context));
      known->context = empty ? new_hooks_dict() : Py_NewRef(value);
    } else if (!empty) {
      add_hook(t, python_hook(run_tensor_hooks, value));
    }
    return 0;
  });
}

PyObject* get_leaf_hooks(PyObject* self, void*) {
  const TensorMeta* meta = tensor_of(self)->meta;
  for (size_t i = 0; meta && i < meta->after_accumulate.size(); i++) {
    const Hook& h = meta->after_accumulate[i];
    if (h.call == run_leaf_hooks) return Py_NewRef(static_cast<PyObject*>(h.context));
  }
  return Py_NewRef(Py_None);
}

int visit_hooks(const std::vector<Hook>& hooks, visitproc visit, void* arg) {
  for (const Hook& h : hooks) {
    if (h.drop == drop_object) Py_VISIT(static_cast<PyObject*>(h.context));
  }
  return 0;
}

}  // namespace

int visit_tape(TensorImpl* impl, visitproc visit, void* arg) {
  if (TensorMeta* meta = impl->meta) {
    if (int status = visit_hooks(meta->hooks, visit, arg)) return status;
    if (int status = visit_hooks(meta->after_accumulate, visit, arg)) return status;
  }
  Node* node = impl->grad_fn;
  if (!node || node->refs.load() != 1) return 0;
  if (node->hooks) {
    if (int status = visit_hooks(node->hooks->pre, visit, arg)) return status;
    for (auto* list : {&node->hooks->before, &node->hooks->after}) {
      for (const NodeHook& h : *list)
        if (h.drop == drop_object) Py_VISIT(static_cast<PyObject*>(h.context));
    }
  }
  if (node->py_owned) Py_VISIT(static_cast<PyObject*>(node->py));
  return 0;
}

void append_hook_methods(Methods& table) {
  table.push_back({"register_hook", register_hook, METH_O,
                   "register_hook($self, hook)\n--\n\n"
                   "Calls hook(grad) when the gradient is known; a result replaces it."});
  table.push_back({"register_post_accumulate_grad_hook", register_leaf_hook, METH_O,
                   "register_post_accumulate_grad_hook($self, hook)\n--\n\n"
                   "Calls hook(tensor) after the gradient of a leaf was added to."});
  table.push_back({"detach_", detach_in_place, METH_NOARGS,
                   "detach_($self)\n--\n\n"
                   "Cuts the tensor from its history; it does not require grad any more."});
  table.push_back({"_is_view", is_view, METH_NOARGS, nullptr});
  table.push_back({"retain_grad", keep_grad, METH_NOARGS,
                   "retain_grad($self)\n--\n\n"
                   "Keeps the gradient of a tensor that is no leaf in its `grad`."});
}

void append_hook_attributes(Getters& table) {
  table.push_back({"_backward_hooks", get_hooks, set_hooks, nullptr, nullptr});
  table.push_back({"_post_accumulate_grad_hooks", get_leaf_hooks, nullptr, nullptr, nullptr});
}

}  // namespace flambeau::python
