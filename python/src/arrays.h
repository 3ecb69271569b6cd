// Memory shared with NumPy and other exporters of the buffer protocol.
#pragma once
#include "flambeau/core/tensor.h"
#include "python/src/py.h"

namespace flambeau::python {

bool is_ndarray(PyObject* o);
// A tensor on the memory of an object with the buffer protocol. Read-only memory is refused or
// warned of.
Tensor from_array(PyObject* array);
// An ndarray, or an object that NumPy can turn into one (__array__, __array_interface__).
bool is_array_like(PyObject* o);
Tensor from_array_like(PyObject* o);
// The dtype of a NumPy scalar; false if it is none.
bool numpy_scalar_dtype(PyObject* o, DType& dtype);

}  // namespace flambeau::python
