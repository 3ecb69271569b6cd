// Methods and attributes that ask modes and overriding classes before they run.
#include "python/src/overridable.h"

#include <array>
#include <memory>

#include "python/src/module.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

constexpr size_t kMost = 256;  // methods written by hand
PyMethodDef originals[kMost];
std::vector<std::unique_ptr<PyGetSetDef>> attributes;  // as they were; their copies point here
Methods* methods;
Getters* getters;
size_t written_count;
bool active;

bool asks(PyObject* self) { return FL_UNLIKELY(modes_active()) || !is_exact_tensor(self); }

Ref member(const char* name) {
  return own(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
}

Ref arguments_of(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  Ref tuple = own(PyTuple_New(count + 1));
  PyTuple_SetItem(tuple.get(), 0, Py_NewRef(self));
  for (Py_ssize_t i = 0; i < count; i++) PyTuple_SetItem(tuple.get(), i + 1, Py_NewRef(args[i]));
  return tuple;
}

// x.dim(), x.register_hook(f), x.size(0): one argument, which is null, an object or a tuple.
[[gnu::noinline]] PyObject* ask_short(const PyMethodDef& m, PyObject* self, PyObject* arg) {
  return guarded([&]() -> PyObject* {
    Ref args;
    if (m.ml_flags & METH_VARARGS) {
      Ref first = arguments_of(self, nullptr, 0);
      args = own(PySequence_Concat(first.get(), arg));
    } else {
      args = arguments_of(self, &arg, m.ml_flags & METH_O ? 1 : 0);
    }
    Ref none = own(PyDict_New());
    if (PyObject* answer = ask_about(member(m.ml_name).get(), args.get(), none.get()))
      return answer;
    return m.ml_meth(self, arg);
  });
}
template <size_t I>
PyObject* call_short(PyObject* self, PyObject* arg) {
  if (!asks(self)) return originals[I].ml_meth(self, arg);
  return ask_short(originals[I], self, arg);
}

FastCall fast(const PyMethodDef& m) {
  return reinterpret_cast<FastCall>(reinterpret_cast<void*>(m.ml_meth));
}
[[gnu::noinline]] PyObject* ask_fast(const PyMethodDef& m, PyObject* self, PyObject* const* args,
                                     Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    auto [positional, kwargs] = packed(self, args, nargs, kwnames);
    Ref function = member(m.ml_name);
    if (PyObject* answer = ask_about(function.get(), positional.get(), kwargs.get())) return answer;
    return fast(m)(self, args, nargs, kwnames);
  });
}
template <size_t I>
PyObject* call_fast(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (!asks(self)) return fast(originals[I])(self, args, nargs, kwnames);
  return ask_fast(originals[I], self, args, nargs, kwnames);
}

struct Asking {
  PyCFunction brief;
  FastCall fast;
};
template <size_t... I>
constexpr std::array<Asking, kMost> asking(std::index_sequence<I...>) {
  return {Asking{call_short<I>, call_fast<I>}...};
}
constexpr auto kAsking = asking(std::make_index_sequence<kMost>());

// Tensor.shape.__get__ and its like.
Ref accessor(const PyGetSetDef& g, const char* name) {
  Ref attribute = member(g.name);
  return own(PyObject_GetAttrString(attribute.get(), name));
}

PyObject* read(PyObject* self, void* original) {
  auto* g = static_cast<const PyGetSetDef*>(original);
  if (!asks(self)) return g->get(self, g->closure);
  return guarded([&]() -> PyObject* {
    Ref args = arguments_of(self, nullptr, 0), none = own(PyDict_New());
    Ref function = accessor(*g, "__get__");
    if (PyObject* answer = ask_about(function.get(), args.get(), none.get())) return answer;
    return g->get(self, g->closure);
  });
}
int write(PyObject* self, PyObject* value, void* original) {
  auto* g = static_cast<const PyGetSetDef*>(original);
  if (!asks(self)) return g->set(self, value, g->closure);
  return guarded_int([&]() -> int {
    Ref args = arguments_of(self, &value, value ? 1 : 0), none = own(PyDict_New());
    Ref function = accessor(*g, value ? "__set__" : "__delete__");
    Ref answer(ask_about(function.get(), args.get(), none.get()));
    return answer ? 0 : g->set(self, value, g->closure);
  });
}

// flambeau.tensor(...): modes see the calls of functions that are no ops.
std::vector<std::pair<PyMethodDef*, PyMethodDef>> module_functions;  // the entry, as it was

template <size_t I>
PyObject* call_function(PyObject* module, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  const PyMethodDef& m = module_functions[I].second;
  if (!modes_active()) return fast(m)(module, args, nargs, kwnames);
  return guarded([&]() -> PyObject* {
    auto [positional, kwargs] = packed(nullptr, args, nargs, kwnames);
    Ref function = import_from("flambeau", m.ml_name);
    return ask_about(function.get(), positional.get(), kwargs.get());
  });
}
constexpr size_t kMostFunctions = 8;
template <size_t... I>
constexpr std::array<FastCall, kMostFunctions> calls(std::index_sequence<I...>) {
  return {call_function<I>...};
}
constexpr auto kCalls = calls(std::make_index_sequence<kMostFunctions>());

bool may_be_overridden(std::string_view name) {
  return name != "as_subclass" && (name[0] != '_' || name == "__complex__" || name == "_version" ||
                                   name == "_base" || name == "_backward_hooks");
}

// _call_overridable(function, original, args, kwargs): a function written in Python.
PyObject* call_overridable(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&]() -> PyObject* {
    FL_ASSERT(nargs == 4);
    if (PyObject* answer = ask_about(args[0], args[2], args[3])) return answer;
    return PyObject_Call(args[1], args[2], args[3]);
  });
}

// _overridable_functions(): the names of those of modules.
PyObject* function_names(PyObject*, PyObject*) {
  return guarded([] {
    Ref list = own(PyList_New(0));
    for (auto& [entry, original] : module_functions) {
      Ref name(to_str(original.ml_name));
      checked(PyList_Append(list.get(), name.get()));
    }
    return list.release();
  });
}

PyObject* activate(PyObject*, PyObject*) {
  return guarded([] {
    activate_overrides();
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_overridable_functions", function_names, METH_NOARGS, nullptr},
    {"_activate_overrides", activate, METH_NOARGS, nullptr},
    {"_call_overridable", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_overridable)),
     METH_FASTCALL, nullptr},
    {}};

}  // namespace

void keep_tables(Methods& all, size_t written, Getters& attributes_of) {
  FL_ASSERT(written <= kMost);
  methods = &all;
  getters = &attributes_of;
  written_count = written;
}

void keep_functions(std::span<PyMethodDef> table, std::string_view names) {
  for (PyMethodDef& m : table)
    if (m.ml_name && (" " + std::string(names) + " ").find(" " + std::string(m.ml_name) + " ") !=
                         std::string::npos)
      module_functions.emplace_back(&m, m);
  FL_ASSERT(module_functions.size() <= kMostFunctions);
}

// The interpreter reads the function of a method or attribute from the table at every call.
void activate_overrides() {
  if (std::exchange(active, true)) return;
  for (size_t i = 0; i < written_count; i++) {
    PyMethodDef& m = (*methods)[i];
    originals[i] = m;
    if (m.ml_flags & (METH_STATIC | METH_CLASS) || !may_be_overridden(m.ml_name)) continue;
    if (m.ml_flags == kFast)
      m.ml_meth = as_function(kAsking[i].fast);
    else if (!(m.ml_flags & METH_KEYWORDS))
      m.ml_meth = kAsking[i].brief;
  }
  for (PyGetSetDef& g : *getters) {
    if (!g.name || !may_be_overridden(g.name)) continue;
    attributes.push_back(std::make_unique<PyGetSetDef>(g));
    g.get = read;
    if (g.set) g.set = write;
    g.closure = attributes.back().get();
  }
  for (size_t i = 0; i < module_functions.size(); i++)
    module_functions[i].first->ml_meth = as_function(kCalls[i]);
  Ref written_in_python = import_from("flambeau._overridable", "activate");
  own(PyObject_CallNoArgs(written_in_python.get()));
}

void init_overridable(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
