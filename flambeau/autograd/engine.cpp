// The backward pass: nodes run by descending sequence number, which every consumer of a node
// exceeds, so that no dependency counts are kept.
#include <algorithm>
#include <unordered_map>

#include "flambeau/autograd/accumulate.h"
#include "flambeau/autograd/batch.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/sparse.h"
#include "flambeau/tape/view.h"

namespace flambeau {

namespace {

bool runs_later(const Node* a, const Node* b) { return a->sequence < b->sequence; }

Edge edge_to(const Tensor& t) {
  if (is_stale(t.impl())) refresh_view(t);
  if (t->grad_fn) return {t->grad_fn, nullptr, t->output_nr};
  return {nullptr, t.impl(), 0};
}

Tensor first_gradient(const Tensor& root, const Tensor& given) {
  if (!given.defined()) {
    FL_CHECK(root.numel() == 1, RuntimeError,
             "backward: a gradient is needed for a result of shape {}; only a single element has "
             "an implied one",
             root.sizes());
    FL_CHECK(!is_complex(root.dtype()), RuntimeError,
             "backward: a gradient is needed for a complex result ({}); only real ones have an "
             "implied one",
             root.dtype());
    return ops::ones_like(root);
  }
  FL_CHECK(given.sizes() == root.sizes(), RuntimeError,
           "backward: the gradient has shape {}, the result {}", given.sizes(), root.sizes());
  FL_CHECK(is_complex(given.dtype()) == is_complex(root.dtype()), RuntimeError,
           "backward: the gradient is {}, the result {}", given.dtype(), root.dtype());
  return given;
}

// detect_anomaly's check of values.
[[gnu::cold]] void check_nan(const Node* node, const Tensor* out) {
  NoGradGuard no_grad;
  for (int i = 0; i < node->edge_count; i++) {
    if (!out[i].defined() || !out[i].numel() || is_sparse(out[i])) continue;
    int64_t nans = ops::sum(ops::ne(out[i], out[i])).item().to_int();
    FL_CHECK(nans == 0, RuntimeError,
             "backward: {} returned {} NaN values in output {} of shape {}", node->type->name, nans,
             i, out[i].sizes());
  }
}

// The gradients that arrive at a node, or those that it sends: mostly one or two.
template <int N>
class Grads {
 public:
  explicit Grads(int count) : list_(few_, size_t(count)) {
    if (FL_LIKELY(count <= N)) return;
    many_.resize(size_t(count));
    list_ = many_;
  }
  Grads(const Grads&) = delete;
  operator std::span<Tensor>() { return list_; }
  Tensor& operator[](int i) { return list_[size_t(i)]; }

 private:
  Tensor few_[N];
  std::vector<Tensor> many_;
  std::span<Tensor> list_;
};

bool has_hooks(TensorImpl* leaf) {
  const TensorMeta* meta = meta_if_any(leaf);
  if (FL_LIKELY(!meta)) return false;
  return !meta->hooks.empty() || !meta->after_accumulate.empty() ||
         (meta->accumulator && meta->accumulator->hooks);
}

class Pass {
 public:
  explicit Pass(const BackwardCall& call) : call_(call), captured_(call.inputs.size()) {}
  ~Pass();
  std::vector<Tensor> run();

 private:
  bool only_inputs() const { return !call_.inputs.empty(); }
  void find_needed();
  bool leads_to_input(const Edge& e) const;
  void send(const Edge& e, Tensor g);
  void hold(TensorImpl* leaf, Tensor g);
  void count_awaited();
  void release_complete(TensorImpl* leaf);
  void arrive(TensorImpl* leaf, Tensor g);
  bool owns(Node* node);
  Tensor& slot(Node* node, int nr);
  void visit(Node* node);
  void run_node(Node* node, std::span<Tensor> grads);
  void run_tensor_hooks(Node* node, std::span<Tensor> grads);
  void capture(const Edge& at, const Tensor& g);

  const BackwardCall& call_;
  std::vector<Tensor> captured_;
  std::vector<Node*> heap_;
  std::vector<std::pair<Tensor, Tensor>> held_;   // leaves with hooks, and what arrived so far
  std::unordered_map<TensorImpl*, int> awaited_;  // edges that lead to them and were not visited
  bool counted_ = false;
  std::unordered_map<Node*, std::vector<Tensor>>
      foreign_;  // slots of nodes that another pass is using
  std::unordered_map<Node*, uint8_t> foreign_queued_;
  std::unordered_map<const void*, bool> needed_;  // nodes and leaves: does a path lead to an input?
  std::unordered_map<const void*, bool> targets_;  // nodes whose outputs are inputs
};

Pass::~Pass() {
  for (Node* n : heap_) {  // after an error: nothing may stay behind
    if (n->pass.load() == this) {
      n->grad = Tensor();
      if (n->more_grads) n->more_grads->clear();
      n->queued = 0;
      n->pass = nullptr;
    }
    n->decref();
  }
}

// Marks what lies on a path to an input, depth first without recursion.
void Pass::find_needed() {
  for (const Tensor& t : call_.inputs) {
    FL_CHECK(t.requires_grad(), RuntimeError, "grad: an input of shape {} does not require grad",
             t.sizes());
    Edge e = edge_to(t);
    if (e.node)
      targets_[e.node] = true;
    else
      needed_[e.leaf] = true;
  }
  std::vector<std::pair<Node*, int>> stack;
  auto enter = [&](Node* n) {
    if (n && needed_.emplace(n, false).second) stack.push_back({n, 0});
  };
  // One root after the other: a root below another must be finished before that one is judged.
  for (const Tensor& root : call_.roots) {
    enter(edge_to(root).node);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->edge_count) {
        enter(node->edges[next++].node);
        continue;
      }
      bool found = false;
      for (int i = 0; i < node->edge_count; i++) found = found || leads_to_input(node->edges[i]);
      needed_[node] = found;
      stack.pop_back();
    }
  }
}

bool Pass::leads_to_input(const Edge& e) const {
  if (!only_inputs()) return e.wanted();
  if (e.node && targets_.count(e.node)) return true;
  auto at = needed_.find(e.node ? static_cast<const void*>(e.node) : e.leaf);
  return at != needed_.end() && at->second;
}

// A node that another pass held when the first gradient came keeps its slots here until it was
// visited, even if that pass has ended.
bool Pass::owns(Node* node) {
  if (node->pass.load() == this) return true;
  void* free = nullptr;
  return !foreign_.count(node) && node->pass.compare_exchange_strong(free, this);
}

Tensor& Pass::slot(Node* node, int nr) {
  if (!owns(node)) {
    auto& list = foreign_[node];
    list.resize(node->output_count);
    return list[size_t(nr)];
  }
  if (node->output_count == 1) return node->grad;
  if (!node->more_grads) node->more_grads = new std::vector<Tensor>;
  node->more_grads->resize(node->output_count);
  return (*node->more_grads)[size_t(nr)];
}

void Pass::capture(const Edge& at, const Tensor& g) {
  for (size_t i = 0; i < call_.inputs.size(); i++) {
    Edge e = edge_to(call_.inputs[i]);
    if (e.node == at.node && e.leaf == at.leaf && e.nr == at.nr)
      captured_[i] = add_grads(captured_[i], g);
  }
}

void Pass::send(const Edge& e, Tensor g) {
  if (!g.defined() || !leads_to_input(e)) return;
  if (e.leaf) {
    if (FL_UNLIKELY(has_hooks(e.leaf))) return hold(e.leaf, std::move(g));
    return arrive(e.leaf, std::move(g));
  }
  Tensor& at = slot(e.node, e.nr);
  at = at.defined() ? add_grads(std::move(at), std::move(g)) : std::move(g);
  bool ours = e.node->pass.load() == this;
  if (ours ? e.node->queued : foreign_queued_[e.node]) return;
  (ours ? e.node->queued : foreign_queued_[e.node]) = 1;
  e.node->incref();
  heap_.push_back(e.node);
  std::push_heap(heap_.begin(), heap_.end(), runs_later);
}

// The edges of the graph that lead to leaves with hooks.
void Pass::count_awaited() {
  counted_ = true;
  std::vector<Node*> stack;
  std::unordered_map<Node*, bool> seen;
  auto enter = [&](const Edge& e) {
    if (e.leaf && has_hooks(e.leaf)) awaited_[e.leaf]++;
    if (e.node && seen.emplace(e.node, true).second) stack.push_back(e.node);
  };
  for (const Tensor& root : call_.roots) enter(edge_to(root));
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (int i = 0; i < node->edge_count; i++) enter(node->edges[i]);
  }
}

// An edge to the leaf was visited; after the last one its hooks run, so that they may free memory
// before the pass is over.
void Pass::release_complete(TensorImpl* leaf) {
  if (--awaited_[leaf] > 0) return;
  for (size_t i = 0; i < held_.size(); i++) {
    if (held_[i].first.impl() != leaf) continue;
    auto [kept, g] = std::move(held_[i]);
    held_.erase(held_.begin() + int64_t(i));
    return arrive(leaf, std::move(g));
  }
}

// Hooks of a leaf see the sum of what arrives. Where some edge is never visited, they wait for the
// end of the pass.
void Pass::hold(TensorImpl* leaf, Tensor g) {
  if (g.dtype() != leaf->dtype) g = fit_grad(g, g.sizes(), leaf->dtype);
  for (size_t i = 0; i < held_.size(); i++) {
    if (held_[i].first.impl() != leaf) continue;
    g = add_grads(std::move(held_[i].second), std::move(g));
    held_.erase(held_.begin() + int64_t(i));  // the order is that of the last arrivals
    break;
  }
  held_.push_back({Tensor::borrow(leaf), std::move(g)});
  if (!counted_) count_awaited();
  release_complete(leaf);
}

void Pass::arrive(TensorImpl* leaf, Tensor g) {
  g = hooked_leaf_grad(leaf, std::move(g));
  if (only_inputs())
    capture({nullptr, leaf, 0}, g);
  else
    accumulate_grad(leaf, std::move(g));
}

void Pass::run_node(Node* node, std::span<Tensor> grads) {
  Grads<4> sent(node->edge_count);
  Tensor* out = std::span<Tensor>(sent).data();
  try {
    // New nodes, those of a graph of the backward, name the line of this one (the location hook).
    Restore<void*> running(tls.engine, node);
    node->type->backward(node, grads.data(), out);
    if (FL_UNLIKELY(tls.anomaly_nan)) check_nan(node, out);
  } catch (...) {
    if (node->location.code)
      add_error_note("in the backward of " + std::string(node->type->op) + ", called" +
                     described(node->location));
    throw;
  }
  if (!call_.keep_graph) {
    node->type->release(node);
    node->released = true;
    if (location_hooks.locate && !node->freed_by.code) location_hooks.locate(node->freed_by);
  }
  if (FL_UNLIKELY(node->hooks != nullptr)) {
    std::vector<NodeHook> after = node->hooks->after;  // a hook may remove itself
    for (const NodeHook& h : after) h.after(h.context, {out, node->edge_count}, grads);
  }
  for (int i = 0; i < node->edge_count; i++) {
    const Edge& e = node->edges[i];
    if (out[i].defined())
      send(e, std::move(out[i]));
    else if (FL_UNLIKELY(counted_) && e.leaf)
      release_complete(e.leaf);
  }
}

void Pass::run_tensor_hooks(Node* node, std::span<Tensor> grads) {
  for (size_t i = 0; i < grads.size(); i++) {
    if (!grads[i].defined()) continue;
    grads[i] = run_hooks(node->hooks->pre, int(i), std::move(grads[i]));
    for (auto [impl, nr] : node->hooks->retained) {
      if (nr != int(i)) continue;
      Tensor& kept = meta_of(impl).grad;
      kept = add_grads(kept, tls.grad ? grads[i] : ops::clone(grads[i]));
    }
  }
}

void Pass::visit(Node* node) {
  Grads<2> grads(node->output_count);
  bool ours = node->pass.load() == this;
  for (int i = 0; i < node->output_count; i++) grads[i] = std::move(slot(node, i));
  if (ours) {
    node->queued = 0;
    node->pass = nullptr;
  } else {
    foreign_.erase(node);
    foreign_queued_.erase(node);
  }
  if (FL_UNLIKELY(node->hooks != nullptr)) run_tensor_hooks(node, grads);
  if (FL_UNLIKELY(!targets_.empty()) && targets_.count(node)) {
    for (int i = 0; i < node->output_count; i++) {
      if (grads[i].defined()) capture({node, nullptr, uint16_t(i)}, grads[i]);
    }
    if (!needed_[node]) return;
  }
  if (FL_UNLIKELY(node->hooks != nullptr)) {
    std::vector<NodeHook> before = node->hooks->before;
    for (const NodeHook& h : before) h.before(h.context, grads);
  }
  run_node(node, grads);
}

std::vector<Tensor> Pass::run() {
  Restore<bool> grad(tls.grad, call_.create_graph);
  if (only_inputs()) find_needed();
  for (size_t i = 0; i < call_.roots.size(); i++) {
    const Tensor& root = call_.roots[i];
    FL_CHECK(root.requires_grad(), RuntimeError,
             "backward: result {} of shape {} does not require grad and has no history", i,
             root.sizes());
    Tensor g = first_gradient(root, i < call_.grads.size() ? call_.grads[i] : Tensor());
    send(edge_to(root), std::move(g));
  }
  while (!heap_.empty()) {
    Node* node = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), runs_later);
    heap_.pop_back();
    struct Drop {
      Node* node;
      ~Drop() { node->decref(); }
    } drop{node};
    visit(node);
  }
  while (!held_.empty()) {  // a hook may run another pass, never this one
    auto [leaf, g] = std::move(held_.front());
    held_.erase(held_.begin());
    arrive(leaf.impl(), std::move(g));
  }
  return std::move(captured_);
}

}  // namespace

namespace {

bool names_sparse(const BackwardCall& call) {
  auto any = [](const std::vector<Tensor>& list) {
    return std::any_of(list.begin(), list.end(), [](const Tensor& t) { return is_sparse(t); });
  };
  return any(call.roots) || any(call.inputs);
}

// The tape knows the values of sparse tensors alone: those stand for them.
[[gnu::cold]] std::vector<Tensor> run_sparse_backward(const BackwardCall& call) {
  BackwardCall values = call;
  values.grads.resize(call.roots.size());
  for (size_t i = 0; i < call.roots.size(); i++) {
    if (!is_sparse(call.roots[i])) continue;
    Tensor g = first_gradient(call.roots[i], values.grads[i]);
    values.roots[i] = sparse_values(call.roots[i]);
    values.grads[i] = values_at(g, call.roots[i]);
  }
  for (Tensor& input : values.inputs)
    if (is_sparse(input)) input = sparse_values(input);
  std::vector<Tensor> found = run_backward(values);
  for (size_t i = 0; i < found.size(); i++)
    if (is_sparse(call.inputs[i]) && found[i].defined())
      found[i] = with_values(call.inputs[i], found[i]);
  return found;
}

}  // namespace

std::vector<Tensor> run_backward(const BackwardCall& call) {
  if (FL_UNLIKELY(names_sparse(call))) return run_sparse_backward(call);
  if (FL_UNLIKELY(tls.levels != nullptr) && is_batched_call(call))
    return run_batched_backward(call);
  // Classes that answer for their ops see those of the derivatives too.
  uint8_t mode = 0;
  for (const Tensor& root : call.roots) mode |= root->flags & kForeign ? kModeBelow : 0;
  Restore<uint8_t> below(tls.mode, tls.mode | mode);
  return run_plain_backward(call);
}

std::vector<Tensor> run_plain_backward(const BackwardCall& call) {
  std::vector<Tensor> found = Pass(call).run();
  if (!call.accumulate) return found;
  Restore<bool> grad(tls.grad, call.create_graph);
  for (size_t i = 0; i < found.size(); i++) {
    if (found[i].defined()) accumulate_grad(call.inputs[i].impl(), found[i]);
  }
  return {};
}

void Tensor::backward() const { backward(Tensor()); }

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  BackwardCall call;
  call.roots.push_back(*this);
  call.grads.push_back(gradient);
  call.keep_graph = retain_graph || create_graph;
  call.create_graph = create_graph;
  run_backward(call);
}

}  // namespace flambeau
