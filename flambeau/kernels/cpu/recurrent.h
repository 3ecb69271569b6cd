// One direction of a recurrent layer over all steps: long short-term memory (Hochreiter and
// Schmidhuber 1997), gated units (Cho et al. 2014), plain ones.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

enum class RecurrentCell : uint8_t { Lstm, Gru, Tanh, Relu };

// What a step has of each sample lies in one row, the rows of a step side by side: those of step t
// are [starts[t], starts[t + 1]), and never more than in the step before, since sequences that end
// are last. Rows of x are [gates][hidden] (4: input, forget, cell, output; 3: reset, update, new;
// 1), rows of output [states], of cells [hidden]. Without a projection (w_hr) states = hidden.
// Everything is contiguous; dtype is Float32 or Float64. With `reverse` the last step is the first.
struct RecurrentArgs {
  DType dtype;
  RecurrentCell cell;
  int64_t steps, hidden, states;
  const int64_t* starts;
  bool reverse = false;
  const void *x = nullptr, *h0 = nullptr, *c0 = nullptr;      // c0: of an LSTM
  const void *w = nullptr, *bias = nullptr, *w_hr = nullptr;  // [gates hidden][states], may be null
  void *output = nullptr, *last = nullptr, *last_cell = nullptr;
  void *cells = nullptr, *kept = nullptr;  // for backward, else null: kept_per_unit(cell) a unit
  const void *g_output = nullptr, *g_last = nullptr, *g_last_cell = nullptr;  // any may be null
  void *gx = nullptr, *gh0 = nullptr, *gc0 = nullptr;                         // of x, h0, c0
  void* g_sums = nullptr;    // of the products of states: gx itself but for gated units
  void* g_states = nullptr;  // of all states, if they were projected
};
FL_KERNEL(recurrent_forward, void(const RecurrentArgs&));
FL_KERNEL(recurrent_backward, void(const RecurrentArgs&));

constexpr int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::Lstm ? 4 : cell == RecurrentCell::Gru ? 3 : 1;
}
// Of a gated unit the sum beside the reset gate is a fourth.
constexpr int64_t kept_per_unit(RecurrentCell cell) {
  return cell == RecurrentCell::Lstm || cell == RecurrentCell::Gru ? 4 : 0;
}

}  // namespace flambeau
