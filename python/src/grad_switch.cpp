// no_grad, enable_grad, set_grad_enabled and inference_mode: entering and leaving at the speed of
// C. Their names and texts are Python (flambeau/autograd/grad_mode.py).
#include "flambeau/core/tls.h"
#include "python/src/module.h"

namespace flambeau::python {
namespace {

struct Switch {
  PyObject_HEAD bool grad, inference;  // what entering sets
  bool before, inference_before;       // what leaving restores
};
Switch* as_switch(PyObject* o) { return reinterpret_cast<Switch*>(o); }

void turn(Switch* s) {
  s->before = std::exchange(tls.grad, s->grad);
  s->inference_before = std::exchange(tls.inference, s->inference);
}
void turn_back(const Switch* s) {
  tls.grad = s->before;
  tls.inference = s->inference_before;
}

PyObject* allocate(PyTypeObject* type, bool grad, bool inference) {
  auto make = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* object = checked(make(type, 0));
  as_switch(object)->grad = grad;
  as_switch(object)->inference = inference;
  return object;
}

// @no_grad without parentheses: the only argument is a function, which comes back decorated.
PyObject* made(PyTypeObject* type, PyObject* function, bool grad, bool inference) {
  Ref object(allocate(type, grad, inference));
  if (!function || function == Py_None) return object.release();
  return PyObject_CallFunctionObjArgs(object.get(), function, nullptr);
}
PyObject* only_argument(const char* name, PyObject* args, PyObject* kwargs, const char* keyword) {
  Py_ssize_t count = PyTuple_Size(args), named = kwargs ? PyDict_Size(kwargs) : 0;
  FL_CHECK(count + named <= 1, TypeError, "{}: takes one argument, got {}", name,
           int64_t(count + named));
  if (count) return PyTuple_GetItem(args, 0);
  PyObject* value = named ? PyDict_GetItemString(kwargs, keyword) : nullptr;
  FL_CHECK(!named || value, TypeError, "{}: the only argument is {}", name, keyword);
  return value;
}

template <bool grad>
PyObject* new_plain(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    const char* name = grad ? "enable_grad" : "no_grad";
    return made(type, only_argument(name, args, kwargs, "orig_func"), grad, tls.inference);
  });
}

// set_grad_enabled(mode) acts at once, whether or not a with statement follows.
PyObject* new_setter(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    PyObject* mode = only_argument("set_grad_enabled", args, kwargs, "mode");
    FL_CHECK(mode && PyBool_Check(mode), TypeError, "set_grad_enabled: mode must be bool, got {}",
             mode ? type_name(mode) : "nothing");
    PyObject* object = allocate(type, mode == Py_True, tls.inference);
    turn(as_switch(object));
    return object;
  });
}

PyObject* new_inference(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    PyObject* mode = only_argument("inference_mode", args, kwargs, "mode");
    bool function = mode && !PyBool_Check(mode);
    bool on = !mode || function || mode == Py_True;
    return made(type, function ? mode : nullptr, !on, on);
  });
}

PyObject* enter(PyObject* self, PyObject*) {
  turn(as_switch(self));
  return Py_NewRef(Py_None);
}
PyObject* leave(PyObject* self, PyObject* const*, Py_ssize_t) {
  turn_back(as_switch(self));
  return Py_NewRef(Py_None);
}
PyObject* enter_setter(PyObject*, PyObject*) { return Py_NewRef(Py_None); }

// The same switch again, for a decorated function that may run in several threads at once.
template <newfunc make, bool mode>
PyObject* clone(PyObject* self, PyObject*) {
  Ref args(mode ? PyTuple_Pack(1, as_switch(self)->grad ? Py_True : Py_False) : PyTuple_New(0));
  return args ? make(Py_TYPE(self), args.get(), nullptr) : nullptr;
}
PyObject* clone_inference(PyObject* self, PyObject*) {
  Ref args(PyTuple_Pack(1, as_switch(self)->inference ? Py_True : Py_False));
  return args ? new_inference(Py_TYPE(self), args.get(), nullptr) : nullptr;
}

// As a decorator: the function runs under a clone of the switch.
PyObject* decorate(PyObject* self, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* function;
    if (!PyArg_ParseTuple(args, "O", &function)) throw ErrorSet{};
    Ref make = import_from("flambeau.utils._contextlib", "context_decorator");
    return checked(PyObject_CallFunctionObjArgs(make.get(), self, function, nullptr));
  });
}
// set_grad_enabled has acted already, which a decorator does not mean.
PyObject* decorate_later(PyObject* self, PyObject* args, PyObject* kwargs) {
  turn_back(as_switch(self));
  return decorate(self, args, kwargs);
}

PyObject* get_mode(PyObject* self, void*) {
  return to_bool(as_switch(self)->inference || as_switch(self)->grad);
}
PyObject* get_before(PyObject* self, void*) { return to_bool(as_switch(self)->before); }
PyGetSetDef getset[] = {{"mode", get_mode, nullptr, nullptr, nullptr},
                        {"prev", get_before, nullptr, nullptr, nullptr},
                        {}};

auto leave_function = reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(leave));

void make_switch(PyObject* module, const char* name, newfunc construct, PyCFunction on_enter,
                 PyCFunction copy) {
  auto* methods = new PyMethodDef[4]{{"__enter__", on_enter, METH_NOARGS, nullptr},
                                     {"__exit__", leave_function, METH_FASTCALL, nullptr},
                                     {"clone", copy, METH_NOARGS, nullptr},
                                     {}};
  auto call = construct == new_setter ? decorate_later : decorate;
  PyType_Slot slots[] = {{Py_tp_new, slot(construct)},
                         {Py_tp_call, slot(call)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, getset},
                         {0, nullptr}};
  auto* full = new std::string(std::string("flambeau._C.") + name);
  PyType_Spec spec = {full->c_str(), sizeof(Switch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      slots};
  add(module, name, reinterpret_cast<PyObject*>(make_type(spec)));
}

}  // namespace

void init_grad_switch(PyObject* module) {
  make_switch(module, "_NoGrad", new_plain<false>, enter, clone<new_plain<false>, false>);
  make_switch(module, "_EnableGrad", new_plain<true>, enter, clone<new_plain<true>, false>);
  make_switch(module, "_SetGrad", new_setter, enter_setter, clone<new_setter, true>);
  make_switch(module, "_InferenceMode", new_inference, enter, clone_inference);
}

}  // namespace flambeau::python
