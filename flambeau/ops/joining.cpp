// Tensors put together.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

bool is_left_out(const Tensor& t) { return t.ndim() == 1 && t.size(0) == 0; }

const Tensor& first_counted(TensorList tensors) {
  for (const Tensor& t : tensors) {
    if (!is_left_out(t)) return t;
  }
  return tensors[0];
}

}  // namespace

Ints cat_shape(TensorList tensors, int64_t dim) {
  const Tensor& first = first_counted(tensors);
  FL_CHECK(first.ndim() > 0, RuntimeError, "cat: a 0-d tensor cannot be joined; use stack()");
  dim = wrap_dim("cat", dim, first.ndim());
  Ints sizes(first.sizes());
  if (is_left_out(first)) return sizes;
  sizes[size_t(dim)] = 0;
  for (size_t i = 0; i < tensors.size(); i++) {
    const Tensor& t = tensors[i];
    if (is_left_out(t)) continue;
    bool fits = t.ndim() == first.ndim();
    for (int64_t d = 0; fits && d < t.ndim(); d++) fits = d == dim || t.size(d) == first.size(d);
    FL_CHECK(fits, RuntimeError,
             "cat: all sizes but that of dim {} must match, got {} and {} (tensor {})", dim,
             first.sizes(), t.sizes(), i);
    sizes[size_t(dim)] += t.size(dim);
  }
  return sizes;
}

DType cat_dtype(TensorList tensors, int64_t) {
  ResultType type;
  for (const Tensor& t : tensors) type.add(t);
  return type.get();
}

void cat_pieces(Tensor& result, TensorList tensors, int64_t dim) {
  dim = wrap_dim("cat", dim, result.ndim());
  int64_t start = 0;
  for (const Tensor& t : tensors) {
    if (is_left_out(t) || t.numel() == 0) continue;
    Geometry g{Ints(t.sizes()), Ints(result.strides()),
               result->offset() + start * result.stride(dim)};
    copy_elements(alias(result, g), t);
    start += t.size(dim);
  }
}

Tensor stack_impl(TensorList tensors, int64_t dim) {
  FL_CHECK(!tensors.empty(), RuntimeError, "stack: at least one tensor is needed");
  dim = wrap_dim("stack", dim, tensors[0].ndim() + 1);
  std::vector<Tensor> rows;
  rows.reserve(tensors.size());
  for (const Tensor& t : tensors) {
    FL_CHECK(t.sizes() == tensors[0].sizes(), RuntimeError,
             "stack: all sizes must match, got {} and {} (tensor {})", tensors[0].sizes(),
             t.sizes(), rows.size());
    rows.push_back(unsqueeze(t, dim));
  }
  return cat(rows, dim);
}

}  // namespace flambeau::ops
