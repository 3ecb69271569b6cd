// What stands between the brackets of x[...], applied to a tensor one key after the other.
#pragma once
#include "flambeau/core/tensor.h"
#include "python/src/py.h"

namespace flambeau::python {

// x after its ints, slices, None and Ellipsis, and the index tensors that are still to be applied.
struct Indexed {
  Tensor part;                  // a view of x, or x itself if nothing was sliced
  std::vector<Tensor> indices;  // by dim of `part`, undefined for whole dims; empty: done
};

Indexed apply_keys(const Tensor& x, PyObject* key);

// A view of x without a node; `offset` counts elements from x's first.
Tensor view_of(const Tensor& x, IntList sizes, IntList strides, int64_t offset);

// What makes a tensor on x's memory a view of x (make_view does the same inside the library).
inline void note_base(const Tensor& view, const Tensor& x) {
  if (tls.inference) return;
  view->base = x->base ? x->base : x.impl();
  view->base->incref();
  view->history = view->base->history;
  if (!tls.grad || (x->flags & kNoGradView)) view->flags |= kNoGradView;
}

// Is a plain view right: no tape, no recorder, no transform that would want to see ops?
bool is_plain(const Tensor& x);

}  // namespace flambeau::python
