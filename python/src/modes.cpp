// Switches of the thread and of the process: gradients, default dtype and device, threads.
#include "flambeau/core/long_work.h"
#include "flambeau/core/promote.h"
#include "flambeau/core/threadpool.h"
#include "flambeau/core/tls.h"
#include "python/src/arguments.h"
#include "python/src/dtypes.h"
#include "python/src/module.h"
#include "python/src/overridable.h"
#include "python/src/parse.h"
#include "python/src/wrap.h"

extern "C" int PyGILState_Check(void) __attribute__((weak));

namespace flambeau::python {
namespace {

PyObject* is_grad_enabled(PyObject*, PyObject*) { return to_bool(tls.grad); }
PyObject* is_inference(PyObject*, PyObject*) { return to_bool(tls.inference); }

// Both return the state before, so that a context manager needs one call to enter.
PyObject* set_grad(PyObject*, PyObject* on) {
  return guarded([&] {
    FL_CHECK(PyBool_Check(on), TypeError, "set_grad_enabled: mode must be bool, got {}",
             type_name(on));
    return to_bool(std::exchange(tls.grad, on == Py_True));
  });
}
PyObject* set_inference(PyObject*, PyObject* on) {
  return guarded([&] {
    FL_CHECK(PyBool_Check(on), TypeError, "inference_mode: mode must be bool, got {}",
             type_name(on));
    return to_bool(std::exchange(tls.inference, on == Py_True));
  });
}
PyObject* set_anomaly(PyObject*, PyObject* on) {
  int value = PyObject_IsTrue(on);
  return value < 0 ? nullptr : to_bool(std::exchange(tls.anomaly, value != 0));
}
PyObject* is_anomaly(PyObject*, PyObject*) { return to_bool(tls.anomaly); }

PyObject* get_default_dtype(PyObject*, PyObject*) { return to_python(default_dtype()); }
PyObject* set_default_dtype_from(PyObject*, PyObject* o) {
  return guarded([&] {
    DType dtype;
    FL_CHECK(Py_TYPE(o) == dtype_type && as_dtype(o, dtype) && is_float(dtype), TypeError,
             "set_default_dtype: must be a floating dtype, got {}", repr_text(o));
    set_default_dtype(dtype);
    return Py_NewRef(Py_None);
  });
}
PyObject* get_default_device(PyObject*, PyObject*) {
  return guarded([] { return to_python(default_device()); });
}
PyObject* set_default_device_from(PyObject*, PyObject* o) {
  return guarded([&] {
    Device device;
    FL_CHECK(!given(o) || as_device(o, device), TypeError,
             "set_default_device: must be device, got {}", type_name(o));
    set_default_device(device);
    return Py_NewRef(Py_None);
  });
}

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(num_threads()); }
PyObject* set_threads(PyObject*, PyObject* o) {
  return guarded([&] {
    FL_CHECK(PyLong_Check(o) && !PyBool_Check(o), RuntimeError,
             "set_num_threads: must be int, got {}", type_name(o));
    long count = PyLong_AsLong(o);
    FL_CHECK(count > 0 && count < 1 << 16, RuntimeError,
             "set_num_threads: must be a positive number, got {}", count);
    set_num_threads(int(count));
    return Py_NewRef(Py_None);
  });
}

PyObject* promote(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [a, b] = parse_arguments("promote_types", {"type1", "type2"}, args, nargs, kwnames);
    DType first, second;
    FL_CHECK(a && b && as_dtype(a, first) && as_dtype(b, second), TypeError,
             "promote_types: takes two dtypes");
    return to_python(promote_types(first, second));
  });
}
PyObject* casts(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [a, b] = parse_arguments("can_cast", {"from_", "to"}, args, nargs, kwnames);
    DType from, to;
    FL_CHECK(a && b && as_dtype(a, from) && as_dtype(b, to), TypeError,
             "can_cast: takes two dtypes");
    return to_bool(can_cast(from, to));
  });
}

void add_operand(ResultType& type, PyObject* o) {
  Scalar number;
  if (is_tensor(o)) return type.add(tensor_of(o));
  FL_CHECK(as_scalar(o, number), TypeError, "result_type: takes tensors and numbers, got {}",
           type_name(o));
  type.add(number);
}
PyObject* result_type(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [a, b] = parse_arguments("result_type", {"tensor1", "tensor2"}, args, nargs, kwnames);
    FL_CHECK(a && b, TypeError, "result_type: takes two tensors or numbers");
    ResultType type;
    add_operand(type, a);
    add_operand(type, b);
    return to_python(type.get());
  });
}

// Long work gives up the GIL. Its test is exported by every CPython, though not part of the limited
// API.
void* give_up_gil() { return PyGILState_Check() ? PyEval_SaveThread() : nullptr; }
void take_gil(void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }

PyMethodDef functions[] = {
    {"result_type", as_function(result_type), kFast,
     "result_type(tensor1, tensor2)\n--\n\nThe dtype of arithmetic between the two."},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Is the tape on in this thread?"},
    {"is_inference_mode_enabled", is_inference, METH_NOARGS, nullptr},
    {"_set_grad_enabled", set_grad, METH_O, nullptr},
    {"_set_inference", set_inference, METH_O, nullptr},
    {"_set_anomaly", set_anomaly, METH_O, nullptr},
    {"is_anomaly_enabled", is_anomaly, METH_NOARGS, nullptr},
    {"get_default_dtype", get_default_dtype, METH_NOARGS, "The dtype of new floating tensors."},
    {"set_default_dtype", set_default_dtype_from, METH_O,
     "Sets the dtype of new floating tensors."},
    {"get_default_device", get_default_device, METH_NOARGS, "Where new tensors go."},
    {"set_default_device", set_default_device_from, METH_O, "Sets where new tensors go."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "Threads that work on one op."},
    {"set_num_threads", set_threads, METH_O, "Sets how many threads work on one op."},
    {"promote_types", as_function(promote), kFast, "The smallest dtype that both fit in."},
    {"can_cast", as_function(casts), kFast, "May an in-place op store the one in the other?"},
    {}};

}  // namespace

void init_modes(PyObject* module) {
  keep_functions(functions, "result_type promote_types can_cast");
  checked(PyModule_AddFunctions(module, functions));
  // Python code works on tensors under the GIL; other threads' counts stay atomic.
  tls.counts_alone = true;
  if (PyGILState_Check) long_work_hooks = {give_up_gil, take_gil};
}

}  // namespace flambeau::python
