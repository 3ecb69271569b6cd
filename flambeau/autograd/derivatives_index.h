// Derivatives of ops that pick, write or reorder elements by indices.
#pragma once
#include <array>

#include "flambeau/core/tensor.h"

namespace flambeau {

// The rows of g that index names along dim, as a tensor of `sizes`.
Tensor rows_of(const Tensor& g, int64_t dim, const Tensor& index, IntList sizes);
// Zeros of `sizes` whose leading corner is x.
Tensor part_of(const Tensor& x, IntList sizes);
// The gradient of a number that was written at the indices.
Tensor filled_grad(const Tensor& g, int64_t dim, const Tensor& index);

Tensor masked_select_backward(const Tensor& g, IntList sizes, const Tensor& mask);
// The selected elements of g in order, zeros behind them up to `sizes`.
Tensor masked_source(const Tensor& g, const Tensor& mask, IntList sizes);
// The gradient of embedding's weight, strided or sparse.
Tensor embedding_grad(const Tensor& g, const Tensor& indices, int64_t rows, int64_t padding_idx,
                      bool scale_grad_by_freq, bool sparse);
Tensor embedding_twice(const Tensor& g, const Tensor& indices, int64_t padding_idx,
                       bool scale_grad_by_freq);

std::tuple<Tensor, Tensor> scatter_reduce_backward(const Tensor& g, const Tensor& self, int64_t dim,
                                                   const Tensor& index, const Tensor& src,
                                                   std::string_view reduce, bool include_self,
                                                   const Tensor& result);
std::tuple<Tensor, Tensor> index_reduce_backward(const Tensor& g, const Tensor& self, int64_t dim,
                                                 const Tensor& index, const Tensor& source,
                                                 std::string_view reduce, bool include_self,
                                                 const Tensor& result);

// Zeros of `sizes` with g at the indices that a sort or a selection along dim gave; `kept`: g and
// indices still have the reduced dim.
Tensor place_along(const Tensor& g, IntList sizes, int64_t dim, const Tensor& indices, bool kept);
// g shared evenly by the elements of self that equal the chosen value.
Tensor share_evenly(const Tensor& g, const Tensor& self, const Tensor& chosen);
// Sums the gradients of repeated elements back.
Tensor repeat_backward(const Tensor& g, IntList sizes, IntList repeats);
Tensor roll_backward(const Tensor& g, IntList shifts, IntList dims);

}  // namespace flambeau
