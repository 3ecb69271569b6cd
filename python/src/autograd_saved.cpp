// Pack and unpack hooks of saved tensors (autograd.graph.saved_tensors_hooks).
#include "flambeau/tape/node.h"
#include "python/src/autograd_node.h"
#include "python/src/module.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

struct HookPair {
  PyObject *pack, *unpack;
};
// The innermost is asked; an entry without functions forbids hooks and says why.
struct HookStack {
  std::vector<HookPair> pairs;
  std::string forbidden;
};
thread_local HookStack stack;
std::atomic<int> active;  // over all threads

// What a pack hook made of a tensor, and where the tensor came from.
struct Packed {
  PyObject *unpack, *value;
  Edge history;
};

// The identity: ties an unpacked tensor to what produced the packed one.
struct UnpackNode : NodeOf<1> {};
void backward_unpack(Node*, const Tensor* grads, Tensor* out) { out[0] = grads[0]; }
const NodeType kUnpack = {"UnpackBackward",         "unpack",
                          backward_unpack,          [](Node*) {},
                          destroy_node<UnpackNode>, sizeof(UnpackNode)};

Edge history_of(const Tensor& t) {
  if (!t.requires_grad()) return {};
  if (t->grad_fn) {
    t->grad_fn->incref();
    return {t->grad_fn, nullptr, t->output_nr};
  }
  t->incref();
  return {nullptr, t.impl(), 0};
}

void* pack(const Tensor& t) {
  if (stack.pairs.empty()) return nullptr;
  HookPair hooks = stack.pairs.back();
  try {
    NoGradGuard no_grad;
    Restore<void*> running(tls.engine, nullptr);
    Tensor plain = alias(t);
    uint32_t version = plain->version();
    Ref object(wrap(plain));
    Ref value = own(PyObject_CallFunctionObjArgs(hooks.pack, object.get(), nullptr));
    FL_CHECK(plain->version() == version, RuntimeError,
             "saved_tensors_hooks: the pack hook changed its tensor of shape {} in place",
             plain.sizes());
    return new Packed{Py_NewRef(hooks.unpack), value.release(), history_of(t)};
  } catch (const ErrorSet&) {
    throw_python_error();
  }
}

Tensor unpack(void* packed) {
  auto* p = static_cast<Packed*>(packed);
  Tensor t;
  try {
    Restore<void*> running(tls.engine, nullptr);
    Ref value = own(PyObject_CallFunctionObjArgs(p->unpack, p->value, nullptr));
    FL_CHECK(is_tensor(value.get()), TypeError,
             "saved_tensors_hooks: the unpack hook must return a Tensor, got {}",
             type_name(value.get()));
    t = tensor_of(value.get());
  } catch (const ErrorSet&) {
    throw_python_error();
  }
  if (!tls.grad || !p->history.wanted()) return t;
  auto* node = new_node<UnpackNode>(kUnpack);
  node->slots[0] = p->history;
  if (p->history.leaf) p->history.leaf->incref();
  if (Node* from = p->history.node) {
    from->incref();
    node->sequence = from->sequence;
  }
  Tensor result = alias(t);
  attach(result, node);
  return result;
}

void drop(void* packed) {
  auto* p = static_cast<Packed*>(packed);
  drop_object(p->unpack);
  drop_object(p->value);
  if (p->history.node) p->history.node->decref();
  if (p->history.leaf) p->history.leaf->decref();
  delete p;
}

void count(int change) {
  saved_hooks.pack = active.fetch_add(change) + change > 0 ? pack : nullptr;
}

PyObject* push(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *pack_hook, *unpack_hook;
    if (!PyArg_ParseTuple(args, "OO", &pack_hook, &unpack_hook)) throw ErrorSet{};
    FL_CHECK(stack.forbidden.empty(), RuntimeError, "{}", stack.forbidden);
    stack.pairs.push_back({Py_NewRef(pack_hook), Py_NewRef(unpack_hook)});
    count(1);
    return Py_NewRef(Py_None);
  });
}

PyObject* pop(PyObject*, PyObject*) {
  if (stack.pairs.empty()) return Py_NewRef(Py_None);
  HookPair last = stack.pairs.back();
  stack.pairs.pop_back();
  count(-1);
  Py_DECREF(last.pack);
  Py_DECREF(last.unpack);
  return Py_NewRef(Py_None);
}

// _forbid_saved_hooks(text): hooks raise with this text; "" allows them. Returns the old text.
PyObject* forbid(PyObject*, PyObject* text) {
  return guarded([&] {
    std::string old = std::exchange(stack.forbidden, std::string(text_of(text)));
    return to_str(old);
  });
}

// _top_saved_hooks(): the pair in force, or None.
PyObject* top(PyObject*, PyObject*) {
  if (stack.pairs.empty()) return Py_NewRef(Py_None);
  return PyTuple_Pack(2, stack.pairs.back().pack, stack.pairs.back().unpack);
}

PyMethodDef functions[] = {{"_push_saved_hooks", push, METH_VARARGS, nullptr},
                           {"_pop_saved_hooks", pop, METH_NOARGS, nullptr},
                           {"_forbid_saved_hooks", forbid, METH_O, nullptr},
                           {"_top_saved_hooks", top, METH_NOARGS, nullptr},
                           {}};

}  // namespace

void init_saved_hooks(PyObject* module) {
  saved_hooks.unpack = unpack;
  saved_hooks.drop = drop;
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
