// The levels of func.vmap, and what its Python half asks of them.
#include <memory>

#include "flambeau/autograd/batch.h"
#include "flambeau/ops/operators.h"
#include "python/src/module.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

struct Active {
  Active(int64_t size, Randomness randomness) : level(size, randomness), scope(level) {}
  BatchLevel level;
  LevelScope scope;
};
// The maps that this thread is running, the innermost last.
thread_local std::vector<std::unique_ptr<Active>> active;

BatchLevel& innermost() {
  FL_CHECK(!active.empty(), RuntimeError, "vmap: no map is running");
  return active.back()->level;
}

// _vmap_enter(size, randomness)
PyObject* enter(PyObject*, PyObject* args) {
  return guarded([&] {
    long long size;
    const char* text;
    if (!PyArg_ParseTuple(args, "Ls", &size, &text)) throw ErrorSet{};
    std::string_view name(text);
    Randomness how = name == "error"  ? Randomness::Error
                     : name == "same" ? Randomness::Same
                                      : Randomness::Different;
    active.push_back(std::make_unique<Active>(size, how));
    return Py_NewRef(Py_None);
  });
}
PyObject* leave(PyObject*, PyObject*) {
  return guarded([] {
    innermost();
    active.pop_back();
    return Py_NewRef(Py_None);
  });
}

// Maps that are left for a while, to call something on all examples.
thread_local std::vector<std::pair<std::unique_ptr<Active>, Level*>> suspended;

// _vmap_suspend(): (number of the innermost map, its size, its randomness).
PyObject* suspend(PyObject*, PyObject*) {
  return guarded([] {
    BatchLevel& level = innermost();
    constexpr const char* kNames[] = {"error", "different", "same"};
    PyObject* facts =
        Py_BuildValue("(nLs)", Py_ssize_t(active.size()), static_cast<long long>(level.size()),
                      kNames[int(level.randomness())]);
    suspended.emplace_back(std::move(active.back()), tls.levels);
    active.pop_back();
    tls.levels = level.outside();
    return facts;
  });
}
PyObject* resume(PyObject*, PyObject*) {
  return guarded([] {
    FL_CHECK(!suspended.empty(), RuntimeError, "vmap: no map is suspended");
    tls.levels = suspended.back().second;
    tls.mode |= kModeLevels;
    active.push_back(std::move(suspended.back().first));
    suspended.pop_back();
    return Py_NewRef(Py_None);
  });
}

// _vmap_wrap(tensor, dim): one example of it, for the innermost map.
PyObject* wrap_batched(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* o;
    long long dim;
    if (!PyArg_ParseTuple(args, "OL", &o, &dim)) throw ErrorSet{};
    BatchLevel& level = innermost();
    Restore<Level*> outside(tls.levels, level.outside());
    const Tensor& t = expect_tensor(o, "vmap: an argument");
    return wrap(level.wrap(dim == 0 ? t : ops::movedim(t, dim, 0)));
  });
}

// _vmap_unwrap(tensor, dim): the values of all examples, with the batch at `dim`; None: it must not
// be batched.
PyObject* unwrap(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *o, *where;
    if (!PyArg_ParseTuple(args, "OO", &o, &where)) throw ErrorSet{};
    BatchLevel& level = innermost();
    Restore<Level*> outside(tls.levels, level.outside());
    const Tensor& t = expect_tensor(o, "vmap: a result");
    if (where == Py_None) {
      FL_CHECK(!level.owns(t), ValueError,
               "vmap: out_dim None was given for a result that differs by example, of shape {}",
               t.sizes());
      return Py_NewRef(o);
    }
    int64_t dim = wrap_dim("vmap: out_dims", PyLong_AsLongLong(where), t.ndim() + 1);
    Tensor values = level.values_of(t);
    return wrap(dim == 0 ? values : ops::movedim(values, 0, dim));
  });
}

// _vmap_everywhere(tensor): batched at every running map.
PyObject* everywhere(PyObject*, PyObject* o) {
  return guarded([&] {
    const Tensor& t = expect_tensor(o, "func: an argument");
    return active.empty() ? Py_NewRef(o) : wrap(batched_everywhere(t));
  });
}

// _vmap_values(tensor): (values of all examples, number of the map), or None.
PyObject* values(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = expect_tensor(o, "vmap: the argument");
    if (!is_batched(t)) return Py_NewRef(Py_None);
    int number = 0;
    for (size_t i = 0; i < active.size(); i++)
      if (active[i]->level.owns(t)) number = int(i) + 1;
    Ref inner(wrap(batch_values(t)));
    return Py_BuildValue("(Oi)", inner.get(), number);
  });
}

// _vmap_loops(): how often ops ran once per example since the last call, by name.
PyObject* loops(PyObject*, PyObject*) {
  return guarded([] {
    Ref dict = own(PyDict_New());
    for (const auto& [name, count] : batch_loops()) {
      Ref number = own(PyLong_FromLongLong(count));
      checked(PyDict_SetItemString(dict.get(), name.c_str(), number.get()));
    }
    clear_batch_loops();
    return dict.release();
  });
}

PyObject* has_rule(PyObject*, PyObject* name) {
  return guarded([&] { return to_bool(has_batch_rule(text_of(name))); });
}

PyMethodDef functions[] = {{"_vmap_enter", enter, METH_VARARGS, nullptr},
                           {"_vmap_exit", leave, METH_NOARGS, nullptr},
                           {"_vmap_suspend", suspend, METH_NOARGS, nullptr},
                           {"_vmap_resume", resume, METH_NOARGS, nullptr},
                           {"_vmap_wrap", wrap_batched, METH_VARARGS, nullptr},
                           {"_vmap_unwrap", unwrap, METH_VARARGS, nullptr},
                           {"_vmap_everywhere", everywhere, METH_O, nullptr},
                           {"_vmap_values", values, METH_O, nullptr},
                           {"_vmap_loops", loops, METH_NOARGS, nullptr},
                           {"_vmap_has_rule", has_rule, METH_O, nullptr},
                           {}};

}  // namespace

void init_vmap(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
