// Checks and conversions of index tensors.
#include "flambeau/ops/indices.h"

namespace flambeau::ops {

Tensor as_int64(const Tensor& index) {
  if (index.dtype() == DType::Int64) return index;
  Tensor wide = new_tensor(index.sizes(), DType::Int64, index.device());
  copy_elements(wide, index);
  return wide;
}

Tensor as_bool(const Tensor& mask) {
  if (mask.dtype() == DType::Bool) return mask;
  Tensor out = new_tensor(mask.sizes(), DType::Bool, mask.device());
  copy_elements(out, mask);
  return out;
}

template <class E>
Tensor checked_index(std::string_view op, const Tensor& index, int64_t size, int64_t dim,
                     bool negative) {
  FL_CHECK(has_memory(index), RuntimeError, "{}: the index is on {}, where it has no values", op,
           index.device());
  Tensor flat = dense(as_int64(index));
  const int64_t* values = flat.data<int64_t>();
  int64_t n = flat.numel(), at = find_bad_index(values, n, 0, size);
  if (FL_LIKELY(at < 0)) return flat;
  if (negative && values[at] < 0) at = find_bad_index(values, n, -size, size);
  if (at >= 0) {
    fail<E>("{}: index {} (element {} of index) is out of range for dim {} of size {}", op,
            values[at], at, dim, size);
  }
  Tensor wrapped = new_tensor(index.sizes(), DType::Int64, index.device());
  int64_t* out = wrapped.data<int64_t>();
  for (int64_t i = 0; i < n; i++) out[i] = values[i] + (values[i] < 0 ? size : 0);
  return wrapped;
}
template Tensor checked_index<IndexError>(std::string_view, const Tensor&, int64_t, int64_t, bool);
template Tensor checked_index<RuntimeError>(std::string_view, const Tensor&, int64_t, int64_t,
                                            bool);

int64_t outer_of(IntList sizes, int64_t dim) {
  int64_t n = 1;
  for (int64_t d = 0; d < dim; d++) n *= sizes[size_t(d)];
  return n;
}

int64_t inner_of(IntList sizes, int64_t dim) {
  int64_t n = 1;
  for (size_t d = size_t(dim) + 1; d < sizes.size(); d++) n *= sizes[d];
  return n;
}

}  // namespace flambeau::ops
