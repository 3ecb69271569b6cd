// Nested sequences of numbers: their sizes, their common dtype, their elements (sequences.cpp).
#pragma once
#include "flambeau/core/tensor.h"
#include "python/src/py.h"

namespace flambeau::python {

// Something to descend into: a list, tuple, range or array; not text, not a tensor.
bool is_nested(PyObject* o);
Ints nested_sizes(const char* op, PyObject* data);
DType nested_dtype(const char* op, PyObject* data);
// Writes the elements of `data`, `sizes` deep, to contiguous memory.
void fill_nested(const char* op, PyObject* data, const Tensor& to);

}  // namespace flambeau::python
