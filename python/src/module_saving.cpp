// Module.state_dict below its arguments: walks a module and its children, and turns to Python only
// where a class overrides a step or a hook is registered.
#include <algorithm>
#include <vector>

#include "flambeau/generated/ops.h"
#include "python/src/module_base.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

enum Step { kStateDict, kSave, kExtra, kSteps };
constexpr const char* kStepNames[kSteps] = {"state_dict", "_save_to_state_dict", "get_extra_state"};

PyObject* step_keys[kSteps];
PyObject *version_key, *metadata_key, *before_key, *after_key, *extra_key;

// Where everything goes; `metadata` is null for a destination without.
struct Saving {
  PyObject *destination, *metadata;
  bool keep_vars;
  std::vector<PyTypeObject*>* plain;  // classes seen to override nothing
};

// The function that Module itself has for a step.
PyObject* standard(Step step) {
  static PyObject* base = import_from("flambeau.nn.modules._state", "StateMethods").release();
  static PyObject* functions[kSteps];
  if (!functions[step]) functions[step] = checked(PyObject_GetAttr(base, step_keys[step]));
  return functions[step];
}

PyObject* class_of(ModuleObject* m) {
  return reinterpret_cast<PyObject*>(Py_TYPE(reinterpret_cast<PyObject*>(m)));
}

bool class_overrides(ModuleObject* m, Step step) {
  Ref found = own(PyObject_GetAttr(class_of(m), step_keys[step]));
  return found.get() != standard(step);
}

bool is_plain(ModuleObject* m, const Saving& to) {
  PyTypeObject* type = Py_TYPE(&m->ob_base);
  if (std::find(to.plain->begin(), to.plain->end(), type) != to.plain->end()) return true;
  for (Step step : {kStateDict, kSave, kExtra})
    if (class_overrides(m, step)) return false;
  to.plain->push_back(type);
  return true;
}

bool overrides(ModuleObject* m, const Saving& to, Step step) {
  if (step != kExtra && m->dict && PyDict_GetItemWithError(m->dict, step_keys[step])) return true;
  return !is_plain(m, to) && class_overrides(m, step);
}

Ref joined(PyObject* prefix, PyObject* name) { return own(PyUnicode_Concat(prefix, name)); }

Ref saved_value(PyObject* value, bool keep_vars) {
  if (keep_vars) return Ref::borrow(value);
  if (FL_LIKELY(is_exact_tensor(value) && !modes_active()))
    return Ref(wrap(ops::detach(tensor_of(value))));
  return own(PyObject_CallMethod(value, "detach", nullptr));
}

// Calls f(name, value) for the entries of a dict that are not None.
template <class F>
void each_entry(PyObject* dict, F f) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (dict && PyDict_Next(dict, &at, &key, &value)) {
    if (value == Py_None) continue;
    Ref name = Ref::borrow(key), entry = Ref::borrow(value);  // f may run anything
    f(name.get(), entry.get());
  }
}

void save_own(ModuleObject* m, const Saving& to, PyObject* prefix) {
  auto put = [&](PyObject* name, PyObject* value) {
    Ref key = joined(prefix, name), saved = saved_value(value, to.keep_vars);
    checked(PyObject_SetItem(to.destination, key.get(), saved.get()));
  };
  each_entry(module_slot(m, kParameters), put);
  PyObject* skipped = m->slots[kNonPersistent];
  each_entry(m->slots[kBuffers], [&](PyObject* name, PyObject* value) {
    int skip = skipped ? PySequence_Contains(skipped, name) : 0;
    checked(skip);
    if (!skip) put(name, value);
  });
  if (!overrides(m, to, kExtra)) return;
  Ref key = joined(prefix, extra_key);
  Ref state = own(PyObject_CallMethodObjArgs(&m->ob_base, step_keys[kExtra], nullptr));
  checked(PyObject_SetItem(to.destination, key.get(), state.get()));
}

// metadata[prefix without its dot] = {"version": ...}; gives back the new dict.
Ref note_version(ModuleObject* m, const Saving& to, PyObject* prefix) {
  static PyObject* key = PyUnicode_InternFromString("version");
  Ref local = own(PyDict_New());
  // A plain number on the class, as a rule: the instance need not be searched for it.
  bool here = m->dict && PyDict_GetItemWithError(m->dict, version_key);
  Ref version = own(PyObject_GetAttr(here ? &m->ob_base : class_of(m), version_key));
  if (!PyLong_Check(version.get())) version = own(PyObject_GetAttr(&m->ob_base, version_key));
  checked(PyDict_SetItem(local.get(), key, version.get()));
  if (!to.metadata) return local;
  Py_ssize_t length = PyUnicode_GetLength(prefix);
  Ref path = own(PyUnicode_Substring(prefix, 0, length ? length - 1 : 0));
  checked(PyObject_SetItem(to.metadata, path.get(), local.get()));
  return local;
}

bool has_hooks(ModuleObject* m, int slot) {
  return m->slots[slot] && PyObject_Size(m->slots[slot]) > 0;
}

Ref save_module(PyObject* module, const Saving& to, PyObject* prefix);

void save_child(PyObject* child, const Saving& to, PyObject* prefix) {
  if (FL_LIKELY(is_module(child) && !overrides(as_module(child), to, kStateDict))) {
    (void)save_module(child, to, prefix);
    return;
  }
  Ref method = own(PyObject_GetAttr(child, step_keys[kStateDict]));
  Ref none = own(PyTuple_New(0));
  Ref named = own(Py_BuildValue("{sOsOsO}", "destination", to.destination, "prefix", prefix,
                                "keep_vars", to.keep_vars ? Py_True : Py_False));
  Ref done = own(PyObject_Call(method.get(), none.get(), named.get()));
}

// What state_dict returns: the destination, unless a hook gives another.
Ref save_module(PyObject* module, const Saving& to, PyObject* prefix) {
  ModuleObject* m = as_module(module);
  if (m->published) refresh_slots(m);
  PyObject* keep_vars = to.keep_vars ? Py_True : Py_False;
  Ref local = note_version(m, to, prefix);
  if (has_hooks(m, kStateDictPreHooks))
    Ref done = own(PyObject_CallMethodObjArgs(module, before_key, prefix, keep_vars, nullptr));
  if (overrides(m, to, kSave))
    Ref done = own(PyObject_CallMethodObjArgs(module, step_keys[kSave], to.destination, prefix,
                                              keep_vars, nullptr));
  else
    save_own(m, to, prefix);
  static PyObject* dot = PyUnicode_InternFromString(".");
  each_entry(m->slots[kModules], [&](PyObject* name, PyObject* child) {
    Ref path = joined(prefix, name);
    save_child(child, to, joined(path.get(), dot).get());
  });
  if (!has_hooks(m, kStateDictHooks)) return Ref::borrow(to.destination);
  return own(
      PyObject_CallMethodObjArgs(module, after_key, to.destination, prefix, local.get(), nullptr));
}

// _save_state(module, destination, prefix, keep_vars): the whole of state_dict.
// _save_own_state(...): the module's own entries.
template <bool whole>
PyObject* save(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *module, *destination, *prefix;
    int keep_vars;
    if (!PyArg_ParseTuple(args, "OOUp", &module, &destination, &prefix, &keep_vars))
      throw ErrorSet{};
    FL_CHECK(is_module(module), TypeError, "state_dict: expected a Module, got {}",
             type_name(module));
    Ref metadata(PyObject_GetAttr(destination, metadata_key));
    if (!metadata) PyErr_Clear();
    std::vector<PyTypeObject*> plain;
    Saving to{destination, metadata.get(), keep_vars != 0, &plain};
    if (whole) return save_module(module, to, prefix).release();
    ModuleObject* m = as_module(module);
    if (m->published) refresh_slots(m);
    save_own(m, to, prefix);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {{"_save_state", save<true>, METH_VARARGS, nullptr},
                           {"_save_own_state", save<false>, METH_VARARGS, nullptr},
                           {}};

}  // namespace

void init_module_saving(PyObject* module) {
  auto intern = [](const char* text) { return checked(PyUnicode_InternFromString(text)); };
  for (int i = 0; i < kSteps; i++) step_keys[i] = intern(kStepNames[i]);
  version_key = intern("_version");
  metadata_key = intern("_metadata");
  before_key = intern("_before_state_dict");
  after_key = intern("_after_state_dict");
  extra_key = intern("_extra_state");
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
