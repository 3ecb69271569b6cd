// Calling a module: straight to `forward` unless some hook exists.
#include "python/src/module_base.h"

// Exported by every CPython from 3.9 on; declared by the limited API from 3.12 on.
extern "C" PyObject* PyObject_Vectorcall(PyObject*, PyObject* const*, size_t, PyObject*);

namespace flambeau::python {
namespace {

PyObject* global_hooks[4];
PyObject *forward_key, *call_slow_key;
PyTypeObject* function_type;

bool any_global_hook() {
  for (PyObject* hooks : global_hooks)
    if (hooks && PyDict_Size(hooks)) return true;
  return false;
}

bool any_own_hook(ModuleObject* m) {
  for (int slot : {kForwardHooks, kForwardPreHooks, kBackwardHooks, kBackwardPreHooks})
    if (m->slots[slot] && PyDict_Size(m->slots[slot])) return true;
  return false;
}

PyObject* prepend(PyObject* self, PyObject* args) {
  Py_ssize_t n = PyTuple_Size(args);
  PyObject* all = PyTuple_New(n + 1);
  if (!all) return nullptr;
  PyTuple_SetItem(all, 0, Py_NewRef(self));
  for (Py_ssize_t i = 0; i < n; i++)
    PyTuple_SetItem(all, i + 1, Py_NewRef(PyTuple_GetItem(args, i)));
  return all;
}

// A plain function found on the class, called with the module first: no bound method is made.
PyObject* call_function(PyObject* function, PyObject* self, PyObject* args, PyObject* kwargs) {
  constexpr Py_ssize_t kInline = 8;
  Py_ssize_t n = PyTuple_Size(args);
  if (FL_LIKELY(!kwargs && n < kInline)) {
    PyObject* all[kInline] = {self};
    for (Py_ssize_t i = 0; i < n; i++) all[i + 1] = PyTuple_GetItem(args, i);
    return PyObject_Vectorcall(function, all, size_t(n + 1), nullptr);
  }
  Ref all(prepend(self, args));
  return all ? PyObject_Call(function, all.get(), kwargs) : nullptr;
}

PyObject* call_forward(PyObject* self, PyObject* args, PyObject* kwargs) {
  ModuleObject* m = as_module(self);
  bool on_instance = m->dict && PyDict_GetItemWithError(m->dict, forward_key);
  if (FL_LIKELY(!on_instance)) {
    Ref function(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(self)), forward_key));
    if (FL_LIKELY(function && Py_TYPE(function.get()) == function_type))
      return call_function(function.get(), self, args, kwargs);
    if (!function) PyErr_Clear();
  }
  Ref bound(PyObject_GetAttr(self, forward_key));
  return bound ? PyObject_Call(bound.get(), args, kwargs) : nullptr;
}

PyObject* bind_global_hooks(PyObject*, PyObject* dicts) {
  for (int i = 0; i < 4; i++) {
    PyObject* hooks = PyTuple_GetItem(dicts, i);
    if (!hooks) return nullptr;
    Ref old(std::exchange(global_hooks[i], Py_NewRef(hooks)));
  }
  return Py_NewRef(Py_None);
}

PyMethodDef functions[] = {{"_bind_global_module_hooks", bind_global_hooks, METH_VARARGS, nullptr},
                           {}};

}  // namespace

PyObject* module_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  ModuleObject* m = as_module(self);
  if (FL_UNLIKELY(m->published)) refresh_slots(m);
  if (FL_UNLIKELY((m->hooked && any_own_hook(m)) || any_global_hook())) {
    Ref none(kwargs ? Py_NewRef(kwargs) : PyDict_New());
    return PyObject_CallMethodObjArgs(self, call_slow_key, args, none.get(), nullptr);
  }
  return call_forward(self, args, kwargs);
}

void init_module_call(PyObject* module) {
  forward_key = checked(PyUnicode_InternFromString("forward"));
  call_slow_key = checked(PyUnicode_InternFromString("_call_slow"));
  Ref type = import_from("types", "FunctionType");
  function_type = reinterpret_cast<PyTypeObject*>(type.release());
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
