// Checks and conversions of index tensors, shared by gather / scatter, index_* and x[...]. Values
// are checked before anything is written.
#pragma once
#include "flambeau/kernels/cpu/index.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

// int64, copied only if it is another integer type.
Tensor as_int64(const Tensor& index);
Tensor as_bool(const Tensor& mask);
// A contiguous int64 index, its values checked: in [0, size), or in [-size, size) and then counted
// from the start. E is the exception of a bad value.
template <class E>
Tensor checked_index(std::string_view op, const Tensor& index, int64_t size, int64_t dim,
                     bool negative = false);

// Runs `write` on a contiguous stand-in where x is strided, and copies the elements back.
template <class F>
void write_dense(const Tensor& x, F&& write) {
  Tensor flat = dense(x);
  write(flat);
  if (!flat.is(x)) copy_elements(x, flat);
}

inline int64_t size_of(const Tensor& t, int64_t dim) { return t.ndim() ? t.size(dim) : 1; }
// Products of the sizes before and after `dim`.
int64_t outer_of(IntList sizes, int64_t dim);
int64_t inner_of(IntList sizes, int64_t dim);

// The door of index_add, index_copy and index_reduce: one index per row of source along dim.
Ints index_rows_shape(std::string_view op, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& source);
// A 1-d index of `dim` expanded to `sizes`, the form that gather and scatter take.
Tensor index_along(const Tensor& index, IntList sizes, int64_t dim);

}  // namespace flambeau::ops
