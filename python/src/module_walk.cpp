// Walking a module and all modules below it: what Module.parameters() and zero_grad() go through.
#include <unordered_set>
#include <vector>

#include "python/src/module_base.h"

namespace flambeau::python {
namespace {

PyObject* named_modules_key;

bool walks_itself(PyObject* module, PyObject* standard) {
  if (!is_module(module)) return true;
  Ref walk = own(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(module)), named_modules_key));
  return walk.get() != standard;
}

// Calls f(value) for the values of a dict that are not None.
template <class F>
void each_value(PyObject* dict, F f) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (dict && PyDict_Next(dict, &at, &key, &value))
    if (value != Py_None) f(value);
}

// Appends what `module` and the modules below it register, in the order of named_modules, each
// object once. False where a class walks in a way of its own.
bool append_parameters(PyObject* module, PyObject* standard, PyObject* list) {
  std::unordered_set<PyObject*> seen;
  std::vector<Ref> stack{Ref::borrow(module)}, children;
  while (!stack.empty()) {
    Ref next = std::move(stack.back());
    stack.pop_back();
    if (!seen.insert(next.get()).second) continue;
    if (walks_itself(next.get(), standard)) return false;
    each_value(module_slot(as_module(next.get()), kParameters), [&](PyObject* value) {
      if (seen.insert(value).second) checked(PyList_Append(list, value));
    });
    each_value(as_module(next.get())->slots[kModules],
               [&](PyObject* child) { children.push_back(Ref::borrow(child)); });
    for (; !children.empty(); children.pop_back()) stack.push_back(std::move(children.back()));
  }
  return true;
}

// _parameters_below(module, Module.named_modules): a list, or None: some class overrides the walk.
PyObject* parameters_below(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *module, *standard;
    if (!PyArg_ParseTuple(args, "OO", &module, &standard)) throw ErrorSet{};
    Ref list = own(PyList_New(0));
    return append_parameters(module, standard, list.get()) ? list.release() : Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {{"_parameters_below", parameters_below, METH_VARARGS, nullptr}, {}};

}  // namespace

void init_module_walk(PyObject* module) {
  named_modules_key = checked(PyUnicode_InternFromString("named_modules"));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
