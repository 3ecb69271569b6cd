// x[...] and x[...] = v.
#pragma once
#include "python/src/py.h"

namespace flambeau::python {

PyObject* tensor_get_item(PyObject* self, PyObject* key);
int tensor_set_item(PyObject* self, PyObject* key, PyObject* value);  // null value: del x[...]

}  // namespace flambeau::python
