// Forward mode from Python: levels and dual tensors (autograd.forward_ad).
#include "flambeau/autograd/forward.h"

#include <memory>

#include "python/src/module.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

// One level at a time, as in torch.
struct Active {
  DualLevel level;
  LevelScope scope{level};
};
thread_local std::unique_ptr<Active> active;

PyObject* enter(PyObject*, PyObject*) {
  return guarded([] {
    FL_CHECK(!active, RuntimeError, "dual_level: nested levels are not supported");
    active = std::make_unique<Active>();
    return PyLong_FromLong(0);
  });
}
PyObject* leave(PyObject*, PyObject*) {
  return guarded([] {
    FL_CHECK(active, RuntimeError, "dual_level: there is no level to leave");
    active.reset();
    return Py_NewRef(Py_None);
  });
}
PyObject* is_active(PyObject*, PyObject*) { return to_bool(active != nullptr); }

PyObject* make(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *primal, *tangent;
    if (!PyArg_ParseTuple(args, "OO", &primal, &tangent)) throw ErrorSet{};
    FL_CHECK(active, RuntimeError,
             "make_dual: there is no dual level; enter one with forward_ad.dual_level()");
    return wrap(make_dual(expect_tensor(primal, "make_dual: tensor"),
                          expect_tensor(tangent, "make_dual: tangent")));
  });
}

// _unpack_dual(tensor): (primal, tangent or None).
PyObject* unpack(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = expect_tensor(o, "unpack_dual: tensor");
    if (!active || !is_dual(t)) return PyTuple_Pack(2, o, Py_None);
    Ref primal(wrap(primal_of(t))), tangent(wrap(tangent_of(t)));
    return PyTuple_Pack(2, primal.get(), tangent.get());
  });
}

PyMethodDef functions[] = {{"_enter_dual_level", enter, METH_NOARGS, nullptr},
                           {"_exit_dual_level", leave, METH_NOARGS, nullptr},
                           {"_in_dual_level", is_active, METH_NOARGS, nullptr},
                           {"_make_dual", make, METH_VARARGS, nullptr},
                           {"_unpack_dual", unpack, METH_O, nullptr},
                           {}};

}  // namespace

void init_forward(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
