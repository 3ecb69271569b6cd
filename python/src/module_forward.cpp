// `forward` of the plainest layers without a Python frame. Their classes name the Python function
// each stands for; a class that overrides it, or arguments out of the ordinary, get the function.
#include "flambeau/generated/ops.h"
#include "python/src/module_base.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

PyObject *weight_key, *bias_key;

PyObject* identity(ModuleObject*, PyObject* input) { return Py_NewRef(input); }

// Each module gets the result of the one before.
PyObject* sequential(ModuleObject* m, PyObject* input) {
  PyObject *key, *value, *modules = m->slots[kModules];
  if (!modules || !PyDict_Check(modules)) return nullptr;
  if (Py_EnterRecursiveCall(" in Sequential.forward")) return nullptr;
  Ref current = Ref::borrow(input);
  Py_ssize_t at = 0;
  while (current && PyDict_Next(modules, &at, &key, &value)) {
    Ref module = Ref::borrow(value);  // the call may drop it from the dict
    current = Ref(call_module(module.get(), current.get()));
  }
  Py_LeaveRecursiveCall();
  return current.release();
}

// A registered parameter that is nothing but a tensor, or None; null for anything else.
PyObject* plain_parameter(ModuleObject* m, PyObject* name) {
  PyObject* parameters = m->slots[kParameters];
  PyObject* value = parameters ? PyDict_GetItemWithError(parameters, name) : nullptr;
  return value && (value == Py_None || is_exact_tensor(value)) ? value : nullptr;
}

PyObject* linear(ModuleObject* m, PyObject* input) {
  static const Tensor none;
  if (modes_active() || !is_exact_tensor(input)) return nullptr;
  PyObject *weight = plain_parameter(m, weight_key), *bias = plain_parameter(m, bias_key);
  if (!weight || !bias || weight == Py_None) return nullptr;
  return guarded([&] {
    const Tensor& b = bias == Py_None ? none : tensor_of(bias);
    return wrap(ops::linear(tensor_of(input), tensor_of(weight), b));
  });
}

// Gives a new reference; null with no exception set: the Python function is to be called.
struct Native {
  const char* name;
  PyObject* (*run)(ModuleObject*, PyObject* input);
  PyObject* function;
};
Native natives[] = {{"Linear.forward", linear, nullptr},
                    {"Sequential.forward", sequential, nullptr},
                    {"Identity.forward", identity, nullptr}};

// _native_forward(function): calls of this method of Linear, Sequential or Identity may skip it.
PyObject* bind_native(PyObject*, PyObject* function) {
  return guarded([&] {
    Ref name = own(PyObject_GetAttrString(function, "__qualname__"));
    for (Native& n : natives)
      if (text_of(name.get()) == n.name) n.function = Py_NewRef(function);
    return Py_NewRef(function);
  });
}

PyMethodDef functions[] = {{"_native_forward", bind_native, METH_O, nullptr}, {}};

}  // namespace

PyObject* run_native(PyObject* function, ModuleObject* m, PyObject* input) {
  for (const Native& n : natives) {
    if (n.function != function) continue;
    return m->shadowed || m->published ? nullptr : n.run(m, input);
  }
  return nullptr;
}

void init_module_forward(PyObject* module) {
  weight_key = checked(PyUnicode_InternFromString("weight"));
  bias_key = checked(PyUnicode_InternFromString("bias"));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
