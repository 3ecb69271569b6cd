// Recurrent layers: what the op of one direction, its derivative and its batching rule share.
#pragma once
#include <array>

#include "flambeau/core/tensor.h"
#include "flambeau/kernels/cpu/recurrent.h"

namespace flambeau::ops {

// The arguments of _recurrent_layer. cx is of an LSTM; b_hh and w_hr may be undefined.
struct RecurrentLayer {
  const Tensor &input, &hx, &cx, &w_hh, &b_hh, &w_hr;
  IntList sizes;
  RecurrentCell cell;
  bool reverse;

  int64_t steps() const { return int64_t(sizes.size()); }
  int64_t hidden() const { return w_hh.size(0) / gates_of(cell); }
  int64_t time(int64_t s) const { return reverse ? steps() - 1 - s : s; }
};

RecurrentCell recurrent_cell_named(std::string_view mode);
// Where the rows of each step begin, and where they end.
Ints first_rows(IntList sizes);
// What forward and backward tell their kernel alike; the tensors are contiguous.
RecurrentArgs recurrent_args(const RecurrentLayer& layer, const Ints& starts);

// (state, cell) after one step, from the products of its input and of the state before.
std::array<Tensor, 2> recurrent_step(RecurrentCell kind, const Tensor& x, const Tensor& sums,
                                     const Tensor& state, const Tensor& cell);
// (output, last, last_cell) of a layer, step by step in other ops.
std::array<Tensor, 3> recurrent_steps(const RecurrentLayer& layer);

}  // namespace flambeau::ops
