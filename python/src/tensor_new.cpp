// Tensor(...) as a class is called, subclasses, and nn.Parameter.
#include "flambeau/autograd/batch.h"
#include "flambeau/core/promote.h"
#include "flambeau/generated/ops.h"
#include "python/src/arguments.h"
#include "python/src/arrays.h"
#include "python/src/construct.h"
#include "python/src/dtypes.h"
#include "python/src/module.h"
#include "python/src/parse.h"
#include "python/src/size.h"
#include "python/src/storage.h"
#include "python/src/tensor_methods.h"
#include "python/src/tensor_object.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

// A view that keeps the tape, for objects of another class on the same memory.
Tensor view_of(const Tensor& t) { return tls.grad ? ops::view(t, t.sizes()) : detached(t); }

Tensor whole_storage(PyObject* storage, DType dtype) {
  Storage* s = storage_of(storage);
  int64_t count = int64_t(s->bytes) / itemsize(dtype);
  return from_storage(StoragePtr::borrow(s), {count}, {1}, 0, dtype);
}

// The sizes in Tensor(2, 3) or Tensor(Size); false where the arguments are data.
bool sizes_in(const char* op, PyObject* args, Ints& sizes) {
  Py_ssize_t count = PyTuple_Size(args);
  PyObject* list = args;
  int64_t v;
  if (count == 1 && Py_TYPE(PyTuple_GetItem(args, 0)) == size_type)
    list = PyTuple_GetItem(args, 0);
  else if (count == 0 || !as_int(PyTuple_GetItem(args, 0), v) ||
           is_tensor(PyTuple_GetItem(args, 0)))
    return false;
  for (Py_ssize_t i = 0, n = PyTuple_Size(list); i < n; i++) {
    FL_CHECK(as_int(PyTuple_GetItem(list, i), v), TypeError, "{}: size {} must be int, got {}", op,
             int64_t(i), type_name(PyTuple_GetItem(list, i)));
    sizes.push_back(v);
  }
  return true;
}

// Tensor(), Tensor(2, 3), Tensor([1, 2]), Tensor(tensor), Tensor(storage). `exact`: the typed
// constructors, which refuse tensors of another dtype.
Tensor legacy_new(const char* op, PyObject* args, std::optional<DType> exact, Device device) {
  DType dtype = exact.value_or(default_dtype());
  Ints sizes;
  if (PyTuple_Size(args) == 0) return new_tensor({0}, dtype, device);
  if (sizes_in(op, args, sizes)) return new_tensor(sizes, dtype, device);
  FL_CHECK(PyTuple_Size(args) == 1, TypeError, "{}: takes sizes or one sequence, got {} arguments",
           op, int64_t(PyTuple_Size(args)));
  PyObject* data = PyTuple_GetItem(args, 0);
  if (is_tensor(data)) {
    FL_CHECK(!exact || tensor_of(data).dtype() == dtype, TypeError,
             "{}: the tensor must be {}, got {}", op, dtype, tensor_of(data).dtype());
    return view_of(tensor_of(data));
  }
  if (is_storage(data)) return whole_storage(data, dtype);
  bool sequence = !PyUnicode_Check(data) && (PySequence_Check(data) || is_array_like(data));
  FL_CHECK(sequence, TypeError, "{}: data must be a sequence, got {}", op, type_name(data));
  return tensor_from_data(op, data, {.dtype = dtype, .device = device});
}

Device device_keyword(const char* op, PyObject* kwargs) {
  PyObject* o = kwargs ? PyDict_GetItemString(kwargs, "device") : nullptr;
  FL_CHECK(!kwargs || PyDict_Size(kwargs) == (o ? 1 : 0), TypeError,
           "{}: the only keyword argument is device", op);
  Device device = default_device();
  FL_CHECK(!given(o) || as_device(o, device), TypeError, "{}: device must be device, got {}", op,
           type_name(o));
  return device;
}

PyObject* wrapped(Tensor t, PyTypeObject* type) {
  if (type == tensor_type) return wrap(std::move(t));
  if (t->py) t = view_of(t);
  return wrap_as(std::move(t), type);
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    // A subclass may take keyword arguments of its own in __init__.
    bool plain = type == tensor_type;
    Device device = plain ? device_keyword("Tensor", kwargs) : default_device();
    return wrapped(legacy_new("Tensor", args, std::nullopt, device), type);
  });
}

// _legacy_new(dtype, args, kwargs): torch.FloatTensor(...) and x.new(...).
PyObject* typed_new(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *type, *values, *kwargs;
    if (!PyArg_ParseTuple(args, "OO!O!", &type, &PyTuple_Type, &values, &PyDict_Type, &kwargs))
      throw ErrorSet{};
    DType dtype;
    FL_CHECK(as_dtype(type, dtype), TypeError, "_legacy_new: needs a dtype");
    return wrap(legacy_new("Tensor", values, dtype, device_keyword("Tensor", kwargs)));
  });
}

PyTypeObject* subclass_of_tensor(const char* op, PyObject* cls) {
  FL_CHECK(PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type),
           TypeError, "{}: cls must be a subclass of Tensor, got {}", op, type_name(cls));
  return reinterpret_cast<PyTypeObject*>(cls);
}

// Tensor._make_subclass(cls, data, require_grad=False): no history.
PyObject* make_subclass(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [cls, data, grad] =
        parse_arguments("_make_subclass", {"cls", "data", "require_grad"}, args, nargs, kwnames);
    FL_CHECK(cls && data, TypeError, "_make_subclass: needs cls and data");
    PyTypeObject* type = subclass_of_tensor("_make_subclass", cls);
    Tensor t = detached(expect_tensor(data, "_make_subclass: data"));
    t->is_parameter = type == parameter_type;
    if (bool_argument("_make_subclass", "require_grad", grad, false)) t.set_requires_grad(true);
    return t->is_parameter ? wrap(std::move(t)) : wrapped(std::move(t), type);
  });
}

// A tuple of ints, or none of them.
Ints ints_in(const char* op, PyObject* sequence) {
  Ref tuple = own(PySequence_Tuple(sequence));
  Ints found;
  FL_CHECK(!PyTuple_Size(tuple.get()) || sizes_in(op, tuple.get(), found), TypeError,
           "{}: takes ints, got {}", op, repr_text(sequence));
  return found;
}

// Tensor._make_wrapper_subclass(cls, size, strides=None, storage_offset=0, dtype=None, layout=None,
// device=None, requires_grad=False): a tensor of these facts, whose class answers for all that is
// done with it.
PyObject* make_wrapper(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* op = "_make_wrapper_subclass";
    auto [cls, size, steps, offset, type, layout, place, grad] = parse_arguments(
        op,
        {"cls", "size", "strides", "storage_offset", "dtype", "layout", "device", "requires_grad"},
        args, nargs, kwnames);
    FL_CHECK(cls && size, TypeError, "{}: needs cls and size", op);
    FL_CHECK(PyObject_HasAttrString(cls, "__torch_dispatch__"), RuntimeError,
             "{}: {} has no __torch_dispatch__", op, repr_text(cls));
    DType dtype = default_dtype();
    Device device = default_device();
    Layout strided = Layout::Strided;
    FL_CHECK(!given(type) || as_dtype(type, dtype), TypeError, "{}: dtype must be dtype, got {}",
             op, type_name(type));
    FL_CHECK(!given(place) || as_device(place, device), TypeError,
             "{}: device must be device, got {}", op, type_name(place));
    FL_CHECK(!given(layout) || (as_layout(layout, strided) && strided == Layout::Strided),
             TypeError, "{}: layout must be strided, got {}", op, repr_text(layout));
    Geometry geometry{ints_in(op, size), {}, int_argument(op, "storage_offset", offset, 0)};
    geometry.strides = given(steps) ? ints_in(op, steps) : contiguous_strides(geometry.sizes);
    FL_CHECK(geometry.strides.size() == geometry.sizes.size(), RuntimeError,
             "{}: strides must be as many as sizes, got {} and {}", op, geometry.strides,
             geometry.sizes);
    int64_t room = geometry.offset + 1;
    for (size_t d = 0; d < geometry.sizes.size(); d++)
      room += std::max<int64_t>(geometry.sizes[d] - 1, 0) * geometry.strides[d];
    Tensor t = alias(new_tensor({room}, dtype, device), geometry);
    if (bool_argument(op, "requires_grad", grad, false)) t.set_requires_grad(true);
    return wrap_as(std::move(t), subclass_of_tensor(op, cls));
  });
}

// x.as_subclass(cls): the same memory and history in an object of another class.
PyObject* as_subclass(PyObject* self, PyObject* cls) {
  return guarded(
      [&] { return wrapped(view_of(tensor_of(self)), subclass_of_tensor("as_subclass", cls)); });
}

// Parameter(data=None, requires_grad=True)
PyObject* parameter_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"data", "requires_grad", nullptr};
    PyObject *data = nullptr, *grad = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:Parameter", const_cast<char**>(names),
                                     &data, &grad))
      throw ErrorSet{};
    if (given(data) && !is_tensor(data)) {  // torch asks the data for detach()
      PyErr_Format(PyExc_AttributeError, "Parameter: data must be Tensor, got %R", Py_TYPE(data));
      throw ErrorSet{};
    }
    Tensor t = given(data) ? detached(tensor_of(data))
                           : new_tensor({0}, default_dtype(), default_device());
    if (!grad || PyObject_IsTrue(grad)) t.set_requires_grad(true);
    t->is_parameter = type == parameter_type;
    return t->is_parameter ? wrap(std::move(t)) : wrap_as(std::move(t), type);
  });
}

PyMethodDef functions[] = {{"_legacy_new", typed_new, METH_VARARGS, nullptr}, {}};
const PyMethodDef kMethods[] = {
    {"_make_subclass", as_function(make_subclass), kFast | METH_STATIC, nullptr},
    {"_make_wrapper_subclass", as_function(make_wrapper), kFast | METH_STATIC, nullptr},
    {"as_subclass", as_subclass, METH_O, "The same tensor as an object of a subclass."},
    {"__torch_function__", tensor_torch_function, METH_VARARGS | METH_CLASS, nullptr}};

PyType_Slot parameter_slots[] = {
    {Py_tp_new, slot(parameter_new)},
    {Py_tp_dealloc, slot(tensor_dealloc)},
    {Py_tp_traverse, slot(tensor_traverse)},
    {Py_tp_clear, slot(tensor_clear)},
    {Py_tp_doc,
     const_cast<char*>(
         "Parameter(data=None, requires_grad=True)\n--\n\nA tensor that modules list among "
         "their parameters.")},
    {0, nullptr}};
PyType_Spec parameter_spec = {"flambeau.nn.parameter.Parameter", sizeof(PyTensor), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                              parameter_slots};

}  // namespace

void append_constructors(Methods& table, Slots& slots) {
  table.insert(table.end(), std::begin(kMethods), std::end(kMethods));
  slots.push_back({Py_tp_new, slot(tensor_new)});
}

void init_parameter(PyObject* module) {
  parameter_type = make_type(parameter_spec, tensor_type);
  auto* type = reinterpret_cast<PyObject*>(parameter_type);
  Ref disabled = own(PyObject_GetAttrString(module, "_disabled_torch_function_impl"));
  checked(PyObject_SetAttrString(type, "__torch_function__", disabled.get()));
  add(module, "Parameter", Py_NewRef(type));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
