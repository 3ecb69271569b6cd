// Function.apply and the backward of its node.
#include "python/src/autograd_function.h"

#include "flambeau/tape/view.h"

#include "flambeau/autograd/forward.h"
#include "flambeau/ops/runtime.h"
#include "python/src/module.h"
#include "python/src/tape.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

PyObject *backward_class_key, *forward_class_key, *node_type_key, *forward_key, *backward_key,
    *vjp_key, *setup_key;
PyObject* function_class;  // flambeau.autograd.Function

const char* kBase = "flambeau.autograd.function";

PyObject* base_function() {
  if (!function_class) function_class = import_from(kBase, "Function").release();
  return function_class;
}

// Does a subclass define this static method itself?
bool overrides(PyObject* cls, PyObject* name) {
  Ref ours = own(PyObject_GetAttr(base_function(), name));
  Ref theirs = own(PyObject_GetAttr(cls, name));
  return ours.get() != theirs.get();
}

void release_function(Node* node) { static_cast<FunctionNode*>(node)->saved.clear(); }
void release_saved(Node* node) {
  for (SavedEntry& e : static_cast<FunctionNode*>(node)->saved) e.value.clear();
  release_function(node);
}

// A kind of node per class of contexts. It lives as long as the process: a node may outlive its
// class.
const NodeType* node_type_of(PyObject* context_class) {
  Ref names = own(PyObject_GetAttrString(context_class, "__dict__"));
  Ref known(PyObject_GetItem(names.get(), node_type_key));
  if (known) return static_cast<const NodeType*>(PyCapsule_GetPointer(known.get(), nullptr));
  PyErr_Clear();
  Ref name = own(PyObject_GetAttrString(context_class, "__name__"));
  auto* text = new std::string(text_of(name.get()));
  auto* type = new NodeType{text->c_str(),
                            text->c_str(),
                            backward_function,
                            release_saved,
                            destroy_node<FunctionNode>,
                            uint16_t(sizeof(FunctionNode))};
  Ref capsule = own(PyCapsule_New(type, nullptr, nullptr));
  checked(PyObject_SetAttr(context_class, node_type_key, capsule.get()));
  return type;
}

// One call of apply.
class Application {
 public:
  Application(PyObject* cls, PyObject* arguments) : cls_(cls), arguments_(arguments) {}
  PyObject* run();

 private:
  void make_context();
  void read_inputs();
  Ref call_forward();
  PyObject* finish_outputs(PyObject* result);
  Ref finish_output(PyObject* o, int nr);
  void check_dirty(PyObject* outputs);
  void save(PyObject* outputs);

  bool is_input(const TensorImpl* t) const {
    for (PyObject* o : tensors_)
      if (tensor_of(o).impl() == t) return true;
    return false;
  }
  static bool contains(PyObject* tuple, const TensorImpl* t) {
    for (Py_ssize_t i = 0, n = tuple ? PyTuple_Size(tuple) : 0; i < n; i++) {
      PyObject* o = PyTuple_GetItem(tuple, i);
      if (is_tensor(o) && tensor_of(o).impl() == t) return true;
    }
    return false;
  }

  PyObject *cls_, *arguments_;
  Ref context_;
  FunctionNode* node_ = nullptr;
  std::vector<PyObject*> tensors_;  // among the arguments
  bool records_ = false;            // does any of them want a gradient?
};

void Application::make_context() {
  Ref type = own(PyObject_GetAttr(cls_, backward_class_key));
  const NodeType* kind = node_type_of(type.get());
  auto* context_type = reinterpret_cast<PyTypeObject*>(type.get());
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(context_type, Py_tp_alloc));
  context_ = own(allocate(context_type, 0));
  node_ = new_node<FunctionNode>(*kind);
  FunctionObject* c = as_context(context_.get());
  c->base.node = node_;
  c->base.keeps = true;
  c->materialize = true;
  node_->py = context_.get();
}

void Application::read_inputs() {
  Py_ssize_t n = PyTuple_Size(arguments_);
  Ref needs = own(PyTuple_New(n));
  node_->inputs.resize(size_t(n));
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PyTuple_GetItem(arguments_, i);
    bool wants = false;
    if (is_tensor(o)) {
      const Tensor& t = tensor_of(o);
      InputInfo& info = node_->inputs[size_t(i)];
      info.edge = int(tensors_.size());
      info.sizes = Ints(t.sizes());
      info.dtype = t.dtype();
      tensors_.push_back(o);
      wants = t.requires_grad();
      records_ = records_ || (tls.grad && wants);
    }
    PyTuple_SetItem(needs.get(), i, to_bool(wants));
  }
  as_context(context_.get())->needs_input_grad = needs.release();
  if (!records_) return;
  allocate_edges(node_, int(tensors_.size()));
  for (size_t i = 0; i < tensors_.size(); i++) connect(node_, int(i), tensor_of(tensors_[i]));
}

Ref Application::call_forward() {
  NoGradGuard no_grad;
  Ref forward = own(PyObject_GetAttr(cls_, forward_key));
  if (overrides(cls_, setup_key)) {
    Ref result = own(PyObject_Call(forward.get(), arguments_, nullptr));
    Ref setup = own(PyObject_GetAttr(cls_, setup_key));
    Ref done = own(PyObject_CallFunctionObjArgs(setup.get(), context_.get(), arguments_,
                                                result.get(), nullptr));
    return result;
  }
  Ref first = own(PyTuple_Pack(1, context_.get()));
  Ref all = own(PySequence_Concat(first.get(), arguments_));
  return own(PyObject_Call(forward.get(), all.get(), nullptr));
}

void Application::check_dirty(PyObject* outputs) {
  PyObject* dirty = as_context(context_.get())->dirty;
  for (Py_ssize_t i = 0, n = dirty ? PyTuple_Size(dirty) : 0; i < n; i++) {
    PyObject* o = PyTuple_GetItem(dirty, i);
    FL_CHECK(is_tensor(o), TypeError, "mark_dirty: argument {} must be a Tensor, got {}",
             int64_t(i), type_name(o));
    FL_CHECK(contains(outputs, tensor_of(o).impl()), RuntimeError,
             "{}: argument {} of mark_dirty must be among the results of forward",
             node_->type->name, int64_t(i));
  }
}

// Gives one result its place in the history.
Ref Application::finish_output(PyObject* o, int nr) {
  if (!is_tensor(o)) return Ref::borrow(o);
  FunctionObject* c = as_context(context_.get());
  Tensor t = tensor_of(o);
  OutputInfo& info = node_->outputs[size_t(nr)];
  info.is_tensor = true;
  info.sizes = Ints(t.sizes());
  info.dtype = t.dtype();
  info.device = t.device();
  bool dirty = contains(c->dirty, t.impl());
  bool passed_through = is_input(t.impl()) && !dirty;
  info.differentiable =
      records_ && is_inexact(t.dtype()) && !contains(c->non_differentiable, t.impl());
  // An argument that comes back unchanged is a view of it with a history of its own.
  if (passed_through) t = alias(t);
  if (info.differentiable) {
    if (dirty) check_inplace(node_->type->name, t);
    give_history(t, node_, uint16_t(nr));
    if (dirty && t->base && !(t->flags & kNoGradView)) rebase_view(t);
  } else if (!passed_through && !dirty && t->grad_fn) {
    leave_node(t.impl());
    t->flags = uint8_t(t->flags & ~kRequiresGrad);
  }
  if (!passed_through) {
    if (info.differentiable && !PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
    return Ref::borrow(o);
  }
  Ref object(wrap(std::move(t)));
  if (info.differentiable && !PyObject_GC_IsTracked(object.get())) PyObject_GC_Track(object.get());
  return object;
}

void Application::save(PyObject* outputs) {
  PyObject* wanted = as_context(context_.get())->to_save;
  if (!wanted || !records_) return;
  Py_ssize_t n = PyTuple_Size(wanted);
  node_->saved = std::vector<SavedEntry>(size_t(n));
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PyTuple_GetItem(wanted, i);
    SavedEntry& entry = node_->saved[size_t(i)];
    entry.none = o == Py_None;
    if (entry.none) continue;
    FL_CHECK(is_tensor(o), TypeError, "save_for_backward: argument {} must be a Tensor, got {}",
             int64_t(i), type_name(o));
    const Tensor& t = tensor_of(o);
    for (Py_ssize_t k = 0, m = PyTuple_Size(outputs); k < m && entry.output < 0; k++)
      if (PyTuple_GetItem(outputs, k) == o) entry.output = int(k);
    // A counted pointer to an output of this node would be a cycle.
    entry.value.set(entry.output >= 0 ? alias(t) : t);
  }
}

PyObject* Application::finish_outputs(PyObject* result) {
  bool single = !PyTuple_Check(result);
  Ref outputs = own(single ? PyTuple_Pack(1, result) : Py_NewRef(result));
  Py_ssize_t n = PyTuple_Size(outputs.get());
  check_dirty(outputs.get());
  node_->outputs.resize(size_t(n));
  node_->output_count = uint16_t(n);
  if (records_) number_node(node_);
  Ref finished = own(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; i++)
    PyTuple_SetItem(finished.get(), i,
                    finish_output(PyTuple_GetItem(outputs.get(), i), int(i)).release());
  save(finished.get());
  for (PyObject** field : {&as_context(context_.get())->to_save}) Py_CLEAR(*field);
  return single ? Py_NewRef(PyTuple_GetItem(finished.get(), 0)) : finished.release();
}

PyObject* Application::run() {
  make_context();
  read_inputs();
  Ref result = call_forward();
  return finish_outputs(result.get());
}

// Function.apply(*args): defaults and keywords are for classes with setup_context, whose forward
// has the signature that the caller sees.
PyObject* apply(PyObject* cls, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    bool keywords = kwargs && PyDict_Size(kwargs);
    Ref arguments = Ref::borrow(args);
    if (keywords || overrides(cls, setup_key)) {
      Ref helper = import_from(kBase, "_bound_arguments");
      Ref none(kwargs ? Py_NewRef(kwargs) : PyDict_New());
      arguments = own(PyObject_CallFunctionObjArgs(helper.get(), cls, args, none.get(), nullptr));
    }
    for (Py_ssize_t i = 0, n = PyTuple_Size(arguments.get()); i < n; i++) {
      PyObject* o = PyTuple_GetItem(arguments.get(), i);
      if (!is_tensor(o) || !(tensor_of(o)->flags & (kDual | kBatched))) continue;
      Ref dual = import_from(kBase, is_dual(tensor_of(o)) ? "_apply_dual" : "_apply_batched");
      return checked(PyObject_CallFunctionObjArgs(dual.get(), cls, arguments.get(), nullptr));
    }
    return Application(cls, arguments.get()).run();
  });
}

// ---- backward ----

Ref incoming(FunctionNode* node, const Tensor* grads, bool materialize) {
  Ref tuple = own(PyTuple_New(node->output_count));
  for (int i = 0; i < node->output_count; i++) {
    const OutputInfo& info = node->outputs[size_t(i)];
    Tensor g = grads[i];
    if (!g.defined() && materialize && info.is_tensor) {
      DType dtype = is_inexact(info.dtype) ? info.dtype : DType::Float32;
      g = ops::zeros(info.sizes, dtype, {}, info.device);
    }
    PyTuple_SetItem(tuple.get(), i, wrap(std::move(g)));
  }
  return tuple;
}

// The user's function: `backward`, or `vjp` where that is the one defined.
Ref backward_of(PyObject* context) {
  Ref cls = own(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(context)), forward_class_key));
  bool by_name = overrides(cls.get(), backward_key), vjp = overrides(cls.get(), vjp_key);
  FL_CHECK(!(by_name && vjp), RuntimeError,
           "{}: implement either backward or vjp, not both: they are the same function",
           type_name(context));
  return own(PyObject_GetAttr(cls.get(), vjp ? vjp_key : backward_key));
}

// What the user returned for one argument, fitted to its shape and dtype.
Tensor fitted(FunctionNode* node, size_t i, PyObject* o) {
  const InputInfo& info = node->inputs[i];
  if (o == Py_None) return Tensor();
  FL_CHECK(info.edge >= 0, RuntimeError,
           "{}: backward must return None for argument {} of forward, which was no tensor, got {}",
           node->type->name, i, type_name(o));
  FL_CHECK(is_tensor(o), TypeError, "{}: backward must return a Tensor or None, got {}",
           node->type->name, type_name(o));
  const Tensor& g = tensor_of(o);
  if (!node->edges[info.edge].wanted()) return Tensor();
  IntList have = g.sizes(), want = info.sizes;
  bool fits = have.size() >= want.size();
  for (size_t d = 0; fits && d < want.size(); d++) {
    int64_t size = have[have.size() - want.size() + d];
    fits = size == want[d] || want[d] == 1;
  }
  FL_CHECK(fits, RuntimeError,
           "{}: backward returned a gradient of shape {} for argument {} of shape {}",
           node->type->name, have, i, want);
  return fit_grad(g, want, info.dtype);
}

void take_results(FunctionNode* node, PyObject* result, Tensor* out) {
  Ref tuple = own(PyTuple_Check(result) ? Py_NewRef(result) : PyTuple_Pack(1, result));
  size_t given = size_t(PyTuple_Size(tuple.get())), wanted = node->inputs.size();
  while (given > wanted && PyTuple_GetItem(tuple.get(), Py_ssize_t(given - 1)) == Py_None) given--;
  FL_CHECK(given == wanted, RuntimeError,
           "{}: backward must return a gradient for each of the {} arguments of forward, got {}",
           node->type->name, wanted, given);
  for (size_t i = 0; i < wanted; i++) {
    Tensor g = fitted(node, i, PyTuple_GetItem(tuple.get(), Py_ssize_t(i)));
    if (g.defined()) out[node->inputs[i].edge] = std::move(g);
  }
}

}  // namespace

void backward_function(Node* base, const Tensor* grads, Tensor* out) {
  auto* node = static_cast<FunctionNode*>(base);
  // Lines are read from the user's backward, not from the forward call.
  Restore<void*> running(tls.engine, nullptr);
  Ref context(wrap_node(node));
  try {
    Ref arguments = incoming(node, grads, as_context(context.get())->materialize);
    Ref first = own(PyTuple_Pack(1, context.get()));
    Ref all = own(PySequence_Concat(first.get(), arguments.get()));
    Ref function = backward_of(context.get());
    Ref result = own(PyObject_Call(function.get(), all.get(), nullptr));
    take_results(node, result.get(), out);
  } catch (const ErrorSet&) {
    throw_python_error();
  }
}

void init_function(PyObject* module) {
  init_function_type(module);
  struct {
    PyObject** place;
    const char* text;
  } const keys[] = {{&backward_class_key, "_backward_cls"},
                    {&forward_class_key, "_forward_cls"},
                    {&node_type_key, "_node_type"},
                    {&forward_key, "forward"},
                    {&backward_key, "backward"},
                    {&vjp_key, "vjp"},
                    {&setup_key, "setup_context"}};
  for (auto& k : keys) *k.place = checked(PyUnicode_InternFromString(k.text));
  static PyMethodDef methods[] = {
      {"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(apply)),
       METH_VARARGS | METH_KEYWORDS | METH_CLASS, "Runs forward and records the call on the tape."},
      {}};
  PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  PyType_Spec spec = {"flambeau._C._FunctionApply", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      slots};
  add(module, "_FunctionApply", reinterpret_cast<PyObject*>(make_type(spec)));
}

}  // namespace flambeau::python
