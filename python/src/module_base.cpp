// The Python type below nn.Module: attribute lookup, registration by assignment, life.
#include "python/src/module_base.h"

#include <cstddef>

#include <structmember.h>

#include "python/src/module.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

PyTypeObject* base_type;
PyObject *register_parameter, *register_buffer, *persistent_key, *is_buffer_key, *training_key;

PyObject* find(PyObject* dict, PyObject* name) {
  return dict ? PyDict_GetItemWithError(dict, name) : nullptr;
}

// Borrowed; null where no parameter, buffer or module has the name.
PyObject* registered(ModuleObject* m, PyObject* name) {
  if (PyObject* value = find(m->slots[kParameters], name)) return value;
  if (PyObject* value = find(m->slots[kModules], name)) return value;
  return find(m->slots[kBuffers], name);
}

// torch's order: what the class and the instance dict give comes first.
PyObject* getattr_careful(PyObject* self, PyObject* name) {
  ModuleObject* m = as_module(self);
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  if (m->published) refresh_slots(m);
  value = registered(m, name);
  if (!value) {
    PyErr_Restore(type, error, trace);
    return nullptr;
  }
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(trace);
  return Py_NewRef(value);
}

PyObject* getattro(PyObject* self, PyObject* name) {
  ModuleObject* m = as_module(self);
  if (FL_UNLIKELY(m->shadowed || m->published)) return getattr_careful(self, name);
  // Registered names do not clash with other attributes here, and what the instance dict holds was
  // put there past the class's descriptors, so the cheap lookups come first.
  if (PyObject* value = find(m->slots[kParameters], name)) return Py_NewRef(value);
  for (PyObject* dict : {m->dict, m->slots[kModules], m->slots[kBuffers]})
    if (PyObject* value = find(dict, name)) return Py_NewRef(value);
  return PyObject_GenericGetAttr(self, name);
}

// __getattr__ of torch's Module, for classes that override it and fall back on this one.
PyObject* getattr_method(PyObject* self, PyObject* name) {
  ModuleObject* m = as_module(self);
  if (m->published) refresh_slots(m);
  if (PyObject* value = registered(m, name)) return Py_NewRef(value);
  PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", type_name(self).c_str(),
               name);
  return nullptr;
}

bool is_parameter(PyObject* o) {
  if (Py_TYPE(o) == parameter_type) return true;
  if (!is_tensor(o) || (Py_TYPE(o) == tensor_type && !as_py(o)->dict)) return false;
  int answer = PyObject_IsInstance(o, reinterpret_cast<PyObject*>(parameter_type));
  checked(answer);
  return answer;
}
// A nn.Buffer is a plain tensor with a mark.
bool is_marked_buffer(PyObject* o) {
  if (!is_tensor(o) || !as_py(o)->dict) return false;
  PyObject* mark = PyDict_GetItemWithError(as_py(o)->dict, is_buffer_key);
  return mark && PyObject_IsTrue(mark) == 1;
}

void forget(PyObject* container, PyObject* name) {
  if (!container) return;
  int present = PySequence_Contains(container, name);
  checked(present);
  if (!present) return;
  if (PySet_Check(container))
    checked(PySet_Discard(container, name));
  else
    checked(PyObject_DelItem(container, name));
}

// Removes a name from everywhere but `kept`, before it is registered there.
void forget_elsewhere(ModuleObject* m, PyObject* name, int kept) {
  forget(m->dict, name);
  for (int slot : {kParameters, kBuffers, kModules, kNonPersistent})
    if (slot != kept) forget(m->slots[slot], name);
}

void require_init(ModuleObject* m, const char* what) {
  if (m->initialised) return;
  PyErr_Format(PyExc_AttributeError, "cannot assign %s before Module.__init__() call", what);
  throw ErrorSet{};
}

[[noreturn]] void fail_kind(PyObject* value, const char* what, PyObject* name,
                            const char* expected) {
  PyErr_Format(PyExc_TypeError, "cannot assign '%s' as %s '%U' (%s or None expected)",
               type_name(value).c_str(), what, name, expected);
  throw ErrorSet{};
}

void call_register(PyObject* self, PyObject* method, PyObject* name, PyObject* value,
                   PyObject* last = nullptr) {
  Ref done = own(PyObject_CallMethodObjArgs(self, method, name, value, last, nullptr));
}

// Hooks that see every module that is registered may replace it.
Ref through_hooks(PyObject* self, PyObject* name, PyObject* value) {
  static PyObject* hooks =
      import_from("flambeau.nn.modules._hooks", "_global_module_registration_hooks").release();
  Ref current = Ref::borrow(value);
  if (PyObject_Size(hooks) == 0) return current;
  Ref list = own(PyMapping_Values(hooks));
  for (Py_ssize_t i = 0, n = PyList_Size(list.get()); i < n; i++) {
    Ref answer = own(PyObject_CallFunctionObjArgs(PyList_GetItem(list.get(), i), self, name,
                                                  current.get(), nullptr));
    if (answer.get() != Py_None) current = answer;
  }
  return current;
}

void set_parameter(PyObject* self, PyObject* name, PyObject* value) {
  require_init(as_module(self), "parameters");
  forget_elsewhere(as_module(self), name, kParameters);
  call_register(self, register_parameter, name, value);
  note_registered(as_module(self), name);
}

void set_module(PyObject* self, PyObject* name, PyObject* value) {
  ModuleObject* m = as_module(self);
  require_init(m, "module");
  if (value != Py_None) forget_elsewhere(m, name, kModules);
  Ref module = through_hooks(self, name, value);
  checked(PyObject_SetItem(module_slot(m, kModules), name, module.get()));
  note_registered(m, name);
}

void set_buffer(PyObject* self, PyObject* name, PyObject* value) {
  ModuleObject* m = as_module(self);
  require_init(m, "buffer");
  PyObject* transient = m->slots[kNonPersistent];
  int kept_out = transient ? PySet_Contains(transient, name) : 0;
  checked(kept_out);
  Ref persistent(to_bool(!kept_out));
  if (is_marked_buffer(value)) persistent = own(PyObject_GetAttr(value, persistent_key));
  forget_elsewhere(m, name, kBuffers);
  // A class that overrides register_buffer may know only its first two arguments.
  static PyObject* standard = import_from("flambeau.nn.modules.module", "Module").release();
  Ref ours = own(PyObject_GetAttr(standard, register_buffer));
  Ref theirs = own(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(self)), register_buffer));
  call_register(self, register_buffer, name, value,
                ours.get() == theirs.get() ? persistent.get() : nullptr);
  note_registered(m, name);
}

int setattr_checked(PyObject* self, PyObject* name, PyObject* value) {
  ModuleObject* m = as_module(self);
  if (m->published) refresh_slots(m);
  if (is_parameter(value)) return set_parameter(self, name, value), 0;
  if (find(m->slots[kParameters], name)) {
    if (value != Py_None) fail_kind(value, "parameter", name, "torch.nn.Parameter");
    call_register(self, register_parameter, name, value);
    return 0;
  }
  if (is_module(value)) return set_module(self, name, value), 0;
  if (find(m->slots[kModules], name)) {
    if (value != Py_None) fail_kind(value, "child module", name, "torch.nn.Module");
    return set_module(self, name, value), 0;
  }
  if (is_marked_buffer(value) || find(m->slots[kBuffers], name)) {
    if (value != Py_None && !is_tensor(value))
      fail_kind(value, "buffer", name, "torch.nn.Buffer, torch.Tensor");
    return set_buffer(self, name, value), 0;
  }
  return PyObject_GenericSetAttr(self, name, value);
}

int delattr(PyObject* self, PyObject* name) {
  ModuleObject* m = as_module(self);
  if (m->published) refresh_slots(m);
  for (int slot : {kParameters, kBuffers, kModules}) {
    if (!find(m->slots[slot], name)) continue;
    if (slot == kBuffers) forget(m->slots[kNonPersistent], name);
    return PyObject_DelItem(m->slots[slot], name);
  }
  return PyObject_GenericSetAttr(self, name, nullptr);
}

int setattro(PyObject* self, PyObject* name, PyObject* value) {
  return guarded_int(
      [&] { return value ? setattr_checked(self, name, value) : delattr(self, name); });
}

// Every call begins anew, like torch's, whose __init__ makes new dicts.
int init(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (PyTuple_Size(args) || (kwargs && PyDict_Size(kwargs))) {
    PyErr_SetString(PyExc_TypeError, "Module.__init__: takes no arguments");
    return -1;
  }
  return guarded_int([&] {
    ModuleObject* m = as_module(self);
    bool again = m->initialised || m->published;
    m->initialised = true;
    if (again) {
      m->published = false;
      clear_slots(m);
      for (PyObject* key : module_keys) forget(m->dict, key);
    }
    if (!m->dict) m->dict = checked(PyDict_New());
    return PyDict_SetItem(m->dict, training_key, Py_True);
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  ModuleObject* m = as_module(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(m->dict);
  for (PyObject* slot : m->slots) Py_VISIT(slot);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_module(self)->dict);
  clear_slots(as_module(self));
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (as_module(self)->weak) PyObject_ClearWeakRefs(self);
  clear(self);
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(self);
  Py_DECREF(type);
}

// A class that overrides __getattr__ calls super().__getattr__. It cannot be a method of the base,
// since CPython then sends every lookup of every module through it; so it is a base of its own,
// which only the overriding classes get.
PyObject* init_subclass(PyObject* cls, PyObject*) {
  return guarded([&]() -> PyObject* {
    static PyObject* fallback = import_from("flambeau._C", "ModuleGetattr").release();
    Ref own_names = own(PyObject_GetAttrString(cls, "__dict__"));
    static PyObject* key = PyUnicode_InternFromString("__getattr__");
    int overrides = PySequence_Contains(own_names.get(), key);
    checked(overrides);
    if (!overrides || PyObject_IsSubclass(cls, fallback) == 1) return Py_NewRef(Py_None);
    Ref bases = own(PyObject_GetAttrString(cls, "__bases__"));
    Ref more = own(PyTuple_Pack(1, fallback));
    Ref all = own(PySequence_Concat(bases.get(), more.get()));
    checked(PyObject_SetAttrString(cls, "__bases__", all.get()));
    return Py_NewRef(Py_None);
  });
}

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(ModuleObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ModuleObject, weak), READONLY, nullptr},
    {}};

PyGetSetDef getset[kModuleSlots + 2];

PyMethodDef methods[] = {{"__getstate__", module_getstate, METH_NOARGS, nullptr},
                         {"__setstate__", module_setstate, METH_O, nullptr},
                         {"__init_subclass__", init_subclass, METH_NOARGS | METH_CLASS, nullptr},
                         {}};

PyTypeObject* make_base_type() {
  for (int i = 0; i < kModuleSlots; i++)
    getset[i] = {PyUnicode_AsUTF8AndSize(module_keys[i], nullptr), module_get_slot, module_set_slot,
                 nullptr, reinterpret_cast<void*>(intptr_t(i))};
  getset[kModuleSlots] = {"__dict__", module_get_dict, module_set_dict, nullptr, nullptr};
  PyType_Slot slots[] = {{Py_tp_init, slot(init)},
                         {Py_tp_dealloc, slot(dealloc)},
                         {Py_tp_traverse, slot(traverse)},
                         {Py_tp_clear, slot(clear)},
                         {Py_tp_getattro, slot(getattro)},
                         {Py_tp_setattro, slot(setattro)},
                         {Py_tp_call, slot(module_call)},
                         {Py_tp_members, members},
                         {Py_tp_getset, getset},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  PyType_Spec spec = {"flambeau._C.ModuleBase", sizeof(ModuleObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return make_type(spec);
}

}  // namespace

bool is_module(PyObject* o) { return PyType_IsSubtype(Py_TYPE(o), base_type); }

void init_module_base(PyObject* module) {
  init_module_state();
  register_parameter = PyUnicode_InternFromString("register_parameter");
  register_buffer = PyUnicode_InternFromString("register_buffer");
  persistent_key = PyUnicode_InternFromString("persistent");
  is_buffer_key = PyUnicode_InternFromString("_is_buffer");
  training_key = PyUnicode_InternFromString("training");
  base_type = make_base_type();
  add(module, "ModuleBase", Py_NewRef(reinterpret_cast<PyObject*>(base_type)));
  static PyMethodDef fallback[] = {{"__getattr__", getattr_method, METH_O, nullptr}, {}};
  PyType_Slot slots[] = {{Py_tp_methods, fallback}, {0, nullptr}};
  PyType_Spec spec = {"flambeau._C.ModuleGetattr", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      slots};
  add(module, "ModuleGetattr", reinterpret_cast<PyObject*>(make_type(spec, base_type)));
  init_module_call(module);
  init_module_forward(module);
  init_module_saving(module);
  init_module_walk(module);
}

}  // namespace flambeau::python
