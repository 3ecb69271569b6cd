// tensor, as_tensor, asarray, x.new_tensor: tensors from Python data.
#include "python/src/construct.h"

#include "flambeau/core/promote.h"
#include "flambeau/generated/ops.h"
#include "python/src/arguments.h"
#include "python/src/arrays.h"
#include "python/src/dtypes.h"
#include "python/src/elements.h"
#include "python/src/module.h"
#include "python/src/overridable.h"
#include "python/src/parse.h"
#include "python/src/sequences.h"
#include "python/src/storage.h"
#include "python/src/tensor_methods.h"
#include "python/src/wrap.h"

namespace flambeau::python {

Device device_or_default(const std::optional<Device>& device) {
  return device ? *device : default_device();
}

Tensor moved(const Tensor& t, DType dtype, Device device) {
  if (t.dtype() == dtype && t.device() == device) return t;
  return ops::to(t, device, dtype);
}

namespace {

Tensor from_sequence(const char* op, PyObject* data, const DataOptions& options) {
  DType dtype = options.dtype ? *options.dtype : nested_dtype(op, data);
  Tensor t = new_tensor(nested_sizes(op, data), dtype);
  fill_nested(op, data, t);
  return moved(t, dtype, device_or_default(options.device));
}

Tensor from_tensor(const Tensor& source, const DataOptions& options) {
  DType dtype = options.dtype.value_or(source.dtype());
  Device device = options.device.value_or(source.device());
  if (!options.copy) return moved(source, dtype, device);
  NoGradGuard no_grad;
  Tensor result = moved(source, dtype, device);
  return result.is(source) ? ops::clone(source) : result;
}

Tensor from_shared(PyObject* data, const DataOptions& options) {
  Tensor shared = from_array_like(data);
  DType dtype = options.dtype.value_or(shared.dtype());
  Tensor result = moved(shared, dtype, device_or_default(options.device));
  return options.copy && result.is(shared) ? ops::clone(result) : result;
}

}  // namespace

Tensor tensor_from_data(const char* op, PyObject* data, const DataOptions& options) {
  if (is_tensor(data)) return from_tensor(tensor_of(data), options);
  if (PyUnicode_Check(data)) fail<TypeError>("{}: data must be numbers, got str", op);
  if (is_array_like(data) && !PyFloat_Check(data)) {
    DType ignored;
    if (!numpy_scalar_dtype(data, ignored)) return from_shared(data, options);
  }
  return from_sequence(op, data, options);
}

namespace {

void read_dtype(const char* op, PyObject* o, std::optional<DType>& out) {
  if (!given(o)) return;
  DType dtype;
  FL_CHECK(as_dtype(o, dtype), TypeError, "{}: dtype must be dtype, got {}", op, type_name(o));
  out = dtype;
}
void read_device(const char* op, PyObject* o, std::optional<Device>& out) {
  if (!given(o)) return;
  Device device;
  FL_CHECK(as_device(o, device), TypeError, "{}: device must be device, got {}", op, type_name(o));
  out = device;
}

PyObject* finished(Tensor t, bool requires_grad) {
  if (requires_grad) t.set_requires_grad(true);
  return wrap(std::move(t));
}

void warn_copy() {
  checked(PyErr_WarnEx(PyExc_UserWarning,
                       "To copy construct from a tensor, it is recommended to use "
                       "x.detach().clone() or x.detach().clone().requires_grad_(True)",
                       1));
}

// torch.tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)
PyObject* tensor(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [data, dtype, device, grad, pin] =
        parse_arguments("tensor", {"data", "dtype", "device", "requires_grad", "pin_memory"}, args,
                        nargs, kwnames, 1);
    FL_CHECK(data, TypeError, "tensor: argument 'data' is missing");
    DataOptions options;
    read_dtype("tensor", dtype, options.dtype);
    read_device("tensor", device, options.device);
    bool requires_grad = bool_argument("tensor", "requires_grad", grad, false);
    (void)bool_argument("tensor", "pin_memory", pin, false);
    if (is_tensor(data)) warn_copy();
    return finished(tensor_from_data("tensor", data, options), requires_grad);
  });
}

// torch.as_tensor(data, dtype=None, device=None): shares memory where it can.
PyObject* as_tensor(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [data, dtype, device] =
        parse_arguments("as_tensor", {"data", "dtype", "device"}, args, nargs, kwnames);
    FL_CHECK(data, TypeError, "as_tensor: argument 'data' is missing");
    DataOptions options{.copy = false};
    read_dtype("as_tensor", dtype, options.dtype);
    read_device("as_tensor", device, options.device);
    return wrap(tensor_from_data("as_tensor", data, options));
  });
}

// Raw bytes as a 1-d tensor of the given (or the default) dtype.
Ref from_bytes(PyObject* data, const std::optional<DType>& dtype) {
  Ref function = import_from("flambeau._C", "frombuffer");
  Ref args = own(PyTuple_Pack(1, data));
  Ref type(to_python(dtype.value_or(default_dtype())));
  Ref kwargs = own(PyDict_New());
  checked(PyDict_SetItemString(kwargs.get(), "dtype", type.get()));
  return own(PyObject_Call(function.get(), args.get(), kwargs.get()));
}

// torch.asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)
PyObject* asarray(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [data, type, device, copy, grad] = parse_arguments(
        "asarray", {"obj", "dtype", "device", "copy", "requires_grad"}, args, nargs, kwnames, 1);
    FL_CHECK(data, TypeError, "asarray: argument 'obj' is missing");
    DataOptions options{.copy = copy == Py_True};
    read_dtype("asarray", type, options.dtype);
    read_device("asarray", device, options.device);
    bool shares = is_tensor(data) || is_ndarray(data);
    Tensor t;
    if (!shares && PyObject_CheckBuffer(data)) {
      Ref view = from_bytes(data, options.dtype);
      t = from_tensor(tensor_of(view.get()), options);
    } else {
      FL_CHECK(shares || copy != Py_False, ValueError,
               "asarray: {} has no memory to share, and copy=False forbids a copy",
               type_name(data));
      t = tensor_from_data("asarray", data, options);
    }
    if (is_tensor(data) && copy == Py_False)
      FL_CHECK(t->storage == tensor_of(data)->storage, ValueError,
               "asarray: another dtype or device needs a copy, and copy=False forbids it");
    bool requires_grad = given(grad) ? grad == Py_True : is_tensor(data) && t.requires_grad();
    if (!requires_grad && t.requires_grad()) t = ops::detach(t);
    if (requires_grad && !t.requires_grad()) t.set_requires_grad(true);
    return wrap(std::move(t));
  });
}

// x.new_tensor(data, *, dtype=None, device=None, requires_grad=False): in x's dtype, on its device.
PyObject* new_tensor_method(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                            PyObject* kwnames) {
  return guarded([&] {
    auto [data, dtype, device, grad, pin] =
        parse_arguments("new_tensor", {"data", "dtype", "device", "requires_grad", "pin_memory"},
                        args, nargs, kwnames, 1);
    FL_CHECK(data, TypeError, "new_tensor: argument 'data' is missing");
    (void)bool_argument("new_tensor", "pin_memory", pin, false);
    const Tensor& like = tensor_of(self);
    DataOptions options{.dtype = like.dtype(), .device = like.device()};
    read_dtype("new_tensor", dtype, options.dtype);
    read_device("new_tensor", device, options.device);
    if (is_tensor(data)) warn_copy();
    return finished(tensor_from_data("new_tensor", data, options),
                    bool_argument("new_tensor", "requires_grad", grad, false));
  });
}

PyMethodDef functions[] = {{"tensor", as_function(tensor), kFast,
                            "tensor(data, *, dtype=None, device=None, requires_grad=False, "
                            "pin_memory=False)\n--\n\nA tensor with a copy of the data."},
                           {"as_tensor", as_function(as_tensor), kFast,
                            "as_tensor(data, dtype=None, device=None)\n--\n\nA tensor that shares "
                            "the data's memory if it can."},
                           {"asarray", as_function(asarray), kFast,
                            "asarray(obj, *, dtype=None, device=None, copy=None, "
                            "requires_grad=False)\n--\n\nA tensor of anything that holds numbers."},
                           {}};

}  // namespace

void append_data_methods(Methods& table) {
  table.push_back({"new_tensor", as_function(new_tensor_method), kFast,
                   "new_tensor($self, data, *, dtype=None, device=None, requires_grad=False, "
                   "pin_memory=False)\n--\n\nA tensor with a copy of the data, in this one's "
                   "dtype, on its device."});
}

void init_construct(PyObject* module) {
  keep_functions(functions, "tensor as_tensor asarray");
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
