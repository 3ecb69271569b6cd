// The context that a custom function's forward and backward share.
#include "python/src/autograd_function.h"

#include "flambeau/tape/view.h"
#include "python/src/module.h"
#include "python/src/wrap.h"

namespace flambeau::python {

PyTypeObject* function_type;

namespace {

PyObject** fields(FunctionObject* c) { return &c->to_save; }
constexpr int kFields = 5;

int traverse(PyObject* self, visitproc visit, void* arg) {
  Node* node = as_node(self)->node;
  if (node && !node->py_owned && node->refs.load() > 1) return node_traverse(self, visit, arg);
  for (int i = 0; i < kFields; i++) Py_VISIT(fields(as_context(self))[i]);
  return node_traverse(self, visit, arg);
}
int clear(PyObject* self) {
  for (int i = 0; i < kFields; i++) Py_CLEAR(fields(as_context(self))[i]);
  return node_clear(self);
}
void dealloc(PyObject* self) {
  // What lives on with the node is decided there; otherwise nobody needs the fields any more.
  Node* node = as_node(self)->node;
  if (!node || node->refs.load(std::memory_order_acquire) == 1) {
    PyObject_GC_UnTrack(self);
    for (int i = 0; i < kFields; i++) Py_CLEAR(fields(as_context(self))[i]);
  }
  node_dealloc(self);
}

template <PyObject* FunctionObject::*field>
PyObject* keep_tuple(PyObject* self, PyObject* args) {
  Ref old(std::exchange(as_context(self)->*field, Py_NewRef(args)));
  return Py_NewRef(Py_None);
}
template <PyObject* FunctionObject::*field>
PyObject* get_tuple(PyObject* self, void*) {
  PyObject* value = as_context(self)->*field;
  return Py_NewRef(value ? value : Py_None);
}
template <PyObject* FunctionObject::*field>
int set_tuple(PyObject* self, PyObject* value, void*) {
  Ref old(std::exchange(as_context(self)->*field, Py_XNewRef(value)));
  return 0;
}

PyObject* set_materialize(PyObject* self, PyObject* value) {
  int on = PyObject_IsTrue(value);
  if (on < 0) return nullptr;
  as_context(self)->materialize = on;
  return Py_NewRef(Py_None);
}
PyObject* get_materialize(PyObject* self, void*) { return to_bool(as_context(self)->materialize); }

// A saved output comes back with the history of this node, as torch gives it.
Tensor restored(FunctionNode* node, const SavedEntry& entry) {
  Tensor t = entry.value.get(node, "a tensor of save_for_backward");
  if (entry.output < 0 || !node->outputs[size_t(entry.output)].differentiable) return t;
  Tensor with_history = alias(t);
  give_history(with_history, node, uint16_t(entry.output));
  return with_history;
}

PyObject* saved_tensors(PyObject* self, void*) {
  return guarded([&] {
    auto* node = static_cast<FunctionNode*>(expect_node(self));
    FL_CHECK(!node->released, RuntimeError,
             "backward: the graph of {}{} was freed by an earlier backward{}; pass "
             "retain_graph=True there if both are meant",
             node->type->op, described(node->location), described(node->freed_by));
    Ref tuple = own(PyTuple_New(Py_ssize_t(node->saved.size())));
    for (size_t i = 0; i < node->saved.size(); i++) {
      const SavedEntry& entry = node->saved[i];
      PyTuple_SetItem(tuple.get(), Py_ssize_t(i),
                      entry.none ? Py_NewRef(Py_None) : wrap(restored(node, entry)));
    }
    return tuple.release();
  });
}

PyObject* requires_grad(PyObject* self, void*) {
  return guarded([&] {
    Node* node = expect_node(self);
    for (int i = 0; i < node->edge_count; i++)
      if (node->edges[i].wanted()) return to_bool(true);
    return to_bool(false);
  });
}

PyMethodDef methods[] = {
    {"save_for_backward", keep_tuple<&FunctionObject::to_save>, METH_VARARGS,
     "Keeps tensors for backward; they come back as ctx.saved_tensors."},
    {"save_for_forward", keep_tuple<&FunctionObject::forward_save>, METH_VARARGS, nullptr},
    {"mark_dirty", keep_tuple<&FunctionObject::dirty>, METH_VARARGS,
     "Names the inputs that forward changed in place; they must be returned."},
    {"mark_non_differentiable", keep_tuple<&FunctionObject::non_differentiable>, METH_VARARGS,
     "Names outputs that have no gradient."},
    {"set_materialize_grads", set_materialize, METH_O,
     "False: backward gets None, and not zeros, for an output that nobody used."},
    {}};
PyGetSetDef getset[] = {
    {"saved_tensors", saved_tensors, nullptr, "What save_for_backward kept.", nullptr},
    {"saved_variables", saved_tensors, nullptr, nullptr, nullptr},
    {"needs_input_grad", get_tuple<&FunctionObject::needs_input_grad>,
     set_tuple<&FunctionObject::needs_input_grad>,
     "Per argument of forward: does it want a gradient?", nullptr},
    {"to_save", get_tuple<&FunctionObject::to_save>, set_tuple<&FunctionObject::to_save>, nullptr,
     nullptr},
    {"saved_for_forward", get_tuple<&FunctionObject::forward_save>,
     set_tuple<&FunctionObject::forward_save>, nullptr, nullptr},
    {"dirty_tensors", get_tuple<&FunctionObject::dirty>, set_tuple<&FunctionObject::dirty>, nullptr,
     nullptr},
    {"non_differentiable", get_tuple<&FunctionObject::non_differentiable>,
     set_tuple<&FunctionObject::non_differentiable>, nullptr, nullptr},
    {"materialize_grads", get_materialize, nullptr, nullptr, nullptr},
    {"requires_grad", requires_grad, nullptr, nullptr, nullptr},
    {}};
PyType_Slot slots[] = {{Py_tp_dealloc, slot(dealloc)}, {Py_tp_traverse, slot(traverse)},
                       {Py_tp_clear, slot(clear)},     {Py_tp_methods, methods},
                       {Py_tp_getset, getset},         {0, nullptr}};
PyType_Spec spec = {"flambeau._C._FunctionBase", sizeof(FunctionObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

void init_function_type(PyObject* module) {
  function_type = make_type(spec, node_type);
  add(module, "_FunctionBase", Py_NewRef(reinterpret_cast<PyObject*>(function_type)));
}

}  // namespace flambeau::python
