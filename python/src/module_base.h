// The C base of nn.Module: where its registered things live, and the rules of its attributes.
#pragma once
#include "python/src/py.h"

namespace flambeau::python {

// The entries of torch's `Module.__dict__`, in its order, `training` aside, which is an ordinary
// attribute. `_modules` comes last there, after the hooks.
enum ModuleSlot : uint8_t {
  kParameters,
  kBuffers,
  kNonPersistent,
  kBackwardPreHooks,
  kBackwardHooks,
  kIsFullBackwardHook,
  kForwardHooks,
  kForwardHooksWithKwargs,
  kForwardHooksAlwaysCalled,
  kForwardPreHooks,
  kForwardPreHooksWithKwargs,
  kStateDictHooks,
  kStateDictPreHooks,
  kLoadStateDictPreHooks,
  kLoadStateDictPostHooks,
  kModules,
  kModuleSlots
};

struct ModuleObject {
  PyObject_HEAD PyObject* dict;
  PyObject* weak;
  PyObject* slots[kModuleSlots];  // null until first asked for
  bool initialised;               // Module.__init__ ran
  bool hooked;                    // one of the four hook dicts that a call looks at was made
  bool shadowed;   // a registered name is also an attribute of the class, which then wins
  bool published;  // somebody has seen __dict__: it holds the slots too and decides
};

inline ModuleObject* as_module(PyObject* o) { return reinterpret_cast<ModuleObject*>(o); }

extern PyObject* module_keys[kModuleSlots];  // the names, interned

// ---- module_state.cpp ----
// The object of a slot, made if need be; borrowed. Throws where Module.__init__ has not run.
PyObject* module_slot(ModuleObject* m, int slot);
// A parameter, buffer or module was registered under `name`.
void note_registered(ModuleObject* m, PyObject* name);
// Takes over what was put into a published __dict__.
void refresh_slots(ModuleObject* m);
void clear_slots(ModuleObject* m);
PyObject* module_get_dict(PyObject* self, void*);
int module_set_dict(PyObject* self, PyObject* value, void*);
PyObject* module_get_slot(PyObject* self, void* slot);
int module_set_slot(PyObject* self, PyObject* value, void* slot);
PyObject* module_getstate(PyObject* self, PyObject*);
PyObject* module_setstate(PyObject* self, PyObject* state);
void init_module_state();

// ---- module_base.cpp ----
bool is_module(PyObject* o);

// ---- module_forward.cpp ----
// What `function`, the module's forward, gives for one argument, where it is known here how to do
// that without Python; null otherwise, and with an exception set after an error.
PyObject* run_native(PyObject* function, ModuleObject* m, PyObject* input);
void init_module_forward(PyObject* module);

// ---- module_saving.cpp ----
void init_module_saving(PyObject* module);

// ---- module_walk.cpp ----
void init_module_walk(PyObject* module);

// ---- module_call.cpp ----
PyObject* module_call(PyObject* self, PyObject* args, PyObject* kwargs);
// module(input), of anything callable.
PyObject* call_module(PyObject* module, PyObject* input);
void init_module_call(PyObject* module);

}  // namespace flambeau::python
