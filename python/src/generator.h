// torch.Generator.
#pragma once
#include "flambeau/ops/value.h"
#include "python/src/py.h"

namespace flambeau::python {

bool as_generator(PyObject* o, Generator*& out);

}  // namespace flambeau::python
