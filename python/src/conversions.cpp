// From tensors to Python values: item, tolist, bool(x), int(x), len(x), iteration.
#include "python/src/elements.h"
#include "python/src/module.h"
#include "python/src/parse.h"
#include "python/src/recording.h"
#include "python/src/tensor_methods.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

// Elements on other devices are read through a copy on the host.
Ref on_host(PyObject* self) {
  Device device = tensor_of(self).device();
  FL_CHECK(!(tensor_of(self)->flags & kBatched), RuntimeError,
           "tensor: inside vmap one has no values to read, each example has its own");
  check_elements("tensor", tensor_of(self));
  if (device.type == DeviceType::CPU) return Ref::borrow(self);
  FL_CHECK(device.type != DeviceType::Meta, RuntimeError,
           "tensor: one on the meta device has no values to read");
  return own(PyObject_CallMethod(self, "to", "s", "cpu"));
}

PyObject* item(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return to_python(read_item(tensor_of(self))); });
}

// Of a dim longer than 2 * edge only both ends; all of it where edge is negative.
PyObject* nested(const char* data, const Tensor& t, int64_t dim, int64_t edge) {
  if (dim == t.ndim()) return to_python(load_element(data, t.dtype()));
  // The stride of a single element may be any number.
  int64_t size = t->sizes[dim], step = size > 1 ? t->strides[dim] * itemsize(t.dtype()) : 0;
  int64_t left_out = edge >= 0 && size > 2 * edge ? size - 2 * edge : 0;
  Ref list = own(PyList_New(size - left_out));
  for (int64_t i = 0; i < size - left_out; i++) {
    int64_t at = left_out && i >= edge ? i + left_out : i;
    PyList_SetItem(list.get(), i, nested(data + at * step, t, dim + 1, edge));
  }
  return list.release();
}
PyObject* tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    refuse_while_recording("tolist()");
    Ref host = on_host(self);
    const Tensor& t = tensor_of(host.get());
    return nested(t->data, t, 0, -1);
  });
}
// _edge_list(x, edge): what printing shows of a large tensor.
PyObject* edge_list(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* o;
    long edge;
    if (!PyArg_ParseTuple(args, "Ol", &o, &edge)) throw ErrorSet{};
    expect_tensor(o, "_edge_list: x");
    Ref host = on_host(o);
    const Tensor& t = tensor_of(host.get());
    return nested(t->data, t, 0, edge);
  });
}

// bool(x), len(x): what a mode or the object's class says; null: nobody does.
Ref answered(const char* method, std::initializer_list<PyObject*> operands) {
  if (modes_active()) return Ref(ask_modes(method, operands));
  PyObject* self = *operands.begin();
  return is_exact_tensor(self) ? Ref() : Ref(ask_operands(method, operands));
}

// One-element tensors stand for their value.
int truth(PyObject* self) {
  return guarded_int([&]() -> int {
    if (Ref answer = answered("__bool__", {self})) return PyObject_IsTrue(answer.get());
    const Tensor& t = tensor_of(self);
    FL_CHECK(t.numel() == 1, RuntimeError,
             "bool: a tensor has a truth value only if it has one element, got shape {}; use any() "
             "or all()",
             t.sizes());
    return read_item(t).to_bool();
  });
}
Scalar only_value(PyObject* self, const char* what) {
  const Tensor& t = tensor_of(self);
  FL_CHECK(t.numel() == 1, ValueError, "{}: the tensor must have one element, got shape {}", what,
           t.sizes());
  return read_item(t);
}
PyObject* convert(PyObject* self, const char* what, PyTypeObject* type) {
  return guarded([&]() -> PyObject* {
    std::string method = std::string("__") + what + "__";
    if (type != &PyComplex_Type)
      if (Ref answer = answered(method.c_str(), {self})) return answer.release();
    Ref value(to_python(only_value(self, what)));
    return PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(type), value.get(), nullptr);
  });
}
PyObject* as_float(PyObject* self) { return convert(self, "float", &PyFloat_Type); }
PyObject* as_integer(PyObject* self) { return convert(self, "int", &PyLong_Type); }
PyObject* as_complex(PyObject* self, PyObject*) {
  return convert(self, "complex", &PyComplex_Type);
}
PyObject* as_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    if (Ref answer = answered("__index__", {self})) return answer.release();
    const Tensor& t = tensor_of(self);
    FL_CHECK((is_integer(t.dtype()) || t.dtype() == DType::Bool) && t.numel() == 1, TypeError,
             "index: only an integer tensor of one element can be an index, got {} of shape {}",
             t.dtype(), t.sizes());
    return PyLong_FromLongLong(read_item(t).to_int());
  });
}

PyObject* is_nonzero(PyObject* self, PyObject*) {
  int value = truth(self);
  return value < 0 ? nullptr : to_bool(value);
}

Py_ssize_t length(PyObject* self) {
  Py_ssize_t found = 0;
  int status = guarded_int([&] {
    if (Ref answer = answered("__len__", {self})) {
      found = PyLong_AsSsize_t(answer.get());
      return found == -1 && PyErr_Occurred() ? -1 : 0;
    }
    const Tensor& t = tensor_of(self);
    FL_CHECK(t.ndim() > 0, TypeError, "len: a 0-d tensor has no length");
    found = Py_ssize_t(t->sizes[0]);
    return 0;
  });
  return status < 0 ? -1 : found;
}

PyObject* iterate(PyObject* self) {
  return guarded([&]() -> PyObject* {
    FL_CHECK(tensor_of(self).ndim() > 0, TypeError, "iter: a 0-d tensor cannot be iterated");
    Ref parts = own(PyObject_CallMethod(self, "unbind", "i", 0));
    return PyObject_GetIter(parts.get());
  });
}

PyObject* reversed(PyObject* self, PyObject*) {
  if (tensor_of(self).ndim() == 0) return Py_NewRef(self);
  return PyObject_CallMethod(self, "flip", "i", 0);
}

int contains(PyObject* self, PyObject* element) {
  return guarded_int([&]() -> int {
    if (Ref answer = answered("__contains__", {self, element}))
      return PyObject_IsTrue(answer.get());
    Scalar ignored;
    FL_CHECK(is_tensor(element) || as_scalar(element, ignored), RuntimeError,
             "in: only a Tensor or a number can be in a tensor, got {}", type_name(element));
    Ref equal = own(PyObject_RichCompare(self, element, Py_EQ));
    Ref any = own(PyObject_CallMethod(equal.get(), "any", nullptr));
    return PyObject_IsTrue(any.get());
  });
}

// Tensors compare element by element, so they hash by identity: hash(x) == id(x).
Py_hash_t hash(PyObject* self) { return reinterpret_cast<Py_hash_t>(self); }

// Without it bytes(x) would read the buffer instead of the values.
PyObject* as_bytes(PyObject* self, PyObject*) {
  Ref list(tolist(self, nullptr));
  return list ? PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyBytes_Type), list.get(),
                                             nullptr)
              : nullptr;
}

const PyMethodDef kTable[] = {
    {"item", item, METH_NOARGS, "The value of a tensor of one element, as a Python number."},
    {"tolist", tolist, METH_NOARGS, "The values as nested lists."},
    {"is_nonzero", is_nonzero, METH_NOARGS, nullptr},
    {"__bytes__", as_bytes, METH_NOARGS, nullptr},
    {"__complex__", as_complex, METH_NOARGS, nullptr},
    {"__reversed__", reversed, METH_NOARGS, nullptr}};

PyMethodDef functions[] = {{"_edge_list", edge_list, METH_VARARGS, nullptr}, {}};

}  // namespace

void init_conversions(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

void append_conversions(Methods& table, Slots& slots) {
  table.insert(table.end(), std::begin(kTable), std::end(kTable));
  slots.insert(slots.end(), {{Py_nb_bool, slot(truth)},
                             {Py_nb_float, slot(as_float)},
                             {Py_nb_int, slot(as_integer)},
                             {Py_nb_index, slot(as_index)},
                             {Py_mp_length, slot(length)},
                             {Py_tp_iter, slot(iterate)},
                             {Py_sq_contains, slot(contains)},
                             {Py_tp_hash, slot(hash)}});
}

}  // namespace flambeau::python
