// torch.Size: a tuple of integers.
#pragma once
#include "flambeau/core/ints.h"
#include "python/src/py.h"

namespace flambeau::python {

extern PyTypeObject* size_type;
PyObject* new_size(IntList sizes);
// A plain tuple of integers.
PyObject* int_tuple(IntList values);

}  // namespace flambeau::python
