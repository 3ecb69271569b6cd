// Slots of the Tensor type that concern the object's life (tensor_object.cpp).
#pragma once
#include "flambeau/core/tensor.h"
#include "python/src/py.h"

namespace flambeau::python {

void tensor_dealloc(PyObject* self);
int tensor_traverse(PyObject* self, visitproc visit, void* arg);
int tensor_clear(PyObject* self);
int tensor_setattro(PyObject* self, PyObject* name, PyObject* value);
PyObject* tensor_get_dict(PyObject* self, void*);
int tensor_set_dict(PyObject* self, PyObject* value, void*);
bool drop_python_object(TensorImpl* impl);

}  // namespace flambeau::python
