// What a module holds: slots made when first asked for, `__dict__` as torch shows it, pickling.
#include "python/src/module_base.h"

namespace flambeau::python {

PyObject* module_keys[kModuleSlots];

namespace {

constexpr const char* kNames[kModuleSlots] = {"_parameters",
                                              "_buffers",
                                              "_non_persistent_buffers_set",
                                              "_backward_pre_hooks",
                                              "_backward_hooks",
                                              "_is_full_backward_hook",
                                              "_forward_hooks",
                                              "_forward_hooks_with_kwargs",
                                              "_forward_hooks_always_called",
                                              "_forward_pre_hooks",
                                              "_forward_pre_hooks_with_kwargs",
                                              "_state_dict_hooks",
                                              "_state_dict_pre_hooks",
                                              "_load_state_dict_pre_hooks",
                                              "_load_state_dict_post_hooks",
                                              "_modules"};
PyObject* training_key;
PyObject* ordered_dict;

bool is_call_hook(int slot) {
  return slot == kBackwardPreHooks || slot == kBackwardHooks || slot == kForwardHooks ||
         slot == kForwardPreHooks;
}

[[noreturn]] void fail_missing(ModuleObject* m, int slot) {
  PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%s'%s",
               type_name(reinterpret_cast<PyObject*>(m)).c_str(), kNames[slot],
               m->initialised ? "" : ": Module.__init__() was not called");
  throw ErrorSet{};
}

PyObject* fresh(int slot) {
  switch (slot) {
    case kParameters:
    case kBuffers:
    case kModules:
      return checked(PyDict_New());
    case kNonPersistent:
      return checked(PySet_New(nullptr));
    case kIsFullBackwardHook:
      return Py_NewRef(Py_None);
    default:
      return checked(PyObject_CallNoArgs(ordered_dict));
  }
}

void assign(ModuleObject* m, int slot, PyObject* value) {
  Ref old(std::exchange(m->slots[slot], Py_XNewRef(value)));
  if (value && is_call_hook(slot)) m->hooked = true;
}

PyObject* instance_dict(ModuleObject* m) {
  if (!m->dict) m->dict = checked(PyDict_New());
  return m->dict;
}

// From now on __dict__ holds what the slots hold, and whoever changes it changes the module.
void publish(ModuleObject* m) {
  if (m->published) return;
  PyObject* dict = instance_dict(m);
  if (m->initialised) {
    for (int i = 0; i < kModuleSlots; i++)
      checked(PyDict_SetItem(dict, module_keys[i], module_slot(m, i)));
  }
  m->published = true;
}

// Are names in this dict also attributes of the class?
void note_shadowed(ModuleObject* m, int slot) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (m->slots[slot] && PyDict_Next(m->slots[slot], &at, &key, &value)) note_registered(m, key);
}

}  // namespace

void note_registered(ModuleObject* m, PyObject* name) {
  if (!m->shadowed)
    m->shadowed = PyObject_HasAttr(reinterpret_cast<PyObject*>(Py_TYPE(&m->ob_base)), name);
}

PyObject* module_slot(ModuleObject* m, int slot) {
  if (FL_UNLIKELY(m->published)) {
    refresh_slots(m);
    if (!m->slots[slot]) fail_missing(m, slot);
    return m->slots[slot];
  }
  if (!m->slots[slot]) {
    if (!m->initialised) fail_missing(m, slot);
    assign(m, slot, Ref(fresh(slot)).get());
  }
  return m->slots[slot];
}

void refresh_slots(ModuleObject* m) {
  for (int i = 0; i < kModuleSlots; i++) {
    PyObject* now = m->dict ? PyDict_GetItemWithError(m->dict, module_keys[i]) : nullptr;
    if (now != m->slots[i]) assign(m, i, now);
  }
  m->initialised = m->slots[kParameters];
}

void clear_slots(ModuleObject* m) {
  for (PyObject*& slot : m->slots) Py_CLEAR(slot);
}

PyObject* module_get_dict(PyObject* self, void*) {
  return guarded([&] {
    publish(as_module(self));
    return Py_NewRef(as_module(self)->dict);
  });
}

int module_set_dict(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    FL_CHECK(value && PyDict_Check(value), TypeError, "__dict__ must be set to a dict");
    ModuleObject* m = as_module(self);
    Ref old(std::exchange(m->dict, Py_NewRef(value)));
    m->published = true;
    refresh_slots(m);
    return 0;
  });
}

PyObject* module_get_slot(PyObject* self, void* slot) {
  return guarded([&] {
    return Py_NewRef(module_slot(as_module(self), int(reinterpret_cast<intptr_t>(slot))));
  });
}

int module_set_slot(PyObject* self, PyObject* value, void* slot) {
  return guarded_int([&] {
    ModuleObject* m = as_module(self);
    int at = int(reinterpret_cast<intptr_t>(slot));
    assign(m, at, value);
    if (m->published) {
      checked(value ? PyDict_SetItem(m->dict, module_keys[at], value)
                    : PyDict_DelItem(m->dict, module_keys[at]));
    }
    return 0;
  });
}

// torch's `__dict__`, entry by entry: a new dict.
PyObject* module_getstate(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    ModuleObject* m = as_module(self);
    if (m->published) return PyDict_Copy(m->dict);
    Ref state = own(PyDict_New());
    PyObject* training = m->dict ? PyDict_GetItemWithError(m->dict, training_key) : nullptr;
    if (training) checked(PyDict_SetItem(state.get(), training_key, training));
    for (int i = 0; i < kModuleSlots && m->initialised; i++)
      checked(PyDict_SetItem(state.get(), module_keys[i], module_slot(m, i)));
    if (m->dict) checked(PyDict_Update(state.get(), m->dict));
    return state.release();
  });
}

// Entries that older files lack are made when first asked for.
PyObject* module_setstate(PyObject* self, PyObject* state) {
  return guarded([&] {
    FL_CHECK(PyDict_Check(state), TypeError, "__setstate__: expected a dict, got {}",
             type_name(state));
    ModuleObject* m = as_module(self);
    if (m->published) {
      checked(PyDict_Update(m->dict, state));
      m->published = false;
    } else {
      checked(PyDict_Update(instance_dict(m), state));
    }
    for (int i = 0; i < kModuleSlots; i++) {
      PyObject* value = PyDict_GetItemWithError(m->dict, module_keys[i]);
      if (!value) continue;
      assign(m, i, value);
      checked(PyDict_DelItem(m->dict, module_keys[i]));
    }
    m->initialised = true;
    for (int slot : {kParameters, kBuffers, kModules}) note_shadowed(m, slot);
    return Py_NewRef(Py_None);
  });
}

void init_module_state() {
  for (int i = 0; i < kModuleSlots; i++)
    module_keys[i] = checked(PyUnicode_InternFromString(kNames[i]));
  training_key = checked(PyUnicode_InternFromString("training"));
  ordered_dict = import_from("collections", "OrderedDict").release();
}

}  // namespace flambeau::python
