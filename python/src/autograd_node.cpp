// Nodes of the tape as Python sees them: x.grad_fn. Each kind of node is a type of its own, so that
// type(x.grad_fn).__name__ says "MulBackward0".
#include "python/src/autograd_node.h"

#include <cstddef>
#include <unordered_map>

#include <structmember.h>

#include "flambeau/ops/shown.h"
#include "python/src/boxes.h"
#include "python/src/module.h"
#include "python/src/tape.h"
#include "python/src/wrap.h"

namespace flambeau::python {

PyTypeObject* node_type;

namespace {

bool has_identity(PyNode* o) { return o->dict || o->weak || o->keeps; }

// The node is about to go and owns its object.
void drop_node(Node* node) {
  auto* object = static_cast<PyNode*>(std::exchange(node->py, nullptr));
  node->py_owned = false;
  object->node = nullptr;
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(reinterpret_cast<PyObject*>(object));
  PyGILState_Release(gil);
}

}  // namespace

Node* expect_node(PyObject* o) {
  Node* node = as_node(o)->node;
  FL_CHECK(node, RuntimeError, "{}: the node does not exist any more", type_name(o));
  return node;
}

void node_dealloc(PyObject* self) {
  PyNode* object = as_node(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (Node* node = object->node) {
    if (node->refs.load(std::memory_order_acquire) > 1 && has_identity(object)) {
      Py_INCREF(self);  // the node keeps what the object holds
      node->py_owned = true;
      PyObject_GC_Track(self);
      node->decref();
      return;
    }
    node->py = nullptr;
    object->node = nullptr;
    node->decref();
  }
  if (object->weak) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->dict);
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(self);
  Py_DECREF(type);
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  PyNode* object = as_node(self);
  Py_VISIT(Py_TYPE(self));
  // While the graph can still reach a node whose object is in Python's hands, what that holds is
  // live. An object that its node owns is counted by whoever owns the node (tensor_traverse).
  if (object->node && !object->node->py_owned && object->node->refs.load() > 1) return 0;
  Py_VISIT(object->dict);
  return 0;
}

int node_clear(PyObject* self) {
  Py_CLEAR(as_node(self)->dict);
  return 0;
}

PyObject* grads_tuple(std::span<const Tensor> grads) {
  Ref tuple = own(PyTuple_New(Py_ssize_t(grads.size())));
  for (size_t i = 0; i < grads.size(); i++)
    PyTuple_SetItem(tuple.get(), Py_ssize_t(i), wrap(grads[i]));
  return tuple.release();
}

Tensor expect_grad(PyObject* o, const char* what) {
  if (o == Py_None) return Tensor();
  FL_CHECK(is_tensor(o), TypeError, "{}: a gradient must be a Tensor or None, got {}", what,
           type_name(o));
  return tensor_of(o);
}

PyObject* new_hooks_dict() {
  static PyObject* type = import_from("collections", "OrderedDict").release();
  return checked(PyObject_CallNoArgs(type));
}

PyObject* add_to_hooks(PyObject* hooks, PyObject* hook) {
  static PyObject* handle_type = import_from("flambeau.utils.hooks", "RemovableHandle").release();
  FL_CHECK(PyCallable_Check(hook), TypeError, "register_hook: a hook must be callable, got {}",
           type_name(hook));
  Ref handle = own(PyObject_CallFunctionObjArgs(handle_type, hooks, nullptr));
  Ref id = own(PyObject_GetAttrString(handle.get(), "id"));
  checked(PyObject_SetItem(hooks, id.get(), hook));
  return handle.release();
}

void drop_object(void* object) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(static_cast<PyObject*>(object));
  PyGILState_Release(gil);
}

namespace {

Ref hooks_of(void* dict) { return own(PyMapping_Values(static_cast<PyObject*>(dict))); }

// A hook's answer in place of `grads`; fewer or more of them is an error.
void replace(PyObject* answer, std::span<Tensor> grads, const char* what) {
  Ref tuple = own(PyTuple_Check(answer) ? Py_NewRef(answer) : PyTuple_Pack(1, answer));
  Py_ssize_t n = PyTuple_Size(tuple.get());
  FL_CHECK(size_t(n) == grads.size(), RuntimeError, "{}: must return {} gradients, got {}", what,
           grads.size(), int64_t(n));
  for (Py_ssize_t i = 0; i < n; i++)
    grads[size_t(i)] = expect_grad(PyTuple_GetItem(tuple.get(), i), what);
}

void run_before(void* context, std::span<Tensor> grads) {
  with_python_errors([&] {
    Ref list = hooks_of(context);
    for (Py_ssize_t i = 0, n = PyList_Size(list.get()); i < n; i++) {
      Ref given(grads_tuple(grads));
      Ref answer =
          own(PyObject_CallFunctionObjArgs(PyList_GetItem(list.get(), i), given.get(), nullptr));
      if (answer.get() != Py_None) replace(answer.get(), grads, "node pre-hook");
    }
  });
}

void run_after(void* context, std::span<Tensor> sent, std::span<const Tensor> grads) {
  with_python_errors([&] {
    Ref list = hooks_of(context);
    Ref outputs(grads_tuple(grads));
    for (Py_ssize_t i = 0, n = PyList_Size(list.get()); i < n; i++) {
      Ref inputs(grads_tuple(sent));
      Ref answer = own(PyObject_CallFunctionObjArgs(PyList_GetItem(list.get(), i), inputs.get(),
                                                    outputs.get(), nullptr));
      if (answer.get() != Py_None) replace(answer.get(), sent, "node hook");
    }
  });
}

PyObject* add_node_hook(PyObject* self, PyObject* hook, bool before) {
  return guarded([&] {
    Node* node = expect_node(self);
    if (!node->hooks) node->hooks = new NodeHooks;
    std::vector<NodeHook>& list = before ? node->hooks->before : node->hooks->after;
    for (const NodeHook& h : list) {
      if (h.before == run_before || h.after == run_after)
        return add_to_hooks(static_cast<PyObject*>(h.context), hook);
    }
    Ref dict(new_hooks_dict());
    Ref handle(add_to_hooks(dict.get(), hook));
    NodeHook h;
    if (before)
      h.before = run_before;
    else
      h.after = run_after;
    h.drop = drop_object;
    h.context = dict.release();
    list.push_back(h);
    return handle.release();
  });
}

PyObject* register_hook(PyObject* self, PyObject* hook) { return add_node_hook(self, hook, false); }
PyObject* register_prehook(PyObject* self, PyObject* hook) {
  return add_node_hook(self, hook, true);
}

PyObject* name(PyObject* self, PyObject*) {
  return guarded([&] {
    Node* node = expect_node(self);
    bool internal = node->type == &kAccumulateGrad || node->type->name == std::string("CopySlices");
    return to_str((internal ? "torch::autograd::" : "") + std::string(node->type->name));
  });
}

// The edges that torch would show: it makes tensors of the numbers that its arithmetic is given
// (x * 3), and those have an edge that leads nowhere.
int shown_edges(const Node* node) {
  std::string_view op = node->type->op;
  bool number = node->edge_count == 1 && (op == "add" || op == "sub" || op == "mul" || op == "div");
  return node->edge_count + int(number);
}

// ((node, output number), ...): where the gradients go. A leaf is its accumulator.
PyObject* next_functions(PyObject* self, void*) {
  return guarded([&] {
    Node* node = expect_node(self);
    Ref result = own(PyTuple_New(shown_edges(node)));
    for (int i = node->edge_count; i < shown_edges(node); i++)
      PyTuple_SetItem(result.get(), i, checked(Py_BuildValue("OI", Py_None, 0u)));
    for (int i = 0; i < node->edge_count; i++) {
      const Edge& e = node->edges[i];
      NodeGuard accumulator(e.leaf ? accumulator_of(Tensor::borrow(e.leaf)) : nullptr);
      Ref object(wrap_node(e.leaf ? e.leaf->meta->accumulator : e.node));
      PyTuple_SetItem(result.get(), i,
                      checked(Py_BuildValue("OI", object.get(), e.leaf ? 0u : unsigned(e.nr))));
    }
    return result.release();
  });
}

PyObject* sequence_number(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(expect_node(self)->sequence); });
}
// The source line that made the node, "train.py:12 in forward".
PyObject* where(PyObject* self, void*) {
  return guarded([&] {
    const Location& at = expect_node(self)->location;
    return at.code ? to_str(location_hooks.describe(at)) : Py_NewRef(Py_None);
  });
}
// A dict for users. `traceback_` says which line made the node.
PyObject* metadata(PyObject* self, void*) {
  return guarded([&] {
    Ref dict = own(PyObject_GenericGetDict(self, nullptr));
    Node* node = as_node(self)->node;
    if (node && node->location.code && !PyDict_GetItemString(dict.get(), "traceback_")) {
      Ref line(to_str(location_hooks.describe(node->location)));
      Ref list = own(PyList_New(1));
      PyList_SetItem(list.get(), 0, line.release());
      checked(PyDict_SetItemString(dict.get(), "traceback_", list.get()));
    }
    return dict.release();
  });
}
PyObject* variable(PyObject* self, void*) {
  return guarded([&] {
    Node* node = expect_node(self);
    if (node->type != &kAccumulateGrad) {
      PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'",
                   node->type->name);
      throw ErrorSet{};
    }
    return wrap(accumulated_leaf(node));
  });
}

// The saved value of one name, as a Python object.
struct SavedReader final : SavedVisitor {
  explicit SavedReader(std::string_view wanted) : name(wanted) {}
  bool wants(std::string_view saved) const override { return saved == name; }
  void take(const Value& value) const override {
    found = own(to_python(value, ArgKind::Tensor));
    if (PyList_Check(found.get())) found = own(PyList_AsTuple(found.get()));
  }
  std::string_view name;
  mutable Ref found;
};

// x.grad_fn._saved_self: what the node saved, under the names that the table's derivatives use.
PyObject* getattribute(PyObject* self, PyObject* name) {
  PyObject* plain = PyObject_GenericGetAttr(self, name);
  constexpr std::string_view prefix = "_saved_";
  if (plain || !PyErr_ExceptionMatches(PyExc_AttributeError)) return plain;
  return guarded([&]() -> PyObject* {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);  // the error of a name that is nothing here either
    Ref held_type(type), held_value(value), held_trace(trace);
    Node* node = as_node(self)->node;
    std::string_view text = text_of(name);
    if (node && node->type->show && text.starts_with(prefix)) {
      SavedReader reader(text.substr(prefix.size()));
      node->type->show(node, reader);
      if (reader.found) return reader.found.release();
    }
    PyErr_Restore(held_type.release(), held_value.release(), held_trace.release());
    throw ErrorSet{};
  });
}

// grad_fn(*grads): what the node sends for these gradients.
PyObject* call(PyObject* self, PyObject* args, PyObject*) {
  return guarded([&] {
    Node* node = expect_node(self);
    Py_ssize_t given = PyTuple_Size(args);
    FL_CHECK(given == node->output_count, TypeError, "{}: takes {} gradients, got {}",
             node->type->name, int64_t(node->output_count), int64_t(given));
    std::vector<Tensor> grads, sent(size_t(shown_edges(node)));
    for (Py_ssize_t i = 0; i < given; i++)
      grads.push_back(expect_grad(PyTuple_GetItem(args, i), node->type->name));
    node->type->backward(node, grads.data(), sent.data());
    if (sent.size() == 1) return wrap(sent[0]);
    return grads_tuple(sent);
  });
}

PyMethodDef methods[] = {
    {"name", name, METH_NOARGS, "The kind of node."},
    {"register_hook", register_hook, METH_O,
     "Calls hook(grad_inputs, grad_outputs) after the node ran; a result replaces grad_inputs."},
    {"register_prehook", register_prehook, METH_O,
     "Calls hook(grad_outputs) before the node runs; a result replaces them."},
    {"_sequence_nr", sequence_number, METH_NOARGS, nullptr},
    {}};
PyGetSetDef getset[] = {
    {"next_functions", next_functions, nullptr, "The nodes that its gradients go to.", nullptr},
    {"where", where, nullptr, "The source line that made the node.", nullptr},
    {"metadata", metadata, nullptr, "A dict for users.", nullptr},
    {"variable", variable, nullptr, "The leaf of an accumulator.", nullptr},
    {}};
PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(PyNode, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyNode, weak), READONLY, nullptr},
    {}};
PyType_Slot slots[] = {{Py_tp_dealloc, slot(node_dealloc)},
                       {Py_tp_traverse, slot(node_traverse)},
                       {Py_tp_clear, slot(node_clear)},
                       {Py_tp_call, slot(call)},
                       {Py_tp_getattro, slot(getattribute)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getset},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec spec = {"flambeau.autograd.graph.Node", sizeof(PyNode), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

PyTypeObject* type_of(const NodeType& kind) {
  static std::unordered_map<const NodeType*, PyTypeObject*> types;
  PyTypeObject*& type = types[&kind];
  if (!type) {
    // Made like a class statement would, with the module `builtins`: its text is then
    // <MulBackward0 object at ...>.
    Ref made =
        own(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(O){sss()}",
                                  kind.name, node_type, "__module__", "builtins", "__slots__"));
    type = reinterpret_cast<PyTypeObject*>(made.release());
  }
  return type;
}

}  // namespace

PyObject* wrap_node(Node* node) {
  if (!node) return Py_NewRef(Py_None);
  if (auto* object = static_cast<PyObject*>(node->py)) {
    if (!node->py_owned) return Py_NewRef(object);
    node->py_owned = false;  // the two references change hands
    node->incref();
    return object;
  }
  PyTypeObject* type = type_of(*node->type);
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* object = checked(allocate(type, 0));
  node->incref();
  as_node(object)->node = node;
  node->py = object;
  return object;
}

void init_tape(PyObject* module) {
  node_type = make_type(spec);
  drop_node_object = drop_node;
  add(module, "_Node", Py_NewRef(reinterpret_cast<PyObject*>(node_type)));
}

}  // namespace flambeau::python
