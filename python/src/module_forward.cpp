// `forward` of the plainest layers without a Python frame. Their classes name the Python function
// each stands for; a class that overrides it, or arguments out of the ordinary, get the function.
#include "flambeau/generated/ops.h"
#include "python/src/module_base.h"
#include "python/src/parse.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

PyObject *weight_key, *bias_key, *shape_key, *eps_key, *inplace_key;

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

// ---- one op on the input and registered parameters ----

// A registered parameter that is nothing but a tensor, or None; null for anything else.
PyObject* plain_parameter(ModuleObject* m, PyObject* name) {
  PyObject* parameters = m->slots[kParameters];
  PyObject* value = parameters ? PyDict_GetItemWithError(parameters, name) : nullptr;
  return value && (value == Py_None || is_exact_tensor(value)) ? value : nullptr;
}

// The module's weight and bias as tensors, kept while the op runs: another thread may replace them.
class Weights {
 public:
  explicit Weights(ModuleObject* m)
      : weight_(plain_parameter(m, weight_key)), bias_(plain_parameter(m, bias_key)) {
    Py_XINCREF(weight_);
    Py_XINCREF(bias_);
  }
  ~Weights() {
    Py_XDECREF(weight_);
    Py_XDECREF(bias_);
  }
  Weights(const Weights&) = delete;
  bool plain() const { return weight_ && bias_; }
  const Tensor& weight() const { return tensor_or_none(weight_); }
  const Tensor& bias() const { return tensor_or_none(bias_); }

 private:
  static const Tensor& tensor_or_none(PyObject* o) {
    static const Tensor none;
    return o == Py_None ? none : tensor_of(o);
  }
  PyObject *weight_, *bias_;
};

bool is_plain(PyObject* input) { return is_exact_tensor(input) && !modes_active(); }

PyObject* attribute(ModuleObject* m, PyObject* name) {
  return m->dict ? PyDict_GetItemWithError(m->dict, name) : nullptr;
}

PyObject* linear(ModuleObject* m, PyObject* input) {
  Weights w(m);
  if (!is_plain(input) || !w.plain() || !w.weight().defined()) return nullptr;
  return guarded([&] { return wrap(ops::linear(tensor_of(input), w.weight(), w.bias())); });
}

PyObject* layer_norm(ModuleObject* m, PyObject* input) {
  Weights w(m);
  PyObject *shape = attribute(m, shape_key), *eps = attribute(m, eps_key);
  if (!is_plain(input) || !w.plain() || !shape || !eps || !PyFloat_Check(eps)) return nullptr;
  Py_ssize_t dims = PyTuple_Check(shape) ? PyTuple_Size(shape) : kMaxDims + 1;
  if (dims > kMaxDims) return nullptr;
  return guarded([&]() -> PyObject* {
    Ints sizes(static_cast<size_t>(dims));
    for (Py_ssize_t d = 0; d < dims; d++)
      if (!as_int(PyTuple_GetItem(shape, d), sizes[size_t(d)])) return nullptr;
    return wrap(
        ops::layer_norm(tensor_of(input), sizes, w.weight(), w.bias(), PyFloat_AsDouble(eps)));
  });
}

PyObject* relu(ModuleObject* m, PyObject* input) {
  if (!is_plain(input) || attribute(m, inplace_key) != Py_False) return nullptr;
  return guarded([&] { return wrap(ops::relu(tensor_of(input))); });
}

// Gives a new reference; null with no exception set: the Python function is to be called.
struct Native {
  const char* name;
  PyObject* (*run)(ModuleObject*, PyObject* input);
  PyObject* function;
};
Native natives[] = {{"Linear.forward", linear, nullptr},
                    {"Sequential.forward", sequential, nullptr},
                    {"Identity.forward", identity, nullptr},
                    {"LayerNorm.forward", layer_norm, nullptr},
                    {"ReLU.forward", relu, nullptr}};

// @_native_forward: calls of this method of a class in the list may skip it.
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
  auto intern = [](const char* text) { return checked(PyUnicode_InternFromString(text)); };
  weight_key = intern("weight");
  bias_key = intern("bias");
  shape_key = intern("normalized_shape");
  eps_key = intern("eps");
  inplace_key = intern("inplace");
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
