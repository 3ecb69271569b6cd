// index_select, index_add, index_copy, index_fill and embedding: whole rows named by a list of
// indices.
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/embedding.h"
#include "flambeau/kernels/cpu/scatter.h"
#include "flambeau/ops/indices.h"

namespace flambeau::ops {

namespace {

void check_list(std::string_view op, const Tensor& index) {
  FL_CHECK(index.ndim() <= 1, IndexError, "{}: index must have at most one dim, got shape {}", op,
           index.sizes());
  FL_CHECK(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, RuntimeError,
           "{}: index must be int64 or int32, got {}", op, index.dtype());
}

// `sizes` are those of the indexed tensor.
RowsArgs rows_args(DType dtype, IntList sizes, int64_t dim, const Tensor& index) {
  int64_t size = sizes.empty() ? 1 : sizes[size_t(dim)];
  return {itemsize(dtype),      outer_of(sizes, dim), size,
          inner_of(sizes, dim), index.numel(),        index.data<int64_t>()};
}

}  // namespace

Ints index_select_shape(const Tensor& self, int64_t dim, const Tensor& index) {
  check_list("index_select", index);
  dim = wrap_dim("index_select", dim, self.ndim());
  Ints sizes(self.sizes());
  if (!sizes.empty()) sizes[size_t(dim)] = index.numel();
  FL_CHECK(!sizes.empty() || index.numel() == 1, RuntimeError,
           "index_select: a 0-d tensor takes one index, got {}", index.numel());
  return sizes;
}

void index_select_kernel(Tensor& result, const Tensor& self, int64_t dim, const Tensor& index) {
  dim = wrap_dim("index_select", dim, self.ndim());
  Tensor where = checked_index<IndexError>("index_select", index, size_of(self, dim), dim);
  if (result.numel() == 0) return;
  index_select_rows(rows_args(self.dtype(), self.sizes(), dim, where), self->data, result->data);
}

Ints index_rows_shape(std::string_view op, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& source) {
  check_list(op, index);
  dim = wrap_dim(op, dim, self.ndim());
  FL_CHECK(self.dtype() == source.dtype(), RuntimeError,
           "{}: source must have self's dtype {}, got {}", op, self.dtype(), source.dtype());
  FL_CHECK(index.numel() == size_of(source, source.ndim() ? dim : 0), IndexError,
           "{}: index has {} elements, source of shape {} has {} rows in dim {}", op, index.numel(),
           source.sizes(), size_of(source, source.ndim() ? dim : 0), dim);
  bool fits = std::max<int64_t>(self.ndim(), 1) == std::max<int64_t>(source.ndim(), 1) ||
              (source.ndim() == 0 && self.numel() == size_of(self, dim));
  for (int64_t d = 0; fits && d < std::min(self.ndim(), source.ndim()); d++)
    fits = d == dim || self.size(d) == source.size(d);
  FL_CHECK(fits, IndexError, "{}: source of shape {} does not fit self of shape {} outside dim {}",
           op, source.sizes(), self.sizes(), dim);
  return self.sizes();
}

Tensor index_along(const Tensor& index, IntList sizes, int64_t dim) {
  Geometry g{Ints(sizes), Ints(sizes.size()), index->offset()};
  if (!sizes.empty()) g.strides[size_t(dim)] = index.ndim() ? index.stride(0) : 0;
  return alias(index, g);
}

namespace {

// A checked index and dense source, and a dense self to write into.
template <class F>
void write_rows(std::string_view op, const Tensor& self, int64_t dim, const Tensor& index,
                const Tensor& source, F&& write) {
  check_unshared(op, self);
  dim = wrap_dim(op, dim, self.ndim());
  Tensor where = checked_index<IndexError>(op, index, size_of(self, dim), dim);
  if (source.numel() == 0) return;
  Tensor from = memory_overlap(self, source) == Overlap::None ? dense(source)
                                                              : base_copy(source, source.sizes());
  write_dense(
      self, [&](const Tensor& x) { write(rows_args(x.dtype(), x.sizes(), dim, where), x, from); });
}

}  // namespace

Ints index_add_shape(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                     const Scalar& alpha) {
  FL_CHECK(!alpha.is_complex() || is_complex(self.dtype()), RuntimeError,
           "index_add: alpha {} does not fit in {}", alpha, self.dtype());
  return index_rows_shape("index_add", self, dim, index, source);
}

void index_add_kernel(Tensor& result, int64_t dim, const Tensor& index, const Tensor& source,
                      const Scalar& alpha) {
  bool plain = !alpha.is_complex() && alpha.to_double() == 1;
  NoGradGuard no_grad;
  bool integers = !is_inexact(result.dtype());  // as torch: the factor is cut to the dtype
  Tensor scaled = plain || result.dtype() == DType::Bool ? source
                  : integers                             ? mul(source, Scalar(alpha.to_int()))
                                                         : mul(source, alpha);
  write_rows("index_add", result, dim, index, scaled,
             [](const RowsArgs& rows, const Tensor& x, const Tensor& from) {
               index_combine_rows(Combine::Sum, x.dtype(), rows, x->data, from->data);
             });
}

Ints index_copy_shape(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  return index_rows_shape("index_copy", self, dim, index, source);
}

void index_copy_kernel(Tensor& result, int64_t dim, const Tensor& index, const Tensor& source) {
  write_rows("index_copy", result, dim, index, source,
             [](const RowsArgs& rows, const Tensor& x, const Tensor& from) {
               index_copy_rows(rows, x->data, from->data);
             });
}

Ints index_fill_shape(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  FL_CHECK(!value.is_complex() || is_complex(self.dtype()), RuntimeError,
           "index_fill: {} does not fit in {}", value, self.dtype());
  check_list("index_fill", index);
  wrap_dim("index_fill", dim, self.ndim());
  return self.sizes();
}

Ints index_fill_shape(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  FL_CHECK(value.ndim() == 0, RuntimeError,
           "index_fill: the value must be a number or a 0-d tensor, got shape {}", value.sizes());
  return index_fill_shape(self, dim, index, Scalar(int64_t{0}));
}

void index_fill_kernel(Tensor& result, int64_t dim, const Tensor& index, const Tensor& value) {
  check_unshared("index_fill", result);
  dim = wrap_dim("index_fill", dim, result.ndim());
  Tensor where = checked_index<IndexError>("index_fill", index, size_of(result, dim), dim, true);
  Tensor one = new_tensor({}, result.dtype(), result.device());
  copy_elements(one, value);
  if (result.numel() == 0) return;
  write_dense(result, [&](const Tensor& x) {
    index_fill_rows(rows_args(x.dtype(), x.sizes(), dim, where), x->data, one->data);
  });
}

void index_fill_kernel(Tensor& result, int64_t dim, const Tensor& index, const Scalar& value) {
  Tensor one = new_tensor({}, result.dtype(), result.device());
  index_fill_kernel(result, dim, index, fill_into(one, value));
}

// ---- embedding ----

Tensor embedding_impl(const Tensor& weight, const Tensor& indices, int64_t, bool, bool) {
  FL_CHECK(weight.ndim() == 2, RuntimeError, "embedding: weight must have two dims, got shape {}",
           weight.sizes());
  FL_CHECK(indices.dtype() == DType::Int64 || indices.dtype() == DType::Int32, RuntimeError,
           "embedding: indices must be int64 or int32, got {}", indices.dtype());
  one_device("embedding", {&weight, &indices});
  Ints sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  Tensor result = new_tensor(sizes, weight.dtype(), weight.device());
  if (!has_memory(result)) return result;
  Tensor where = checked_index<IndexError>("embedding", indices, weight.size(0), 0);
  Tensor rows = dense(weight);
  if (result.numel())
    index_select_rows(rows_args(rows.dtype(), rows.sizes(), 0, where), rows->data, result->data);
  return result;
}

Tensor embedding_dense_backward_impl(const Tensor& grad_output, const Tensor& indices,
                                     int64_t num_weights, int64_t padding_idx,
                                     bool scale_grad_by_freq) {
  FL_CHECK(grad_output.ndim() == indices.ndim() + 1, RuntimeError,
           "embedding_dense_backward: grad_output must have one dim more than indices, got {} and "
           "{}",
           grad_output.sizes(), indices.sizes());
  Ints rows(grad_output.sizes());
  rows.resize(rows.size() - 1);
  FL_CHECK(
      IntList(rows) == indices.sizes() && is_float(grad_output.dtype()) && num_weights >= 0,
      RuntimeError,
      "embedding_dense_backward: {} indices need as many floating rows, got {} of shape {} for "
      "{} weights",
      indices.sizes(), grad_output.dtype(), grad_output.sizes(), num_weights);
  one_device("embedding_dense_backward", {&grad_output, &indices});
  int64_t cols = grad_output.size(-1);
  Tensor result = new_tensor({num_weights, cols}, grad_output.dtype(), grad_output.device());
  if (!has_memory(result) || result.numel() == 0) return result;
  Tensor where = checked_index<IndexError>("embedding", indices, num_weights, 0);
  Tensor g = dense(grad_output);
  embedding_backward({.dtype = g.dtype(),
                      .n = where.numel(),
                      .rows = num_weights,
                      .dim = cols,
                      .padding_index = padding_idx,
                      .scale_by_frequency = scale_grad_by_freq,
                      .indices = where.data<int64_t>(),
                      .g = g->data,
                      .gw = result->data});
  return result;
}

}  // namespace flambeau::ops
