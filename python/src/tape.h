// What the rest of the bindings needs of the tape's Python side.
#pragma once
#include "flambeau/tape/node.h"
#include "python/src/py.h"

namespace flambeau::python {

// The Python object of a node (a new reference), None for null.
PyObject* wrap_node(Node* node);

}  // namespace flambeau::python
