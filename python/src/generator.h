// torch.Generator.
#pragma once
#include "flambeau/ops/value.h"
#include "python/src/py.h"

namespace flambeau::python {

bool as_generator(PyObject* o, Generator*& out);
// An object for a generator that lives elsewhere.
PyObject* to_python(Generator* generator);

}  // namespace flambeau::python
