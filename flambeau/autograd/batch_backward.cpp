// Backward passes inside a map. The tape holds ops on all values, so a pass from batched results
// runs on those; batched gradients of a result that is not batched run through its own history.
#include "flambeau/autograd/accumulate.h"
#include "flambeau/autograd/batch.h"
#include "flambeau/ops/operators.h"

namespace flambeau {

namespace {

constexpr const char* kNotMapped =
    "grad: inside vmap a tensor that is not mapped has no gradient per example; use func.grad or "
    "func.vjp, or map over it";

bool owned_by(const BatchLevel* level, const std::vector<Tensor>& list) {
  for (const Tensor& t : list)
    if (level->owns(t)) return true;
  return false;
}

// The innermost level that has a say; null if nothing is batched.
BatchLevel* level_of(const BackwardCall& call) {
  BatchLevel* level = innermost_batch(tls.levels);
  while (level && !owned_by(level, call.roots) && !owned_by(level, call.grads) &&
         !owned_by(level, call.inputs))
    level = innermost_batch(level->outside());
  return level;
}

Tensor grad_at(const BackwardCall& call, size_t i) {
  return i < call.grads.size() ? call.grads[i] : Tensor();
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}

// The pass from the batched roots, on the values of all examples.
std::vector<Tensor> on_values(BatchLevel& level, const BackwardCall& call,
                              const std::vector<size_t>& roots) {
  BackwardCall all;
  all.keep_graph = call.keep_graph;
  all.create_graph = call.create_graph;
  Restore<Level*> outside(tls.levels, level.outside());
  for (size_t i : roots) {
    const Tensor& root = call.roots[i];
    Tensor given = grad_at(call, i);
    FL_CHECK(given.defined() || root.numel() == 1, RuntimeError,
             "backward: a gradient is needed for a result of shape {}", root.sizes());
    FL_CHECK(!given.defined() || given.sizes() == root.sizes(), RuntimeError,
             "backward: the gradient has shape {}, the result {}", given.sizes(), root.sizes());
    all.roots.push_back(batch_values(root));
    all.grads.push_back(given.defined() ? level.values_of(given)
                                        : ops::ones_like(batch_values(root)));
  }
  for (const Tensor& x : call.inputs) all.inputs.push_back(level.owns(x) ? batch_values(x) : x);
  std::vector<Tensor> found = run_backward(all);
  for (size_t i = 0; i < found.size(); i++) {
    FL_CHECK(!found[i].defined() || level.owns(call.inputs[i]), RuntimeError, kNotMapped);
    if (found[i].defined()) found[i] = level.wrap(found[i]);
  }
  return found;
}

// A gradient batched at `level` whose examples are batched at `outer` too: the same numbers with
// outer's batch as the first dim of an example.
Tensor with_outer_dim(BatchLevel& level, BatchLevel& outer, const Tensor& g) {
  if (!level.owns(g)) return outer.values_of(g);
  Tensor values = outer.values_of(batch_values(g));  // (outer, level, *)
  return level.wrap(ops::transpose(values, 0, 1));
}
Tensor without_outer_dim(BatchLevel& level, BatchLevel& outer, const Tensor& g) {
  if (!g.defined()) return g;
  if (!level.owns(g)) return outer.wrap(g);
  return level.wrap(outer.wrap(ops::transpose(batch_values(g), 0, 1)));
}

// A pass whose gradients are batched at `level`, though nothing on the tape is. What is batched
// further out is seen as values of all its examples.
std::vector<Tensor> through_history(BatchLevel& level, const BackwardCall& call) {
  BatchLevel* outer = innermost_batch(level.outside());
  while (outer && !owned_by(outer, call.roots)) outer = innermost_batch(outer->outside());
  if (!outer) return run_plain_backward(call);
  BackwardCall all = call;
  Restore<Level*> outside(tls.levels, outer->outside());
  for (Tensor& t : all.roots) t = outer->values_of(t);
  for (Tensor& g : all.grads) g = with_outer_dim(level, *outer, g);
  for (Tensor& t : all.inputs) t = outer->owns(t) ? batch_values(t) : t;
  std::vector<Tensor> found;
  {
    Restore<Level*> inside(tls.levels, &level);
    found = through_history(level, all);
  }
  for (size_t i = 0; i < found.size(); i++) {
    FL_CHECK(!found[i].defined() || outer->owns(call.inputs[i]), RuntimeError, kNotMapped);
    found[i] = without_outer_dim(level, *outer, found[i]);
  }
  return found;
}

// The pass from the roots that are not batched. Fused backward kernels read memory, which a batched
// gradient has not: formulas are used, as for a graph of the backward.
std::vector<Tensor> from_others(BatchLevel& level, const BackwardCall& call,
                                const std::vector<size_t>& roots,
                                const std::vector<Tensor>& inputs) {
  BackwardCall rest;
  rest.keep_graph = call.keep_graph || call.create_graph;
  rest.create_graph = true;
  for (size_t i : roots) {
    Tensor g = grad_at(call, i);
    rest.roots.push_back(call.roots[i]);
    rest.grads.push_back(g.defined() ? g : ops::ones_like(call.roots[i]));
  }
  rest.inputs = inputs;
  std::vector<Tensor> found = through_history(level, rest);
  if (call.create_graph) return found;
  for (Tensor& g : found)
    if (g.defined()) g = ops::detach(g);
  return found;
}

}  // namespace

bool is_batched_call(const BackwardCall& call) { return level_of(call) != nullptr; }

std::vector<Tensor> run_batched_backward(const BackwardCall& call) {
  BatchLevel& level = *level_of(call);
  FL_CHECK(!call.inputs.empty() && !call.accumulate, RuntimeError,
           "backward: inside vmap there is no leaf to add a gradient per example to; use func.grad "
           "or autograd.grad");
  std::vector<size_t> batched, others;
  for (size_t i = 0; i < call.roots.size(); i++)
    (level.owns(call.roots[i]) ? batched : others).push_back(i);
  std::vector<Tensor> found(call.inputs.size());
  if (!batched.empty()) found = on_values(level, call, batched);
  if (others.empty()) return found;
  std::vector<Tensor> inputs;
  std::vector<size_t> places;
  for (size_t i = 0; i < call.inputs.size(); i++) {
    if (level.owns(call.inputs[i])) continue;
    inputs.push_back(call.inputs[i]);
    places.push_back(i);
  }
  if (inputs.empty()) return found;
  std::vector<Tensor> more = from_others(level, call, others, inputs);
  for (size_t k = 0; k < places.size(); k++) found[places[k]] = sum_of(found[places[k]], more[k]);
  return found;
}

}  // namespace flambeau
