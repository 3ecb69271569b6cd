// In-place writes through views.
#include "flambeau/tape/view.h"

#include "flambeau/ops/operators.h"

namespace flambeau {

namespace {

// Where a view lies in its base: its sizes and strides, and its offset from the base's first
// element.
struct Region {
  Ints sizes, strides, base_sizes, base_strides;
  int64_t offset = 0;

  Region() = default;
  Region(const Tensor& view, const Tensor& base)
      : sizes(view.sizes()),
        strides(view.strides()),
        base_sizes(base.sizes()),
        base_strides(base.strides()),
        offset(view->offset() - base->offset()) {}
};

// The gradient laid out like the base, so that the view's strides mean the same in it.
Tensor laid_out(const Tensor& g, const Region& r) {
  if (g.strides() == IntList(r.base_strides)) return g;
  Tensor copy = new_strided(r.base_sizes, r.base_strides, g.dtype(), g.device());
  NoGradGuard no_grad;
  ops::copy_(copy, g);
  return copy;
}

Tensor part(const Tensor& g, const Region& r) {
  if (!tls.grad) {
    Tensor full = laid_out(g, r);
    return alias(full, Geometry{r.sizes, r.strides, full->offset() + r.offset});
  }
  return ops::as_strided(ops::contiguous(g), r.sizes, r.strides, r.offset);
}

struct WriteNode : NodeOf<2> {  // edges: the base as it was, the written view
  Region region;
};

void backward_write(Node* base, const Tensor* grads, Tensor* out) {
  auto* node = static_cast<WriteNode*>(base);
  const Region& r = node->region;
  if (node->edges[1].wanted()) out[1] = part(grads[0], r);
  if (!node->edges[0].wanted()) return;
  if (tls.grad) {
    Tensor zeros = ops::zeros_like(part(grads[0], r));
    out[0] =
        ops::as_strided_scatter(ops::contiguous(grads[0]), zeros, r.sizes, r.strides, r.offset);
    return;
  }
  Tensor rest = new_strided(r.base_sizes, r.base_strides, grads[0].dtype(), grads[0].device());
  ops::copy_(rest, grads[0]);
  Tensor hole = alias(rest, Geometry{r.sizes, r.strides, rest->offset() + r.offset});
  ops::zero_(hole);
  out[0] = rest;
}

struct RegionNode : NodeOf<1> {
  Region region;
};

void backward_region(Node* base, const Tensor* grads, Tensor* out) {
  auto* node = static_cast<RegionNode*>(base);
  const Region& r = node->region;
  if (!node->edges[0].wanted()) return;
  Tensor zeros = ops::zeros(r.base_sizes, grads[0].dtype(), {}, grads[0].device());
  out[0] = ops::as_strided_scatter(zeros, grads[0], r.sizes, r.strides, r.offset);
}

void keep_nothing(Node*) {}

const NodeType kWrite = {"CopySlices", "copy_slices",           backward_write,
                         keep_nothing, destroy_node<WriteNode>, sizeof(WriteNode)};
const NodeType kRegion = {"AsStridedBackward0",     "as_strided",
                          backward_region,          keep_nothing,
                          destroy_node<RegionNode>, sizeof(RegionNode)};

}  // namespace

void refresh_view(const Tensor& view) {
  Tensor base = Tensor::borrow(view->base);
  view->history = base->history;
  if (!base.requires_grad()) return;
  auto* node = new_node<RegionNode>(kRegion);
  node->region = Region(view, base);
  connect(node, 0, base);
  attach(view, node);
}

void rebase_view(const Tensor& view) {
  Tensor base = Tensor::borrow(view->base);
  auto* node = new_node<WriteNode>(kWrite);
  node->region = Region(view, base);
  connect(node, 0, base);
  view->history = base->history;  // the view is up to date while it is connected
  connect(node, 1, view);
  attach(base, node);
  base->history++;
  refresh_view(view);
}

}  // namespace flambeau
