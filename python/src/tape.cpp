// Nodes of the tape as Python sees them: x.grad_fn. Each kind of node is a type of its own, so that
// type(x.grad_fn).__name__ says "MulBackward0".
#include "python/src/tape.h"

#include <unordered_map>

#include "python/src/arguments.h"
#include "python/src/module.h"
#include "python/src/tensor_methods.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

struct PyNode {
  PyObject_HEAD PyObject* dict;
  Node* node;  // one reference
};
PyTypeObject* node_type;

Node* node_of(PyObject* o) { return reinterpret_cast<PyNode*>(o)->node; }

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* object = reinterpret_cast<PyNode*>(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(object->dict);
  if (object->node) {
    object->node->py = nullptr;
    object->node->decref();
  }
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(self);
  Py_DECREF(type);
}
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyNode*>(self)->dict);
  return 0;
}
int clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<PyNode*>(self)->dict);
  return 0;
}

PyObject* name(PyObject* self, PyObject*) {
  return PyUnicode_FromString(node_of(self)->type->name);
}

// What stands for a leaf at the end of the graph: it has no node of its own on the tape.
struct PyAccumulator {
  PyObject_HEAD PyObject* variable;
};
PyTypeObject* accumulator_type;

PyObject* new_accumulator(TensorImpl* leaf) {
  auto* object = PyObject_New(PyAccumulator, accumulator_type);
  if (!object) throw ErrorSet{};
  object->variable = nullptr;
  Ref owned(reinterpret_cast<PyObject*>(object));
  object->variable = wrap(Tensor::borrow(leaf));
  return owned.release();
}
void dealloc_accumulator(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<PyAccumulator*>(self)->variable);
  PyObject_Free(self);
  Py_DECREF(type);
}
PyObject* accumulator_name(PyObject*, PyObject*) {
  return PyUnicode_FromString("torch::autograd::AccumulateGrad");
}
PyObject* no_functions(PyObject*, void*) { return PyTuple_New(0); }
PyObject* variable(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<PyAccumulator*>(self)->variable);
}
PyMethodDef accumulator_methods[] = {{"name", accumulator_name, METH_NOARGS, nullptr}, {}};
PyGetSetDef accumulator_getset[] = {{"variable", variable, nullptr, "The leaf.", nullptr},
                                    {"next_functions", no_functions, nullptr, nullptr, nullptr},
                                    {}};
PyType_Slot accumulator_slots[] = {{Py_tp_dealloc, slot(dealloc_accumulator)},
                                   {Py_tp_methods, accumulator_methods},
                                   {Py_tp_getset, accumulator_getset},
                                   {0, nullptr}};
PyType_Spec accumulator_spec = {"flambeau.autograd.graph.AccumulateGrad", sizeof(PyAccumulator), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                accumulator_slots};

// ((node, output number), ...): where the gradients go. A leaf is its accumulator.
PyObject* next_functions(PyObject* self, void*) {
  return guarded([&] {
    Node* node = node_of(self);
    Ref result = own(PyTuple_New(node->edge_count));
    for (int i = 0; i < node->edge_count; i++) {
      const Edge& e = node->edges[i];
      Ref object(e.leaf ? new_accumulator(e.leaf) : wrap_node(e.node));
      PyTuple_SetItem(result.get(), i,
                      checked(Py_BuildValue("OI", object.get(), e.leaf ? 0u : unsigned(e.nr))));
    }
    return result.release();
  });
}

PyObject* sequence_number(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(node_of(self)->sequence);
}
// The source line that made the node, "train.py:12 in forward".
PyObject* where(PyObject* self, void*) {
  return guarded([&] {
    const Location& at = node_of(self)->where;
    return at.code ? to_str(location_hooks.describe(at)) : Py_NewRef(Py_None);
  });
}
PyObject* metadata(PyObject* self, void*) { return PyObject_GenericGetDict(self, nullptr); }

PyMethodDef methods[] = {{"name", name, METH_NOARGS, "The kind of node."},
                         {"_sequence_nr", sequence_number, METH_NOARGS, nullptr},
                         {}};
PyGetSetDef getset[] = {
    {"next_functions", next_functions, nullptr, "The nodes that its gradients go to.", nullptr},
    {"where", where, nullptr, "The source line that made the node.", nullptr},
    {"metadata", metadata, nullptr, "A dict for users.", nullptr},
    {}};
PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(PyNode, dict), READONLY, nullptr},
                         {}};
PyType_Slot slots[] = {{Py_tp_dealloc, slot(dealloc)},
                       {Py_tp_traverse, slot(traverse)},
                       {Py_tp_clear, slot(clear)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getset},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec spec = {"flambeau.autograd.graph.Node", sizeof(PyNode), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                        Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

PyTypeObject* type_of(const NodeType& kind) {
  static std::unordered_map<const NodeType*, PyTypeObject*> types;
  PyTypeObject*& type = types[&kind];
  if (!type) {
    PyType_Slot none[] = {{0, nullptr}};
    auto* name =
        new std::string(std::string("flambeau.autograd.graph.") + kind.name);  // the type's
    PyType_Spec sub = {name->c_str(), sizeof(PyNode), 0,
                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, none};
    type = make_type(sub, node_type);
  }
  return type;
}

// x.backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)
PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [gradient, retain, create, inputs] = parse_arguments(
        "backward", {"gradient", "retain_graph", "create_graph", "inputs"}, args, nargs, kwnames);
    BackwardCall call;
    call.roots.push_back(tensor_of(self));
    call.grads.push_back(given(gradient) ? expect_tensor(gradient, "backward: gradient")
                                         : Tensor());
    call.create_graph = bool_argument("backward", "create_graph", create, false);
    call.keep_graph = given(retain) ? bool_argument("backward", "retain_graph", retain, false)
                                    : call.create_graph;
    if (given(inputs)) {
      Ref list = own(is_tensor(inputs) ? PyTuple_Pack(1, inputs) : PySequence_Tuple(inputs));
      for (Py_ssize_t i = 0, n = PyTuple_Size(list.get()); i < n; i++)
        call.inputs.push_back(expect_tensor(PyTuple_GetItem(list.get(), i), "backward: inputs"));
      FL_CHECK(!call.inputs.empty(), RuntimeError, "backward: inputs must not be empty");
      call.accumulate = true;
    }
    run_backward(call);
    return Py_NewRef(Py_None);
  });
}

}  // namespace

void append_tape_methods(Methods& table) {
  table.push_back({"backward", as_function(backward), kFast,
                   "Runs the tape from here and adds to the gradients of the leaves."});
}

PyObject* wrap_node(Node* node) {
  if (!node) return Py_NewRef(Py_None);
  if (node->py) return Py_NewRef(static_cast<PyObject*>(node->py));
  PyTypeObject* type = type_of(*node->type);
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* object = checked(allocate(type, 0));
  node->incref();
  reinterpret_cast<PyNode*>(object)->node = node;
  node->py = object;
  return object;
}

void init_tape(PyObject* module) {
  node_type = make_type(spec);
  accumulator_type = make_type(accumulator_spec);
  add(module, "_Node", Py_NewRef(reinterpret_cast<PyObject*>(node_type)));
}

}  // namespace flambeau::python
