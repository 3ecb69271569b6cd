// torch.Size: a tuple subclass whose slices and sums are Sizes again.
#include "python/src/size.h"

#include "python/src/module.h"

namespace flambeau::python {

PyTypeObject* size_type;

namespace {

allocfunc allocate;
newfunc tuple_new;
binaryfunc tuple_subscript, tuple_concat;
ssizeargfunc tuple_repeat;

void fill(PyObject* tuple, IntList values) {
  for (size_t i = 0; i < values.size(); i++)
    PyTuple_SetItem(tuple, Py_ssize_t(i), checked(PyLong_FromLongLong(values[i])));
}

// A tuple as a Size; takes the reference.
PyObject* as_size(PyObject* tuple) {
  if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
  Ref source(tuple);
  Py_ssize_t size = PyTuple_Size(tuple);
  PyObject* result = allocate(size_type, size);
  if (!result) return nullptr;
  for (Py_ssize_t i = 0; i < size; i++)
    PyTuple_SetItem(result, i, Py_NewRef(PyTuple_GetItem(tuple, i)));
  return result;
}

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    Ref self = own(tuple_new(type, args, kwargs));
    for (Py_ssize_t i = 0, n = PyTuple_Size(self.get()); i < n; i++) {
      PyObject* item = PyTuple_GetItem(self.get(), i);
      if (PyLong_Check(item)) continue;
      PyObject* number = PyNumber_Index(item);
      if (!number) {
        PyErr_Clear();
        fail<TypeError>("Size: element {} must be int, got {}", i, type_name(item));
      }
      PyTuple_SetItem(self.get(), i, number);
    }
    return self.release();
  });
}

PyObject* repr(PyObject* self) {
  return guarded([&] {
    std::string text = "torch.Size([";
    for (Py_ssize_t i = 0, n = PyTuple_Size(self); i < n; i++) {
      Ref item = own(PyObject_Repr(PyTuple_GetItem(self, i)));
      if (i) text += ", ";
      text += text_of(item.get());
    }
    return to_str(text + "])");
  });
}

PyObject* subscript(PyObject* self, PyObject* key) { return as_size(tuple_subscript(self, key)); }
PyObject* repeat(PyObject* self, Py_ssize_t count) { return as_size(tuple_repeat(self, count)); }
PyObject* concat(PyObject* self, PyObject* other) {
  if (!PyTuple_Check(other)) {
    PyErr_Format(PyExc_TypeError, "Size: only a tuple can be added, got %R", Py_TYPE(other));
    return nullptr;
  }
  return as_size(tuple_concat(self, other));
}
// (2,) + Size: the tuple's own + would give a tuple.
PyObject* add_reflected(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) return Py_NewRef(Py_NotImplemented);
  return as_size(tuple_concat(a, b));
}

PyObject* numel(PyObject* self, PyObject*) {
  PyObject* product = PyLong_FromLong(1);
  for (Py_ssize_t i = 0, n = PyTuple_Size(self); product && i < n; i++) {
    Ref before(product);
    product = PyNumber_Multiply(product, PyTuple_GetItem(self, i));
  }
  return product;
}
PyObject* reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    Py_ssize_t size = PyTuple_Size(self);
    Ref plain = own(PyTuple_New(size));
    for (Py_ssize_t i = 0; i < size; i++)
      PyTuple_SetItem(plain.get(), i, Py_NewRef(PyTuple_GetItem(self, i)));
    return Py_BuildValue("O(O)", size_type, plain.get());
  });
}

PyMethodDef methods[] = {{"numel", numel, METH_NOARGS, "The product of the sizes."},
                         {"__reduce__", reduce, METH_NOARGS, nullptr},
                         {}};
PyType_Slot slots[] = {{Py_tp_new, slot(construct)},       {Py_tp_repr, slot(repr)},
                       {Py_mp_subscript, slot(subscript)}, {Py_sq_concat, slot(concat)},
                       {Py_sq_repeat, slot(repeat)},       {Py_nb_add, slot(add_reflected)},
                       {Py_tp_methods, methods},           {0, nullptr}};
PyType_Spec spec = {"flambeau.Size", 0, 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

PyObject* new_size(IntList sizes) {
  PyObject* result = checked(allocate(size_type, Py_ssize_t(sizes.size())));
  fill(result, sizes);
  return result;
}

PyObject* int_tuple(IntList values) {
  PyObject* result = checked(PyTuple_New(Py_ssize_t(values.size())));
  fill(result, values);
  return result;
}

void init_size(PyObject* module) {
  tuple_new = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
  tuple_subscript = reinterpret_cast<binaryfunc>(PyType_GetSlot(&PyTuple_Type, Py_mp_subscript));
  tuple_concat = reinterpret_cast<binaryfunc>(PyType_GetSlot(&PyTuple_Type, Py_sq_concat));
  tuple_repeat = reinterpret_cast<ssizeargfunc>(PyType_GetSlot(&PyTuple_Type, Py_sq_repeat));
  size_type = make_type(spec, &PyTuple_Type);
  allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(size_type, Py_tp_alloc));
  add(module, "Size", Py_NewRef(reinterpret_cast<PyObject*>(size_type)));
}

}  // namespace flambeau::python
