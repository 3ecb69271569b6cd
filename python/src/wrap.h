// The Python side of a Tensor: one object per TensorImpl. The object holds one C++ reference; C++
// keeps the object alive while somebody could tell it from a fresh one (tensor_type.cpp).
#pragma once
#include <cstddef>

#include "flambeau/core/tensor.h"
#include "python/src/py.h"

namespace flambeau::python {

struct PyTensor {
  PyObject_HEAD PyObject* dict;
  PyObject* weak;
  Tensor tensor;  // raw memory of the object: set and cleared by hand, never constructed
  // The last shape that was asked for, and its sizes, so that `x.shape` need not build it again.
  PyObject* shape;
  static constexpr int kKeptSizes = 4;
  int64_t kept[kKeptSizes];
};

extern PyTypeObject* tensor_type;
extern PyTypeObject* parameter_type;

inline PyTensor* as_py(PyObject* o) { return reinterpret_cast<PyTensor*>(o); }
inline const Tensor& tensor_of(PyObject* o) { return as_py(o)->tensor; }
inline Tensor& mutable_tensor_of(PyObject* o) { return as_py(o)->tensor; }
inline bool is_exact_tensor(PyObject* o) {
  return FL_LIKELY(Py_TYPE(o) == tensor_type) || Py_TYPE(o) == parameter_type;
}
inline bool is_tensor(PyObject* o) {
  return is_exact_tensor(o) || PyType_IsSubtype(Py_TYPE(o), tensor_type);
}

// The object of a tensor (a new reference); None for an undefined one.
PyObject* wrap(Tensor t);
PyObject* wrap_as(Tensor t, PyTypeObject* type);  // in a fresh object of a subclass
// Takes the tensor out of an object that nobody else will use again.
Tensor take_tensor(PyObject* o);
PyObject* wrap_list(const std::vector<Tensor>& list, bool tuple);

// The tensor of an object that must be one.
inline const Tensor& expect_tensor(PyObject* o, const char* what) {
  FL_CHECK(is_tensor(o), TypeError, "{} must be Tensor, got {}", what, type_name(o));
  return tensor_of(o);
}

}  // namespace flambeau::python
