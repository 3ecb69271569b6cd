// torch.UntypedStorage.
#pragma once
#include "flambeau/core/storage.h"
#include "python/src/py.h"

namespace flambeau::python {

extern PyTypeObject* storage_type;
bool is_storage(PyObject* o);
Storage* storage_of(PyObject* o);
PyObject* wrap_storage_object(Storage* storage);  // one object per storage; a new reference

}  // namespace flambeau::python
