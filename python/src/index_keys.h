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

// Is a plain view right: no tape, no recorder, no transform that would want to see ops?
bool is_plain(const Tensor& x);

}  // namespace flambeau::python
