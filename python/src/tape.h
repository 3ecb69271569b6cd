// What the rest of the bindings needs of the tape's Python side.
#pragma once
#include "flambeau/tape/node.h"
#include "python/src/py.h"

namespace flambeau::python {

// The Python object of a node (a new reference), None for null.
PyObject* wrap_node(Node* node);

// Shows the collector what a tensor that nobody else holds keeps alive through the tape: its hooks
// and, if it has its node for itself, the node's hooks and Python object.
int visit_tape(TensorImpl* impl, visitproc visit, void* arg);

}  // namespace flambeau::python
