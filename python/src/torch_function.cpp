// __torch_function__: classes that override what torch's functions do with them.
#include "python/src/torch_function.h"

#include "python/src/overridable.h"
#include "python/src/parse.h"
#include "python/src/wrap.h"

namespace flambeau::python {

thread_local int overrides_off = 0;

std::pair<Ref, Ref> packed(PyObject* self, PyObject* const* given, Py_ssize_t nargs,
                           PyObject* kwnames) {
  Py_ssize_t extra = self ? 1 : 0;
  Ref args = own(PyTuple_New(nargs + extra));
  if (self) PyTuple_SetItem(args.get(), 0, Py_NewRef(self));
  for (Py_ssize_t i = 0; i < nargs; i++)
    PyTuple_SetItem(args.get(), i + extra, Py_NewRef(given[i]));
  Ref kwargs = own(PyDict_New());
  for (Py_ssize_t k = 0, n = kwnames ? PyTuple_Size(kwnames) : 0; k < n; k++)
    checked(PyDict_SetItem(kwargs.get(), PyTuple_GetItem(kwnames, k), given[nargs + k]));
  return {std::move(args), std::move(kwargs)};
}

namespace {

PyObject* attribute;      // "__torch_function__"
PyObject* disabled_impl;  // what a class sets to say that it overrides nothing

// The override of an object's class (a new reference), null where there is none.
Ref override_of(PyObject* o) {
  if (is_exact_tensor(o)) return Ref();
  PyTypeObject* type = Py_TYPE(o);
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyTuple_Type ||
      type == &PyList_Type || type == &PyUnicode_Type || type == &PyBool_Type || o == Py_None)
    return Ref();
  Ref found(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), attribute));
  if (!found) PyErr_Clear();
  if (found.get() == disabled_impl) return Ref();
  return found;
}

// Objects of distinct classes, subclasses before what they derive from, else in order.
void collect(PyObject* o, std::vector<PyObject*>& found) {
  if (!override_of(o)) return;
  auto at = found.end();
  for (auto i = found.begin(); i != found.end(); ++i) {
    if (Py_TYPE(*i) == Py_TYPE(o)) return;
    if (at == found.end() && PyType_IsSubtype(Py_TYPE(o), Py_TYPE(*i))) at = i;
  }
  found.insert(at, o);
}

void collect_deep(PyObject* o, std::vector<PyObject*>& found) {
  if (PyTuple_Check(o) || PyList_Check(o)) {
    for (Py_ssize_t i = 0, n = PySequence_Size(o); i < n; i++) {
      Ref item = own(PySequence_GetItem(o, i));
      collect(item.get(), found);
    }
  } else {
    collect(o, found);
  }
}

std::vector<PyObject*> overriding_call(const Call& call) {
  std::vector<PyObject*> found;
  if (call.self) collect(call.self, found);
  Py_ssize_t total = call.nargs + (call.kwnames ? PyTuple_Size(call.kwnames) : 0);
  for (Py_ssize_t i = 0; i < total; i++) collect_deep(call.args[i], found);
  return found;
}

// Is it Tensor's own classmethod, which only keeps the class of results?
bool is_default(PyObject* method) {
  return PyCFunction_Check(method) && PyCFunction_GetFunction(method) == tensor_torch_function;
}

// The public function that the call went through.
Ref public_function(const OpSet& op, const Call& call) {
  if (call.self)
    return own(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), op.name));
  std::string_view forms = op.forms;
  for (const char* room : {"nn", "linalg", "special", "fft", "sparse"})
    if (forms.find(room) != forms.npos)
      return import_from((std::string("flambeau._C._") + room).c_str(), op.name);
  return import_from("flambeau", op.name);
}

std::pair<Ref, Ref> packed(const Call& call) {
  return python::packed(call.self, call.args, call.nargs, call.kwnames);
}

Ref types_of(const std::vector<PyObject*>& objects) {
  Ref types = own(PyTuple_New(Py_ssize_t(objects.size())));
  for (size_t i = 0; i < objects.size(); i++)
    PyTuple_SetItem(types.get(), Py_ssize_t(i),
                    Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(objects[i]))));
  return types;
}

bool all_plain(const std::vector<PyObject*>& objects) {
  for (PyObject* o : objects)
    if (!is_default(override_of(o).get())) return false;
  return true;
}

PyObject* ask(const std::vector<PyObject*>& objects, PyObject* function, PyObject* args,
              PyObject* kwargs) {
  activate_overrides();
  Ref types = types_of(objects);
  for (PyObject* o : objects) {
    Ref method = override_of(o);
    PyObject* answer = checked(
        PyObject_CallFunctionObjArgs(method.get(), function, types.get(), args, kwargs, nullptr));
    if (answer != Py_NotImplemented) return answer;
    Py_DECREF(answer);
  }
  fail<TypeError>("{}: no implementation for these types: {}", repr_text(function),
                  repr_text(types.get()));
}

// A tensor in an object of the class `type`. A fresh result, which nobody else holds, changes its
// object; one that lives elsewhere stays what it is. `holders` references are our own.
Ref converted(PyObject* result, PyTypeObject* type, Py_ssize_t holders) {
  if (Py_TYPE(result) == tensor_type && Py_REFCNT(result) == holders && !as_py(result)->dict)
    return Ref(wrap_as(take_tensor(result), type));
  if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) {
    Py_ssize_t size = PySequence_Size(result);
    Ref list = own(PyList_New(size));
    for (Py_ssize_t i = 0; i < size; i++) {
      Ref item = own(PySequence_GetItem(result, i));
      PyList_SetItem(list.get(), i, converted(item.get(), type, 2).release());
    }
    return PyList_CheckExact(result) ? std::move(list) : own(PyList_AsTuple(list.get()));
  }
  return Ref::borrow(result);
}

}  // namespace

PyObject* ask_overrides(const OpSet& op, const Call& call) {
  if (overrides_off) return nullptr;
  std::vector<PyObject*> objects = overriding_call(call);
  if (objects.empty()) return nullptr;
  // Subclasses that override nothing need no detour through Python.
  if (all_plain(objects)) return nullptr;
  auto [args, kwargs] = packed(call);
  return ask(objects, public_function(op, call).get(), args.get(), kwargs.get());
}

PyObject* as_subclass_results(PyObject* result, const Call& call) {
  Ref owned(result);
  if (overrides_off) return owned.release();
  std::vector<PyObject*> objects = overriding_call(call);
  if (objects.empty()) return owned.release();
  // In-place results are the argument itself and keep its class.
  return converted(owned.get(), Py_TYPE(objects[0]), 1).release();
}

// ---- modes: contexts that see every call first ----

namespace {

thread_local std::vector<PyObject*> modes;  // innermost last; each holds a reference

void note_modes() {
  if (modes.empty())
    tls.mode &= uint8_t(~kModePython);
  else
    tls.mode |= kModePython;
}

// The innermost mode steps aside while it answers, so that what it calls goes to the one outside.
class StepAside {
 public:
  StepAside() : mode_(modes.back()) {
    modes.pop_back();
    note_modes();
  }
  ~StepAside() {
    modes.push_back(mode_);
    note_modes();
  }
  StepAside(const StepAside&) = delete;
  PyObject* mode() const { return mode_; }

 private:
  PyObject* mode_;
};

PyObject* ask_mode(PyObject* function, PyObject* args, PyObject* kwargs,
                   const std::vector<PyObject*>& objects) {
  Ref types = types_of(objects);
  StepAside aside;
  Ref method = own(PyObject_GetAttr(aside.mode(), attribute));
  Ref answer =
      own(PyObject_CallFunctionObjArgs(method.get(), function, types.get(), args, kwargs, nullptr));
  FL_CHECK(answer.get() != Py_NotImplemented, TypeError, "{}: the mode {} does not implement it",
           repr_text(function), type_name(aside.mode()));
  return answer.release();
}

}  // namespace

PyObject* ask_about(PyObject* function, PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> objects;
  for (Py_ssize_t i = 0, n = PyTuple_Size(args); i < n; i++)
    collect_deep(PyTuple_GetItem(args, i), objects);
  Ref values = own(PyDict_Values(kwargs));
  for (Py_ssize_t i = 0, n = PyList_Size(values.get()); i < n; i++)
    collect_deep(PyList_GetItem(values.get(), i), objects);
  if (modes_active()) return ask_mode(function, args, kwargs, objects);
  if (overrides_off || objects.empty() || all_plain(objects)) return nullptr;
  return ask(objects, function, args, kwargs);
}

void note_override(PyObject* tensor) {
  Ref method = override_of(tensor);
  if (method && !is_default(method.get())) activate_overrides();
}

PyObject* ask_modes(const OpSet& op, const Call& call) {
  auto [args, kwargs] = packed(call);
  return ask_mode(public_function(op, call).get(), args.get(), kwargs.get(), overriding_call(call));
}

PyObject* ask_modes(const char* method, std::initializer_list<PyObject*> operands) {
  std::vector<PyObject*> objects;
  for (PyObject* o : operands) collect(o, objects);
  Ref function = own(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), method));
  Ref args = own(PyTuple_New(Py_ssize_t(operands.size())));
  Py_ssize_t i = 0;
  for (PyObject* o : operands) PyTuple_SetItem(args.get(), i++, Py_NewRef(o));
  Ref kwargs = own(PyDict_New());
  return ask_mode(function.get(), args.get(), kwargs.get(), objects);
}

bool may_override(PyObject* o) { return !overrides_off && override_of(o); }

PyObject* ask_operands(const char* method, std::initializer_list<PyObject*> operands) {
  std::vector<PyObject*> objects;
  for (PyObject* o : operands) collect(o, objects);
  if (overrides_off || objects.empty() || all_plain(objects)) return nullptr;
  Ref function = own(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), method));
  Ref args = own(PyTuple_New(Py_ssize_t(operands.size())));
  Py_ssize_t i = 0;
  for (PyObject* o : operands) PyTuple_SetItem(args.get(), i++, Py_NewRef(o));
  Ref kwargs = own(PyDict_New());
  return ask(objects, function.get(), args.get(), kwargs.get());
}

PyObject* as_operands(PyObject* result, std::initializer_list<PyObject*> operands) {
  Ref owned(result);
  std::vector<PyObject*> objects;
  for (PyObject* o : operands) collect(o, objects);
  if (overrides_off || objects.empty()) return owned.release();
  return converted(owned.get(), Py_TYPE(objects[0]), 1).release();
}

namespace {

bool all_subclasses(PyObject* cls, PyObject* types) {
  for (Py_ssize_t i = 0, n = PyTuple_Size(types); i < n; i++) {
    int is = PyObject_IsSubclass(cls, PyTuple_GetItem(types, i));
    checked(is);
    if (!is) return false;
  }
  return true;
}

}  // namespace

PyObject* tensor_torch_function(PyObject* cls, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *function, *types, *positional = nullptr, *kwargs = nullptr;
    if (!PyArg_ParseTuple(args, "OO|OO", &function, &types, &positional, &kwargs)) throw ErrorSet{};
    Ref type_tuple = own(PySequence_Tuple(types));
    if (!all_subclasses(cls, type_tuple.get())) return Py_NewRef(Py_NotImplemented);
    Ref empty = own(PyTuple_New(0));
    Ref result;
    {
      Restore<int> off(overrides_off, overrides_off + 1);
      result = own(PyObject_Call(function, positional ? positional : empty.get(),
                                 kwargs && kwargs != Py_None ? kwargs : nullptr));
    }
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    return converted(result.get(), type, 1).release();
  });
}

namespace {

PyObject* disabled(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *function, *types, *positional = nullptr, *kwargs = nullptr;
    if (!PyArg_ParseTuple(args, "OO|OO", &function, &types, &positional, &kwargs)) throw ErrorSet{};
    Ref empty = own(PyTuple_New(0));
    Restore<int> off(overrides_off, overrides_off + 1);
    return checked(PyObject_Call(function, positional ? positional : empty.get(),
                                 kwargs && kwargs != Py_None ? kwargs : nullptr));
  });
}

// has_torch_function((a, b)): does any of them override?
PyObject* has_override(PyObject*, PyObject* relevant) {
  return guarded([&] {
    std::vector<PyObject*> found;
    if (!overrides_off && !modes_active()) collect_deep(relevant, found);
    return to_bool(!found.empty() || modes_active());
  });
}

// handle_torch_function(public_api, relevant_args, *args, **kwargs)
PyObject* handle(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    FL_CHECK(PyTuple_Size(args) >= 2, TypeError,
             "handle_torch_function: needs a function and its relevant arguments");
    std::vector<PyObject*> found;
    collect_deep(PyTuple_GetItem(args, 1), found);
    Ref rest = own(PyTuple_GetSlice(args, 2, PyTuple_Size(args)));
    Ref empty = own(PyDict_New());
    PyObject *function = PyTuple_GetItem(args, 0), *named = kwargs ? kwargs : empty.get();
    if (modes_active()) return ask_mode(function, rest.get(), named, found);
    FL_CHECK(!found.empty(), TypeError, "handle_torch_function: no argument overrides {}",
             repr_text(function));
    return ask(found, function, rest.get(), named);
  });
}

PyObject* set_overrides_off(PyObject*, PyObject* change) {
  long by = PyLong_AsLong(change);
  overrides_off += int(by);
  return Py_NewRef(Py_None);
}

PyObject* push_mode(PyObject*, PyObject* mode) {
  return guarded([&] {
    activate_overrides();
    modes.push_back(Py_NewRef(mode));
    note_modes();
    return Py_NewRef(Py_None);
  });
}
// _function_modes(): the active ones, the innermost last.
PyObject* function_modes(PyObject*, PyObject*) {
  return guarded([] {
    Ref list = own(PyList_New(0));
    for (PyObject* mode : modes) checked(PyList_Append(list.get(), mode));
    return list.release();
  });
}
PyObject* pop_mode(PyObject*, PyObject*) {
  return guarded([] {
    FL_CHECK(!modes.empty(), RuntimeError, "TorchFunctionMode: no mode is active");
    PyObject* mode = modes.back();
    modes.pop_back();
    note_modes();
    return mode;
  });
}

PyMethodDef functions[] = {
    {"_push_mode", push_mode, METH_O, nullptr},
    {"_function_modes", function_modes, METH_NOARGS, nullptr},
    {"_pop_mode", pop_mode, METH_NOARGS, nullptr},
    {"_disabled_torch_function_impl", disabled, METH_VARARGS, nullptr},
    {"_has_torch_function", has_override, METH_O, nullptr},
    {"_handle_torch_function", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(handle)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"_disable_overrides", set_overrides_off, METH_O, nullptr},
    {}};

}  // namespace

void init_torch_function(PyObject* module) {
  attribute = checked(PyUnicode_InternFromString("__torch_function__"));
  checked(PyModule_AddFunctions(module, functions));
  disabled_impl = checked(PyObject_GetAttrString(module, "_disabled_torch_function_impl"));
}

}  // namespace flambeau::python
