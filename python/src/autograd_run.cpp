// Running the tape: x.backward() and what autograd.backward and autograd.grad share.
#include <unordered_set>

#include "flambeau/autograd/batch.h"
#include "flambeau/tape/view.h"
#include "python/src/arguments.h"
#include "python/src/autograd_node.h"
#include "python/src/module.h"
#include "python/src/tape.h"
#include "python/src/tensor_methods.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

void append_tensors(std::vector<Tensor>& list, PyObject* o, const char* what, bool holes) {
  Ref tuple = own(is_tensor(o) ? PyTuple_Pack(1, o) : PySequence_Tuple(o));
  for (Py_ssize_t i = 0, n = PyTuple_Size(tuple.get()); i < n; i++) {
    PyObject* item = PyTuple_GetItem(tuple.get(), i);
    list.push_back(holes && item == Py_None ? Tensor() : expect_tensor(item, what));
  }
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
      append_tensors(call.inputs, inputs, "backward: inputs", false);
      FL_CHECK(!call.inputs.empty(), RuntimeError, "backward: inputs must not be empty");
      call.accumulate = true;
    }
    run_backward(call);
    return Py_NewRef(Py_None);
  });
}

// An input may be the edge of a graph, (node, output number), as autograd.graph.GradientEdge is.
void add_input(BackwardCall& call, PyObject* o) {
  call.inputs.push_back(expect_tensor(o, "grad: an input"));
}

// _run_backward(roots, grads, keep_graph, create_graph, inputs, accumulate): a tuple of gradients,
// empty unless inputs are given and not accumulated into.
PyObject* run(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    FL_CHECK(nargs == 6, TypeError, "_run_backward: takes 6 arguments, got {}", int64_t(nargs));
    BackwardCall call;
    append_tensors(call.roots, args[0], "backward: a result", false);
    append_tensors(call.grads, args[1], "backward: a gradient", true);
    call.keep_graph = args[2] == Py_True;
    call.create_graph = args[3] == Py_True;
    Ref inputs = own(PySequence_Tuple(args[4]));
    for (Py_ssize_t i = 0, n = PyTuple_Size(inputs.get()); i < n; i++)
      add_input(call, PyTuple_GetItem(inputs.get(), i));
    call.accumulate = args[5] == Py_True;
    return grads_tuple(run_backward(call));
  });
}

// _set_anomaly_nan(check): does backward look for NaN?
PyObject* set_anomaly_nan(PyObject*, PyObject* on) {
  return to_bool(std::exchange(tls.anomaly_nan, on == Py_True));
}

// _grad_accumulator(leaf): the node that stands for accumulation into it.
PyObject* grad_accumulator(PyObject*, PyObject* o) {
  return guarded([&] {
    const Tensor& t = expect_tensor(o, "_grad_accumulator: the argument");
    FL_CHECK(t.requires_grad() && !t->grad_fn, RuntimeError,
             "_grad_accumulator: the tensor must be a leaf that requires grad");
    NodeGuard node(accumulator_of(t));
    return wrap_node(t->meta->accumulator);
  });
}

// _has_other_leaves(roots, tensors): does a path lead from a root past all `tensors` to some leaf?
PyObject* has_other_leaves(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *roots, *tensors;
    if (!PyArg_ParseTuple(args, "OO", &roots, &tensors)) throw ErrorSet{};
    std::vector<Tensor> from, stop;
    append_tensors(from, roots, "a root", false);
    append_tensors(stop, tensors, "a tensor", false);
    for (auto* list : {&from, &stop})
      for (Tensor& t : *list) t = unbatched(t);
    std::unordered_set<const void*> seen;
    for (const Tensor& t : stop)
      seen.insert(t->grad_fn ? static_cast<void*>(t->grad_fn) : t.impl());
    std::vector<Node*> stack;
    bool found = false;
    auto enter = [&](Node* node, const TensorImpl* leaf) {
      const void* place = node ? static_cast<const void*>(node) : leaf;
      if (!place || !seen.insert(place).second) return;
      if (node)
        stack.push_back(node);
      else
        found = true;
    };
    for (const Tensor& t : from) enter(t->grad_fn, t->grad_fn ? nullptr : t.impl());
    while (!stack.empty() && !found) {
      Node* node = stack.back();
      stack.pop_back();
      for (int i = 0; i < node->edge_count; i++) enter(node->edges[i].node, node->edges[i].leaf);
    }
    return to_bool(found);
  });
}

PyMethodDef functions[] = {
    {"_has_other_leaves", has_other_leaves, METH_VARARGS, nullptr},
    {"_run_backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(run)), METH_FASTCALL,
     nullptr},
    {"_set_anomaly_nan", set_anomaly_nan, METH_O, nullptr},
    {"_grad_accumulator", grad_accumulator, METH_O, nullptr},
    {}};

}  // namespace

void append_tape_methods(Methods& table) {
  table.push_back(
      {"backward", as_function(backward), kFast,
       "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
       "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n"
       "--\n\nRuns the tape from here and adds to the gradients of the leaves."});
  append_hook_methods(table);
}

void init_autograd(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
