// __torch_function__: what the rest of the bindings needs of it (torch_function.cpp).
#pragma once
#include <initializer_list>

#include "flambeau/core/tls.h"
#include "python/src/py.h"

namespace flambeau::python {

// Above zero the classes of arguments are not asked (inside a handler).
extern thread_local int overrides_off;

bool may_override(PyObject* o);
// An operator with operands of classes that override: what they answer; null: nobody does. `method`
// is Tensor's, given the operands in this order.
PyObject* ask_operands(const char* method, std::initializer_list<PyObject*> operands);
// The result in the class of the operands where that is a plain subclass. Takes `result`.
PyObject* as_operands(PyObject* result, std::initializer_list<PyObject*> operands);

// A call as (args, kwargs); `self` of a method, or null.
std::pair<Ref, Ref> packed(PyObject* self, PyObject* const* given, Py_ssize_t nargs,
                           PyObject* kwnames);
// A call of any function: what a mode or the classes of its arguments answer; null: nobody does.
PyObject* ask_about(PyObject* function, PyObject* args, PyObject* kwargs);
// An object of a subclass was made: does its class override what functions do?
void note_override(PyObject* tensor);

// Is a TorchFunctionMode active in this thread? Then it answers the call.
inline bool modes_active() { return FL_UNLIKELY(tls.mode & kModePython); }
PyObject* ask_modes(const char* method, std::initializer_list<PyObject*> operands);

// Tensor.__torch_function__(func, types, args=(), kwargs=None): the classmethod of the base class.
PyObject* tensor_torch_function(PyObject* cls, PyObject* args);

}  // namespace flambeau::python
