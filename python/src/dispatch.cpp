// TorchDispatchMode and classes with __torch_dispatch__: Python is asked where a kernel would
// compute (docs/design/008-modes.md).
#include "python/src/dispatch.h"

#include <memory>
#include <unordered_map>

#include "flambeau/autograd/below.h"
#include "python/src/boxes.h"
#include "python/src/dtypes.h"
#include "python/src/module.h"
#include "python/src/parse.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

constexpr const char* kAttribute = "__torch_dispatch__";

// torch.ops.aten.<name>.<overload> (flambeau/_ops.py), kept for ever.
PyObject* overload_of(const OpInfo& op, bool out) {
  static std::unordered_map<const OpInfo*, PyObject*> known[2];
  PyObject*& object = known[out][&op];
  if (!object) {
    Ref find = import_from("flambeau._ops", "shown_overload");
    object = checked(PyObject_CallFunction(find.get(), "ssi", op.name, op.overload, int(out)));
  }
  return object;
}

// What torch does instead of an op of ours that it has not as one, as a Python function; null for
// the others. Borrowed.
PyObject* parts_of(const OpInfo& op) {
  static PyObject* parts = import_from("flambeau._ops", "AS_TORCH").release();
  return PyDict_GetItemString(parts, op.name);
}

// What the op gives, from what Python gave.
void take_answer(PyObject* answer, PyObject* op, Returns& results) {
  auto tensor = [&](PyObject* o) {
    if (o == Py_None) return Tensor();
    FL_CHECK(is_tensor(o), TypeError, "{}: __torch_dispatch__ must return Tensor, got {}",
             repr_text(op), type_name(o));
    return tensor_of(o);
  };
  Scalar number;
  DType dtype;
  switch (results.kind) {
    case Returns::Nothing:
    case Returns::Written:
      return;
    case Returns::One:
      results.tensors[0] = tensor(answer);
      return;
    case Returns::Tuple:
    case Returns::List: {
      bool list = results.kind == Returns::List,
           fits = PyTuple_Check(answer) || PyList_Check(answer);
      Py_ssize_t size = fits ? PySequence_Size(answer) : 0;
      FL_CHECK(fits && (list || size == results.count), TypeError,
               "{}: __torch_dispatch__ must return a tuple of {}tensors, got {}", repr_text(op),
               list ? "" : std::to_string(results.count) + " ", repr_text(answer));
      for (Py_ssize_t i = 0; i < size; i++) {
        Ref item = own(PySequence_GetItem(answer, i));
        if (list)
          results.list.push_back(tensor(item.get()));
        else
          results.tensors[size_t(i)] = tensor(item.get());
      }
      return;
    }
    case Returns::Type:
      FL_CHECK(as_dtype(answer, dtype), TypeError, "{}: __torch_dispatch__ must return dtype",
               repr_text(op));
      results.integer = int(dtype);
      return;
    default:
      FL_CHECK(as_scalar(answer, number), TypeError,
               "{}: __torch_dispatch__ must return a number, got {}", repr_text(op),
               type_name(answer));
      if (results.kind == Returns::Double)
        results.real = number.to_double();
      else if (results.kind == Returns::Number)
        results.scalar = number;
      else
        results.integer = number.to_int();
  }
}

class DispatchLevel : public BelowLevel {
 public:
  void answer(const OpInfo& op, const Value* arguments, Returns& results) override {
    call(op, nullptr, arguments, results);
  }
  // `outs`: the tensors of out=, null for other forms.
  void call(const OpInfo& op, const Value* outs, const Value* arguments, Returns& results) {
    PyGILState_STATE gil = PyGILState_Ensure();
    try {
      with_python_errors([&] {
        auto [args, kwargs] = unboxed_call(op, arguments);
        if (outs) {
          Ref out = unboxed_outs(outs, op.out_count);
          checked(PyDict_SetItemString(kwargs.get(), "out", out.get()));
        }
        PyObject* function = overload_of(op, outs);
        Ref answer = Ref::borrow(Py_NotImplemented);
        if (PyObject* parts = parts_of(op)) {
          Restore<Level*> here(tls.levels, this);  // the ops in it are asked about
          answer = own(PyObject_Call(parts, args.get(), kwargs.get()));
        }
        if (answer.get() == Py_NotImplemented) answer = ask(function, args.get(), kwargs.get());
        take_answer(answer.get(), function, results);
      });
    } catch (...) {
      PyGILState_Release(gil);
      throw;
    }
    PyGILState_Release(gil);
  }

 protected:
  virtual Ref ask(PyObject* function, PyObject* args, PyObject* kwargs) = 0;
};

Ref ask_handler(PyObject* owner, PyObject* function, PyObject* types, PyObject* args,
                PyObject* kwargs) {
  Ref handler = own(PyObject_GetAttrString(owner, kAttribute));
  return own(PyObject_CallFunctionObjArgs(handler.get(), function, types, args, kwargs, nullptr));
}

class Mode : public DispatchLevel {
 public:
  explicit Mode(PyObject* mode) : mode_(Ref::borrow(mode)) {}
  PyObject* object() const { return mode_.get(); }

 protected:
  Ref ask(PyObject* function, PyObject* args, PyObject* kwargs) override {
    Ref types = own(PyTuple_New(0)), mode = mode_;
    Ref answer = ask_handler(mode.get(), function, types.get(), args, kwargs);
    FL_CHECK(answer.get() != Py_NotImplemented, TypeError, "{}: the mode {} does not implement it",
             repr_text(function), type_name(mode.get()));
    return answer;
  }

 private:
  Ref mode_;
};

void collect(PyObject* o, std::vector<PyObject*>& found) {
  if (PyList_Check(o) || PyTuple_Check(o)) {
    for (Py_ssize_t i = 0, n = PySequence_Size(o); i < n; i++)
      collect(PyList_Check(o) ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i), found);
  } else if (is_tensor(o) && is_foreign(tensor_of(o))) {
    found.push_back(reinterpret_cast<PyObject*>(Py_TYPE(o)));
  }
}

// The classes of a call's arguments, each once: those that derive from another come before it.
Ref classes_of(PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> found, ordered;
  collect(args, found);
  Ref values = own(PyDict_Values(kwargs));
  collect(values.get(), found);
  for (PyObject* type : found) {
    auto at = ordered.begin();
    while (at != ordered.end() && *at != type && !PyObject_IsSubclass(type, *at)) ++at;
    if (at == ordered.end() || *at != type) ordered.insert(at, type);
  }
  Ref types = own(PyTuple_New(Py_ssize_t(ordered.size())));
  for (size_t i = 0; i < ordered.size(); i++)
    PyTuple_SetItem(types.get(), Py_ssize_t(i), Py_NewRef(ordered[i]));
  return types;
}

class Classes : public DispatchLevel {
 protected:
  Ref ask(PyObject* function, PyObject* args, PyObject* kwargs) override {
    Ref types = classes_of(args, kwargs);
    for (Py_ssize_t i = 0, n = PyTuple_Size(types.get()); i < n; i++) {
      Ref answer =
          ask_handler(PyTuple_GetItem(types.get(), i), function, types.get(), args, kwargs);
      if (answer.get() != Py_NotImplemented) return answer;
    }
    fail<TypeError>("{}: no __torch_dispatch__ for these types: {}", repr_text(function),
                    repr_text(types.get()));
  }
};

struct Active {
  explicit Active(PyObject* mode) : level(mode), scope(level) {}
  Mode level;
  BelowScope scope;
};
thread_local std::vector<std::unique_ptr<Active>> active;  // innermost last
thread_local std::vector<std::unique_ptr<Unseen>> unseen;

PyObject* push_mode(PyObject*, PyObject* mode) {
  return guarded([&] {
    active.push_back(std::make_unique<Active>(mode));
    return Py_NewRef(Py_None);
  });
}
PyObject* pop_mode(PyObject*, PyObject*) {
  return guarded([] {
    FL_CHECK(!active.empty(), RuntimeError, "TorchDispatchMode: no mode is active");
    FL_CHECK(tls.levels == &active.back()->level, RuntimeError,
             "TorchDispatchMode: a handler cannot leave the mode that it answers for");
    Ref mode = Ref::borrow(active.back()->level.object());
    active.pop_back();
    return mode.release();
  });
}

// _dispatch_modes(): those that would be asked now, the innermost last.
PyObject* dispatch_modes(PyObject*, PyObject*) {
  return guarded([] {
    Ref list = own(PyList_New(0));
    for (Level* level = innermost_below(); level; level = level->outer)
      if (auto* mode = dynamic_cast<Mode*>(level))
        checked(PyList_Append(list.get(), mode->object()));
    checked(PyList_Reverse(list.get()));
    return list.release();
  });
}

// _hide_from_dispatch(True) ... (False): ops in between reach no mode and no class.
PyObject* hide(PyObject*, PyObject* on) {
  return guarded([&] {
    if (on == Py_True)
      unseen.push_back(std::make_unique<Unseen>());
    else if (!unseen.empty())
      unseen.pop_back();
    return Py_NewRef(Py_None);
  });
}

PyObject* tape_outside(PyObject*, PyObject*) { return to_bool(recorded_outside()); }

// _call_overload(set, overload, *args, **kwargs)
PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    FL_CHECK(nargs >= 2, TypeError, "_call_overload: needs the place of an overload");
    return call_overload(PyLong_AsSize_t(args[0]), int(PyLong_AsLong(args[1])), args + 2, nargs - 2,
                         kwnames);
  });
}

PyMethodDef functions[] = {{"_push_dispatch_mode", push_mode, METH_O, nullptr},
                           {"_pop_dispatch_mode", pop_mode, METH_NOARGS, nullptr},
                           {"_dispatch_modes", dispatch_modes, METH_NOARGS, nullptr},
                           {"_hide_from_dispatch", hide, METH_O, nullptr},
                           {"_tape_outside", tape_outside, METH_NOARGS, nullptr},
                           {"_call_overload", as_function(call), kFast, nullptr},
                           {}};

}  // namespace

bool ask_dispatch_out(const OpInfo& op, const Value* outs, const Value* arguments,
                      Returns& results) {
  auto* level = dynamic_cast<DispatchLevel*>(innermost_below());
  auto recorded = [](const Tensor& t) { return tls.grad && t.requires_grad(); };
  if (!level || find_tensor(op, arguments, recorded)) return false;
  results.kind = Returns::Written;
  results.written = outs[0].tensor;
  Restore<Level*> outside(tls.levels, level->outer);
  level->call(op, outs, arguments, results);
  if (op.out_count == 1) return true;
  results.kind = Returns::Tuple;
  for (; results.count < op.out_count; results.count++)
    results.tensors[results.count] = *outs[results.count].tensor;
  return true;
}

bool ask_dispatch_item(const Tensor& t, Scalar& value) {
  static const Param self{"self", ArgKind::Tensor};
  static const OpInfo op{.name = "_local_scalar_dense",
                         .overload = "",
                         .schema = "_local_scalar_dense(Tensor self) -> Scalar",
                         .kind = OpKind::Other,
                         .params = &self,
                         .param_count = 1,
                         .positional = 1,
                         .result_names = "",
                         .function = nullptr,
                         .call = nullptr,
                         .out_function = nullptr,
                         .call_out = nullptr,
                         .out_count = 0,
                         .inplace = false};
  Value argument;
  Boxed<const Tensor&>::set(argument, t);
  Returns results;
  results.kind = Returns::Number;
  if (!ask_innermost_below(op, &argument, results)) return false;
  value = results.scalar;
  return true;
}

void note_class(PyObject* tensor) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
  if (!PyObject_HasAttrString(type, kAttribute)) return;
  static Classes classes;
  foreign_tensors = &classes;
  tensor_of(tensor)->flags |= kForeign;
}

void init_dispatch(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
