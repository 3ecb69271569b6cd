// Gradients arriving at leaves, and hooks on tensors.
#include "flambeau/autograd/accumulate.h"

#include <mutex>

#include "flambeau/core/long_work.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"
#include "flambeau/ops/sparse.h"
#include "flambeau/tape/view.h"

namespace flambeau {

namespace {

int64_t next_hook_id() {
  static std::atomic<int64_t> id{1};
  return id.fetch_add(1, std::memory_order_relaxed);
}

// Nobody else can see this tensor or its memory.
bool is_unshared(const Tensor& t) {
  return !is_sparse(t) && t->refs.load() == 1 && t->storage->refs.load() == 1 && !t->py &&
         !t->base && !has_internal_overlap(t);
}

bool lies_like(const Tensor& a, const TensorImpl* b) {
  if (FL_LIKELY(a->contiguous() && b->contiguous())) return true;
  for (int64_t d = 0; d < a.ndim(); d++)
    if (a->sizes[d] != 1 && a->strides[d] != b->strides[d]) return false;
  return true;
}

// A gradient that lies in memory like its leaf, so that optimizers can walk both together.
Tensor as_leaf_grad(const Tensor& g, TensorImpl* leaf) {
  if (tls.grad) return ops::clone(g);
  if (FL_UNLIKELY(g->flags & (kSparse | kForeign))) return ops::detach(g);
  if (is_unshared(g) && lies_like(g, leaf)) return g;
  Tensor copy = new_like(Tensor::borrow(leaf), g.dtype());
  copy_elements(copy, g);
  return copy;
}

}  // namespace

Tensor run_hooks(const std::vector<Hook>& hooks, int nr, Tensor g) {
  std::vector<Hook> now = hooks;  // a hook may remove itself
  for (const Hook& h : now) {
    if (h.nr != nr) continue;
    Tensor changed = h.call(h.context, g);
    if (changed.defined()) g = std::move(changed);
  }
  return g;
}

Tensor add_grads(Tensor a, Tensor b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  if (!tls.grad && is_unshared(a) && a.dtype() == b.dtype() && a.sizes() == b.sizes())
    return ops::add_(a, b);
  return ops::add(a, b);
}

Tensor hooked_leaf_grad(TensorImpl* leaf, Tensor g) {
  if (FL_UNLIKELY(g.dtype() != leaf->dtype)) g = fit_grad(g, g.sizes(), leaf->dtype);
  FL_CHECK(g.sizes() == IntList(leaf->sizes, leaf->ndim), RuntimeError,
           "backward: a gradient of shape {} arrived at a leaf of shape {}", g.sizes(),
           IntList(leaf->sizes, leaf->ndim));
  const TensorMeta* meta = meta_if_any(leaf);
  if (FL_LIKELY(!meta || meta->hooks.empty())) return g;
  return run_hooks(meta->hooks, 0, std::move(g));
}

namespace {

// Another thread's backward may arrive at the same leaf. Where an interpreter runs one thread at a
// time its lock is enough, if it is kept; elsewhere leaves share a few locks by address.
class LeafLock {
 public:
  explicit LeafLock(const TensorImpl* leaf) {
    if (tls.counts_alone) return;
    static std::mutex locks[16];
    lock_ = std::unique_lock(locks[reinterpret_cast<uintptr_t>(leaf) / sizeof(TensorImpl) % 16]);
  }

 private:
  Alone alone_;
  std::unique_lock<std::mutex> lock_;
};

void add_to_grad(TensorImpl* leaf, Tensor g) {
  LeafLock lock(leaf);
  TensorMeta& meta = meta_of(leaf);
  if (!meta.grad.defined()) {
    Tensor fresh = std::move(g);
    meta.grad = as_leaf_grad(fresh, leaf);
  } else if (tls.grad || FL_UNLIKELY(is_sparse(meta.grad))) {
    meta.grad = ops::add(meta.grad, g);
  } else {
    ops::add_(meta.grad, g);
  }
}

// The hooks of the leaf's accumulator, if it has one, stand around the addition.
[[gnu::cold]] void add_with_node_hooks(TensorImpl* leaf, Tensor g) {
  Node* node = leaf->meta->accumulator;
  node->incref();
  NodeGuard kept(node);
  std::vector<NodeHook> before = node->hooks->before;
  for (const NodeHook& h : before) h.before(h.context, {&g, 1});
  add_to_grad(leaf, g);
  std::vector<NodeHook> after = node->hooks->after;
  for (const NodeHook& h : after) h.after(h.context, {}, {&g, 1});
}

}  // namespace

void accumulate_grad(TensorImpl* impl, Tensor g) {
  Tensor leaf = Tensor::borrow(impl);
  TensorMeta& meta = meta_of(impl);
  if (FL_UNLIKELY(meta.accumulator && meta.accumulator->hooks))
    add_with_node_hooks(impl, std::move(g));
  else
    add_to_grad(impl, std::move(g));
  for (size_t i = 0; i < meta.after_accumulate.size(); i++) {
    const Hook h = meta.after_accumulate[i];
    h.call(h.context, leaf);
  }
}

namespace {

struct LeafNode : NodeOf<0> {
  Tensor leaf;
};
void destroy_leaf_node(Node* node) {
  auto* n = static_cast<LeafNode*>(node);
  meta_of(n->leaf.impl()).accumulator = nullptr;
  n->~LeafNode();
}
void backward_leaf(Node* node, const Tensor* grads, Tensor*) {
  accumulate_grad(static_cast<LeafNode*>(node)->leaf.impl(), grads[0]);
}

}  // namespace

const NodeType kAccumulateGrad = {"AccumulateGrad", "accumulate_grad", backward_leaf,
                                  [](Node*) {},     destroy_leaf_node, sizeof(LeafNode)};

Node* accumulator_of(const Tensor& leaf) {
  TensorMeta& meta = meta_of(leaf.impl());
  if (meta.accumulator) {
    meta.accumulator->incref();
    return meta.accumulator;
  }
  auto* node = new_node<LeafNode>(kAccumulateGrad);
  node->leaf = leaf;
  return meta.accumulator = node;
}

Tensor accumulated_leaf(const Node* accumulator) {
  return static_cast<const LeafNode*>(accumulator)->leaf;
}

int64_t add_hook(const Tensor& t, Hook hook) {
  FL_CHECK(t.requires_grad(), RuntimeError,
           "register_hook: a tensor that does not require grad has no gradient to hook");
  hook.id = next_hook_id();
  if (Node* node = t->grad_fn) {
    if (!node->hooks) node->hooks = new NodeHooks;
    hook.nr = t->output_nr;
    node->hooks->pre.push_back(hook);
  } else {
    meta_of(t.impl()).hooks.push_back(hook);
  }
  return hook.id;
}

void remove_hook(const Tensor& t, int64_t id) {
  auto erase = [&](std::vector<Hook>& hooks) {
    for (size_t i = 0; i < hooks.size(); i++) {
      if (hooks[i].id != id) continue;
      Hook gone = hooks[i];
      hooks.erase(hooks.begin() + int64_t(i));
      if (gone.drop) gone.drop(gone.context);
      return;
    }
  };
  if (t->grad_fn && t->grad_fn->hooks) erase(t->grad_fn->hooks->pre);
  if (t->meta) {
    erase(t->meta->hooks);
    erase(t->meta->after_accumulate);
  }
}

void retain_grad(const Tensor& t) {
  FL_CHECK(t.requires_grad(), RuntimeError,
           "retain_grad: a tensor that does not require grad has no gradient to keep");
  if (!t->grad_fn || meta_of(t.impl()).retains_grad) return;
  meta_of(t.impl()).retains_grad = true;
  if (!t->grad_fn->hooks) t->grad_fn->hooks = new NodeHooks;
  t->grad_fn->hooks->retained.push_back({t.impl(), t->output_nr});
}

Tensor Tensor::grad() const {
  if (!p_->meta) return Tensor();
  if (FL_LIKELY(!is_sparse(*this))) return p_->meta->grad;
  Tensor of_values = sparse_values(*this).grad();
  return of_values.defined() ? with_values(*this, of_values) : of_values;
}

Tensor& Tensor::set_requires_grad(bool on) {
  FL_CHECK(!on || is_inexact(dtype()), RuntimeError,
           "requires_grad: only floating and complex tensors can require grad, got {}", dtype());
  FL_CHECK(on || !p_->grad_fn, RuntimeError,
           "requires_grad: a tensor with a history (of {}) cannot be told not to require grad; use "
           "detach()",
           p_->grad_fn ? p_->grad_fn->type->op : "");
  if (FL_UNLIKELY(p_->flags & kBatched)) p_->meta->batched_value.set_requires_grad(on);
  if (FL_UNLIKELY(is_sparse(*this))) p_->meta->parts.back().set_requires_grad(on);
  p_->flags = uint8_t(on ? p_->flags | kRequiresGrad : p_->flags & ~kRequiresGrad);
  return *this;
}

Tensor tie_to_edge(const Tensor& grad, const Edge& input, IntList sizes) {
  if (input.leaf) return ops::_depends(grad, Tensor::borrow(input.leaf));
  // What counts of an input that is gone are its sizes and its history.
  Tensor like;
  if (grad->flags & kBatched) {
    Tensor one = new_tensor({}, grad.dtype(), grad.device());
    like = alias(one, Geometry{sizes, Ints(sizes.size(), 0), 0});
  } else {
    like = ops::detach(grad.sizes() == sizes ? grad : ops::sum_to_size(grad, sizes));
  }
  give_history(like, input.node, input.nr);
  return ops::_depends(grad, like);
}

Tensor fit_grad(Tensor grad, IntList sizes, DType dtype) {
  if (!grad.defined()) return grad;
  if (is_complex(grad.dtype()) && !is_complex(dtype)) grad = ops::real(grad);
  if (!(grad.sizes() == sizes)) grad = ops::sum_to_size(grad, sizes);
  return grad.dtype() == dtype ? grad : ops::to(grad, dtype);
}

}  // namespace flambeau
