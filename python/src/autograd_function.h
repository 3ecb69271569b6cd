// Custom functions: the node of the tape whose backward is written in Python, and its context.
#pragma once
#include "python/src/autograd_node.h"

namespace flambeau::python {

struct SavedEntry {
  Saved value;
  bool none = false;
  int output = -1;  // the number of the output that was saved; -1: an input or something else
};

struct OutputInfo {
  bool is_tensor = false;
  bool differentiable = false;
  Ints sizes;
  DType dtype{};
  Device device;
};

struct InputInfo {
  int edge = -1;  // -1: the argument is no tensor
  Ints sizes;
  DType dtype{};
};

struct FunctionNode : Node {
  std::vector<InputInfo> inputs;
  std::vector<OutputInfo> outputs;
  std::vector<SavedEntry> saved;
};

// The context of one call, which is also its grad_fn.
struct FunctionObject {
  PyNode base;
  PyObject* to_save;  // tuples, null where not given
  PyObject* forward_save;
  PyObject* dirty;
  PyObject* non_differentiable;
  PyObject* needs_input_grad;
  bool materialize;
};

inline FunctionObject* as_context(PyObject* o) { return reinterpret_cast<FunctionObject*>(o); }

extern PyTypeObject* function_type;  // _C._FunctionBase
void backward_function(Node* node, const Tensor* grads, Tensor* out);

// ---- autograd_context.cpp ----
void init_function_type(PyObject* module);

}  // namespace flambeau::python
