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

// A plain function with one argument, or what stands for it.
PyObject* call_with_one(PyObject* function, PyObject* self, PyObject* input) {
  PyObject* result = run_native(function, as_module(self), input);
  if (result || PyErr_Occurred()) return result;
  PyObject* all[] = {self, input};
  return PyObject_Vectorcall(function, all, 2, nullptr);
}

// A plain function found on the class, called with the module first: no bound method is made.
PyObject* call_function(PyObject* function, PyObject* self, PyObject* args, PyObject* kwargs) {
  constexpr Py_ssize_t kInline = 8;
  Py_ssize_t n = PyTuple_Size(args);
  if (FL_LIKELY(!kwargs && n == 1)) return call_with_one(function, self, PyTuple_GetItem(args, 0));
  if (FL_LIKELY(!kwargs && n < kInline)) {
    PyObject* all[kInline] = {self};
    for (Py_ssize_t i = 0; i < n; i++) all[i + 1] = PyTuple_GetItem(args, i);
    return PyObject_Vectorcall(function, all, size_t(n + 1), nullptr);
  }
  Ref all(prepend(self, args));
  return all ? PyObject_Call(function, all.get(), kwargs) : nullptr;
}

// The class's forward where that is a plain function, which the instance does not hide.
Ref plain_forward(PyObject* self) {
  ModuleObject* m = as_module(self);
  if (m->dict && PyDict_GetItemWithError(m->dict, forward_key)) return Ref();
  Ref function(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(self)), forward_key));
  if (!function) PyErr_Clear();
  return function && Py_TYPE(function.get()) == function_type ? std::move(function) : Ref();
}

PyObject* call_forward(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (Ref function = plain_forward(self); FL_LIKELY(function))
    return call_function(function.get(), self, args, kwargs);
  Ref bound(PyObject_GetAttr(self, forward_key));
  return bound ? PyObject_Call(bound.get(), args, kwargs) : nullptr;
}

// ---- errors of the library say in which module they arose ----

std::string first_argument(PyObject* error) {
  Ref args = own(PyObject_GetAttrString(error, "args"));
  if (PyTuple_Size(args.get()) != 1) return {};
  PyObject* text = PyTuple_GetItem(args.get(), 0);
  return PyUnicode_Check(text) ? std::string(text_of(text)) : std::string();
}

// "Linear(in_features=5, ...)"; of a module whose text has several lines the class alone.
std::string one_line(PyObject* module) {
  std::string text = repr_text(module);
  return text.find('\n') == std::string::npos ? text : type_name(module) + "(...)";
}

// The name of `child` among the submodules, "" if it is none.
std::string name_of(ModuleObject* m, PyObject* child) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (m->slots[kModules] && PyDict_Next(m->slots[kModules], &at, &key, &value))
    if (value == child) return std::string(text_of(key));
  return {};
}

// The error carries (text, path so far, innermost module, last module) while it leaves the calls.
void add_path(PyObject* self, PyObject* error) {
  Ref known(PyObject_GetAttrString(error, "_module"));
  if (!known) PyErr_Clear();
  std::string text, path;
  PyObject* innermost = self;
  if (known) {
    std::string name = name_of(as_module(self), PyTuple_GetItem(known.get(), 3));
    if (name.empty()) return;
    text = text_of(PyTuple_GetItem(known.get(), 0));
    path = text_of(PyTuple_GetItem(known.get(), 1));
    path = path.empty() ? name : name + '.' + path;
    innermost = PyTuple_GetItem(known.get(), 2);
  } else {
    text = first_argument(error);
    if (text.empty() || !is_library_error(text)) return;
  }
  std::string message = text + "\n  in module " + (path.empty() ? "" : path + ": ");
  Ref args = own(Py_BuildValue("(s)", (message + one_line(innermost)).c_str()));
  Ref state = own(Py_BuildValue("(ssOO)", text.c_str(), path.c_str(), innermost, self));
  checked(PyObject_SetAttrString(error, "args", args.get()));
  checked(PyObject_SetAttrString(error, "_module", state.get()));
}

[[gnu::cold]] PyObject* failed(PyObject* self) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  try {
    add_path(self, error);
  } catch (...) {
    PyErr_Clear();  // the error itself matters more
  }
  PyErr_Restore(type, error, trace);
  return nullptr;
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

bool has_hooks(ModuleObject* m) {
  if (FL_UNLIKELY(m->published)) refresh_slots(m);
  return FL_UNLIKELY((m->hooked && any_own_hook(m)) || any_global_hook());
}

}  // namespace

PyObject* module_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (has_hooks(as_module(self))) {
    Ref none(kwargs ? Py_NewRef(kwargs) : PyDict_New());
    PyObject* result = PyObject_CallMethodObjArgs(self, call_slow_key, args, none.get(), nullptr);
    return result ? result : failed(self);
  }
  PyObject* result = call_forward(self, args, kwargs);
  return FL_LIKELY(result) ? result : failed(self);
}

PyObject* call_module(PyObject* module, PyObject* input) {
  bool ours = is_module(module) &&
              PyType_GetSlot(Py_TYPE(module), Py_tp_call) == reinterpret_cast<void*>(module_call);
  if (FL_UNLIKELY(!ours || has_hooks(as_module(module))))
    return PyObject_CallFunctionObjArgs(module, input, nullptr);
  Ref function = plain_forward(module);
  if (FL_UNLIKELY(!function)) return PyObject_CallFunctionObjArgs(module, input, nullptr);
  PyObject* result = call_with_one(function.get(), module, input);
  return FL_LIKELY(result) ? result : failed(module);
}

void init_module_call(PyObject* module) {
  forward_key = checked(PyUnicode_InternFromString("forward"));
  call_slow_key = checked(PyUnicode_InternFromString("_call_slow"));
  Ref type = import_from("types", "FunctionType");
  function_type = reinterpret_cast<PyTypeObject*>(type.release());
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
