// Python objects of the tape's nodes, as the other autograd files see them.
#pragma once
#include <span>

#include "flambeau/tape/node.h"
#include "python/src/py.h"

namespace flambeau::python {

// The object holds one reference to its node. While only the node is left of the two and the object
// has something to lose (attributes, a custom function's context), the node owns the object
// instead: Node::py_owned.
struct PyNode {
  PyObject_HEAD PyObject* dict;
  PyObject* weak;
  Node* node;
  bool keeps;  // has fields beside the dict that must not be lost
};
extern PyTypeObject* node_type;

inline PyNode* as_node(PyObject* o) { return reinterpret_cast<PyNode*>(o); }
// The node of an object; RuntimeError where it is gone.
Node* expect_node(PyObject* o);

// Slots that node types with fields of their own call (autograd_function.cpp).
void node_dealloc(PyObject* self);
int node_traverse(PyObject* self, visitproc visit, void* arg);
int node_clear(PyObject* self);

// Gradients as a tuple, None where there is none.
PyObject* grads_tuple(std::span<const Tensor> grads);
// What a hook or a custom function gave for a gradient: a tensor, or None.
Tensor expect_grad(PyObject* o, const char* what);

// A dict of hooks, and the handle that removes the new one from it. `prepend` puts it first.
PyObject* add_to_hooks(PyObject* hooks, PyObject* hook);
PyObject* new_hooks_dict();
void drop_object(void* object);  // Py_DECREF under the GIL

}  // namespace flambeau::python
