// Life of nodes, and how results and in-place writes are tied to them.
#include "flambeau/tape/node.h"

#include <memory>

#include "flambeau/core/pool.h"
#include "flambeau/tape/view.h"

namespace flambeau {

namespace {

constexpr size_t kNodeBlock = 384;  // a product with two saved operands takes 280

void drop_edges(const Node* node) {
  for (int i = 0; i < node->edge_count; i++) {
    const Edge& e = node->edges[i];
    if (e.node) e.node->decref();
    if (e.leaf) e.leaf->decref();
  }
}

template <class H>
void drop_hooks(std::vector<H>& hooks) {
  for (H& h : hooks) {
    if (h.drop) h.drop(h.context);
  }
  hooks.clear();
}

[[gnu::noinline]] void free_hooks(NodeHooks* hooks) {
  drop_hooks(hooks->pre);
  drop_hooks(hooks->before);
  drop_hooks(hooks->after);
  delete hooks;
}

void free_node(Node* node) {
  const NodeType* type = node->type;
  if (FL_UNLIKELY(node->py_owned)) drop_node_object(node);
  drop_edges(node);
  if (FL_UNLIKELY(node->hooks != nullptr)) free_hooks(node->hooks);
  if (FL_UNLIKELY(node->more_grads != nullptr)) delete node->more_grads;
  if (node->location.code) location_hooks.drop(node->location);
  if (FL_UNLIKELY(node->freed_by.code != nullptr)) location_hooks.drop(node->freed_by);
  bool own_edges = node->edges_allocated;
  Edge* edges = node->edges;
  type->destroy(node);
  if (own_edges) delete[] edges;
  if (type->size <= kNodeBlock)
    return_block(tls.nodes, node);
  else
    std::free(node);
}

void drop_meta(TensorMeta* meta) {
  drop_hooks(meta->hooks);
  drop_hooks(meta->after_accumulate);
  delete meta;
}

// The core asks for these when a tensor dies.
[[maybe_unused]] const bool hooks_are_set = [] {
  core_hooks.leave_node = leave_node;
  core_hooks.drop_meta = drop_meta;
  return true;
}();

}  // namespace

TensorMeta& meta_of(TensorImpl* impl) {
  std::atomic_ref place(impl->meta);
  TensorMeta* meta = place.load(std::memory_order_acquire);
  if (FL_LIKELY(meta != nullptr)) return *meta;
  // Backward passes of two threads may meet at a leaf: one of them makes it.
  auto made = std::make_unique<TensorMeta>();
  return *(place.compare_exchange_strong(meta, made.get()) ? made.release() : meta);
}

void* allocate_node(size_t bytes) {
  if (FL_LIKELY(bytes <= kNodeBlock)) return take_block(tls.nodes, kNodeBlock);
  void* block = std::malloc(bytes);
  if (!block) throw std::bad_alloc();
  return block;
}

// Released one by one from a list: a chain of a million nodes must not recurse.
void Node::decref() {
  if (!refs.down()) return;
  next_dying = static_cast<Node*>(tls.dying);
  tls.dying = this;
  if (tls.draining) return;
  Restore<bool> draining(tls.draining, true);
  while (auto* node = static_cast<Node*>(tls.dying)) {
    tls.dying = node->next_dying;
    free_node(node);
  }
}

void InputFit::keep_sizes(const Tensor& input) { sizes_ = new Ints(input.sizes()); }
void InputFit::drop_sizes() { delete sizes_; }

bool recording(TensorList list) {
  if (!tls.grad) return false;
  for (const Tensor& t : list) {
    if (t.defined() && t.requires_grad()) return true;
  }
  return false;
}

void allocate_edges(Node* node, int count) {
  node->edges = new Edge[static_cast<size_t>(count)];
  node->edges_allocated = true;
  node->edge_count = uint16_t(count);
}

void connect(Node* node, int i, const Tensor& input) {
  if (!input.defined() || !input.requires_grad()) return;
  if (FL_UNLIKELY(is_stale(input.impl()))) refresh_view(input);
  Edge& e = node->edges[i];
  if (Node* from = input->grad_fn) {
    from->incref();
    e.node = from;
    e.nr = input->output_nr;
    if (from->sequence > node->sequence) node->sequence = from->sequence;
  } else {
    input->incref();
    e.leaf = input.impl();
  }
}

void connect(Node* node, int first, TensorList inputs) {
  for (size_t i = 0; i < inputs.size(); i++) connect(node, first + int(i), inputs[i]);
}

namespace {

// A Lamport clock: above every input's number and above whatever this thread made before.
void number(Node* node) {
  uint64_t now = node->sequence > tls.sequence ? node->sequence : tls.sequence;
  node->sequence = tls.sequence = now + 1;
}

void own(const Tensor& result, Node* node, uint16_t nr) {
  node->incref();
  if (result->grad_fn) leave_node(result.impl());
  result->grad_fn = node;
  result->output_nr = nr;
  result->flags |= kRequiresGrad;
}

}  // namespace

void number_node(Node* node) { number(node); }
void give_history(const Tensor& result, Node* node, uint16_t nr) { own(result, node, nr); }

void attach(const Tensor& result, Node* node, int) {
  number(node);
  if (FL_UNLIKELY(!is_inexact(result.dtype()))) return node->decref();
  if (FL_UNLIKELY(result->grad_fn != nullptr)) leave_node(result.impl());
  result->grad_fn = node;  // the caller's reference
  result->output_nr = 0;
  result->flags |= kRequiresGrad;
}

void attach(std::initializer_list<const Tensor*> results, Node* node) {
  number(node);
  node->output_count = uint16_t(results.size());
  uint16_t nr = 0;
  for (const Tensor* t : results) {
    if (t && t->defined() && is_inexact(t->dtype())) own(*t, node, nr);
    nr++;
  }
  node->decref();
}

void attach(TensorList results, Node* node, int) {
  number(node);
  node->output_count = uint16_t(results.size());
  for (size_t i = 0; i < results.size(); i++) {
    if (is_inexact(results[i].dtype())) own(results[i], node, uint16_t(i));
  }
  node->decref();
}

void note_writer(std::string_view op, const Tensor& self);  // saved.cpp

void check_inplace(std::string_view op, const Tensor& self) {
  note_writer(op, self);
  FL_CHECK(!(self->flags & kInference) || tls.inference, RuntimeError,
           "{}: a tensor of shape {} made in inference_mode was to be changed in place outside of "
           "it; clone it first",
           op, self.sizes());
  if (!tls.grad) return;
  if (self.requires_grad() && !self->grad_fn) {
    fail<RuntimeError>(
        "{}: a leaf tensor of shape {} that requires grad was to be changed in place; do it under "
        "no_grad(), "
        "or on a clone",
        op, self.sizes());
  }
  if (!self->base) return;
  bool base_leaf = self->base->requires_grad() && !self->base->grad_fn;
  FL_CHECK(!base_leaf, RuntimeError,
           "{}: a view of a leaf that requires grad was to be changed in place; do it under "
           "no_grad(), or on a clone",
           op);
  FL_CHECK(!(self->meta && self->meta->view_of_multi), RuntimeError,
           "{}: this tensor is one of several views made by one op (split, unbind, chunk): "
           "in-place would lose gradients; "
           "clone it first",
           op);
}

void rebase(const Tensor& self, Node* node) {
  attach(self, node);
  if (!self->base)
    self->history++;  // its views, if there are any, notice
  else if (!(self->flags & kNoGradView))
    rebase_view(self);
}

}  // namespace flambeau
