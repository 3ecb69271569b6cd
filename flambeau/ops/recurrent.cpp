// One step of a recurrent net for each kind of cell, and all steps of a layer's direction.
#include "flambeau/ops/recurrent.h"

#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

void check_hidden(std::string_view op, const Tensor& input, const Tensor& hx, const Tensor& w_hh) {
  FL_CHECK(input.ndim() >= 1 && hx.ndim() == input.ndim(), RuntimeError,
           "{}: input and hidden state must have as many dims, got {} and {}", op, input.sizes(),
           hx.sizes());
  FL_CHECK(input.ndim() == 1 || input.size(0) == hx.size(0), RuntimeError,
           "{}: input and hidden state must have one batch size, got {} and {}", op, input.sizes(),
           hx.sizes());
  FL_CHECK(w_hh.ndim() == 2 && hx.size(-1) == w_hh.size(1), RuntimeError,
           "{}: the hidden state must have size {}, got shape {}", op, w_hh.size(-1), hx.sizes());
}

// Rows of the first dim; the tensor itself if they are all.
Tensor rows_of(const Tensor& t, int64_t first, int64_t count) {
  return first == 0 && count == t.size(0) ? t : narrow(t, 0, first, count);
}

// A state whose rows go with the batch of each step: the last sequences end first, and backwards
// in time they join last.
class Rows {
 public:
  explicit Rows(const Tensor& first, int64_t count)
      : first_(first), now(rows_of(first, 0, count)) {}

  void resize(int64_t count) {
    const int64_t have = now.size(0);
    if (count < have) ended_.push_back(narrow(now, 0, count, have - count));
    now = count <= have ? rows_of(now, 0, count)
                        : cat(std::vector<Tensor>{now, narrow(first_, 0, have, count - have)});
  }
  // Each sequence's after its last step.
  Tensor last() {
    if (ended_.empty()) return now;
    ended_.push_back(now);
    std::reverse(ended_.begin(), ended_.end());
    return cat(ended_);
  }

 private:
  const Tensor& first_;
  std::vector<Tensor> ended_;

 public:
  Tensor now;
};

}  // namespace

std::array<Tensor, 2> recurrent_step(RecurrentCell kind, const Tensor& x, const Tensor& sums,
                                     const Tensor& state, const Tensor& cell) {
  if (kind == RecurrentCell::Tanh) return {tanh(x + sums), Tensor()};
  if (kind == RecurrentCell::Relu) return {relu(x + sums), Tensor()};
  if (kind == RecurrentCell::Gru) {
    std::vector<Tensor> a = chunk(x, 3, -1), b = chunk(sums, 3, -1);
    Tensor reset = sigmoid(a[0] + b[0]), update = sigmoid(a[1] + b[1]);
    Tensor fresh = tanh(a[2] + reset * b[2]);
    return {fresh + update * (state - fresh), Tensor()};
  }
  std::vector<Tensor> gates = chunk(x + sums, 4, -1);
  Tensor next = sigmoid(gates[1]) * cell + sigmoid(gates[0]) * tanh(gates[2]);
  return {sigmoid(gates[3]) * tanh(next), next};
}

std::array<Tensor, 3> recurrent_steps(const RecurrentLayer& layer) {
  const int64_t steps = layer.steps();
  const int64_t first = layer.sizes[size_t(layer.time(0))];
  const bool has_cell = layer.cell == RecurrentCell::Lstm;
  const Ints starts = first_rows(layer.sizes);
  std::vector<Tensor> states(static_cast<size_t>(steps));
  Rows state(layer.hx, first), cell(has_cell ? layer.cx : layer.hx, first);
  for (int64_t s = 0; s < steps; s++) {
    const size_t t = size_t(layer.time(s));
    state.resize(layer.sizes[t]), cell.resize(layer.sizes[t]);
    Tensor x = rows_of(layer.input, starts[t], layer.sizes[t]);
    auto [h, c] = recurrent_step(layer.cell, x, linear(state.now, layer.w_hh, layer.b_hh),
                                 state.now, cell.now);
    state.now = layer.w_hr.defined() ? linear(h, layer.w_hr) : h;
    if (has_cell) cell.now = c;
    states[t] = state.now;
  }
  return {cat(states), state.last(), has_cell ? cell.last() : Tensor()};
}

RecurrentCell recurrent_cell_named(std::string_view mode) {
  if (mode == "lstm") return RecurrentCell::Lstm;
  if (mode == "gru") return RecurrentCell::Gru;
  if (mode == "rnn_tanh") return RecurrentCell::Tanh;
  FL_CHECK(mode == "rnn_relu", ValueError,
           "_recurrent_layer: mode must be lstm, gru, rnn_tanh or rnn_relu, got {}", mode);
  return RecurrentCell::Relu;
}

Ints first_rows(IntList sizes) {
  Ints starts(sizes.size() + 1);
  for (size_t t = 0; t < sizes.size(); t++) starts[t + 1] = starts[t] + sizes[t];
  return starts;
}

RecurrentArgs recurrent_args(const RecurrentLayer& layer, const Ints& starts) {
  RecurrentArgs a{layer.input.dtype(), layer.cell,    layer.steps(), layer.hidden(),
                  layer.w_hh.size(1),  starts.data(), layer.reverse};
  a.x = layer.input->data, a.h0 = layer.hx->data, a.c0 = data_or_null(layer.cx);
  a.w = layer.w_hh->data, a.bias = data_or_null(layer.b_hh), a.w_hr = data_or_null(layer.w_hr);
  return a;
}

namespace {

constexpr std::string_view kLayer = "_recurrent_layer";

void check_sizes(const RecurrentLayer& layer) {
  int64_t rows = 0, before = layer.hx.ndim() == 2 ? layer.hx.size(0) : 0;
  FL_CHECK(layer.steps() > 0 && layer.sizes[0] == before, RuntimeError,
           "{}: the first of sizes must be the {} rows of hx, got {}", kLayer, before, layer.sizes);
  for (int64_t n : layer.sizes) {
    FL_CHECK(0 <= n && n <= before, RuntimeError, "{}: sizes must fall, got {}", kLayer,
             layer.sizes);
    rows += n, before = n;
  }
  FL_CHECK(layer.input.ndim() == 2 && layer.input.size(0) == rows, RuntimeError,
           "{}: input must have the {} rows of all steps, got shape {}", kLayer, rows,
           layer.input.sizes());
}

// Missing is as good as right.
bool has_shape(const Tensor& t, IntList sizes) { return !t.defined() || t.sizes() == sizes; }

void check_layer(const RecurrentLayer& layer) {
  const Tensor &input = layer.input, &w_hh = layer.w_hh;
  check_sizes(layer);
  const int64_t gates = gates_of(layer.cell), columns = input.size(1), n = layer.hx.size(0);
  FL_CHECK(w_hh.ndim() == 2 && w_hh.size(0) == columns && columns % gates == 0, RuntimeError,
           "{}: input must have {} numbers for each unit, and w_hh as many rows, got {} and {}",
           kLayer, gates, input.sizes(), w_hh.sizes());
  const bool has_cell = layer.cell == RecurrentCell::Lstm;
  const int64_t h = columns / gates, states = layer.hx.size(1);
  const Tensor &cx = layer.cx, &w_hr = layer.w_hr;
  FL_CHECK(w_hh.size(1) == states && cx.defined() == has_cell && has_shape(cx, {n, h}) &&
               (has_cell ? has_shape(w_hr, {states, h}) : !w_hr.defined()) &&
               (w_hr.defined() ? states > 0 : states == h),
           RuntimeError, "{}: input {}, w_hh {}, w_hr {} and states {} and {} do not fit", kLayer,
           input.sizes(), w_hh.sizes(), w_hr.defined() ? w_hr.sizes() : IntList(), layer.hx.sizes(),
           cx.defined() ? cx.sizes() : IntList());
  FL_CHECK(has_shape(layer.b_hh, {columns}), RuntimeError, "{}: b_hh must have shape ({},), got {}",
           kLayer, columns, layer.b_hh.sizes());
  FL_CHECK(input.dtype() == DType::Float32 || input.dtype() == DType::Float64, RuntimeError,
           "{}: float32 or float64 is needed, got {}", kLayer, input.dtype());
  for (const Tensor* t : {&layer.hx, &cx, &w_hh, &layer.b_hh, &w_hr}) {
    FL_CHECK(!t->defined() || t->dtype() == input.dtype(), RuntimeError,
             "{}: all must be {} like the input, got {}", kLayer, input.dtype(), t->dtype());
  }
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> recurrent_layer_impl(
    const Tensor& input, const Tensor& hx, const Tensor& cx, const Tensor& w_hh, const Tensor& b_hh,
    const Tensor& w_hr, IntList sizes, std::string_view mode, bool reverse, bool for_backward) {
  const RecurrentCell cell = recurrent_cell_named(mode);
  check_layer({input, hx, cx, w_hh, b_hh, w_hr, sizes, cell, reverse});
  const Device device = one_device(kLayer, {&input, &hx, &cx, &w_hh, &b_hh, &w_hr});
  auto x = dense(input), h0 = dense(hx), c0 = dense(cx), w = dense(w_hh), b = dense(b_hh),
       shrink = dense(w_hr);
  const RecurrentLayer layer{x, h0, c0, w, b, shrink, sizes, cell, reverse};
  const int64_t rows = input.size(0), n = hx.size(0), h = layer.hidden();
  auto fresh = [&](bool wanted, IntList shape) {
    return new_tensor(wanted ? shape : IntList{0}, input.dtype(), device);
  };
  const bool has_cell = cx.defined();
  Tensor output = fresh(true, {rows, hx.size(1)}), last = fresh(true, hx.sizes());
  Tensor last_cell = fresh(has_cell, {n, h}), cells = fresh(has_cell && for_backward, {rows, h});
  Tensor kept = fresh(for_backward && kept_per_unit(cell), {rows, kept_per_unit(cell) * h});
  if (has_memory(input) && output.numel() > 0) {
    const Ints starts = first_rows(sizes);
    RecurrentArgs a = recurrent_args(layer, starts);
    a.output = output->data, a.last = last->data, a.last_cell = last_cell->data;
    if (for_backward) a.cells = cells->data, a.kept = kept->data;
    recurrent_forward(a);
  }
  return {output, last, last_cell, cells, kept};
}

Tensor rnn_tanh_cell_impl(const Tensor& input, const Tensor& hx, const Tensor& w_ih,
                          const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh) {
  check_hidden("rnn_tanh_cell", input, hx, w_hh);
  return recurrent_step(RecurrentCell::Tanh, linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), hx,
                        {})[0];
}

Tensor rnn_relu_cell_impl(const Tensor& input, const Tensor& hx, const Tensor& w_ih,
                          const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh) {
  check_hidden("rnn_relu_cell", input, hx, w_hh);
  return recurrent_step(RecurrentCell::Relu, linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), hx,
                        {})[0];
}

Tensor gru_cell_impl(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  check_hidden("gru_cell", input, hx, w_hh);
  return recurrent_step(RecurrentCell::Gru, linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), hx,
                        {})[0];
}

std::tuple<Tensor, Tensor> lstm_cell_impl(const Tensor& input, TensorList hx, const Tensor& w_ih,
                                          const Tensor& w_hh, const Tensor& b_ih,
                                          const Tensor& b_hh) {
  FL_CHECK(hx.size() == 2, RuntimeError, "lstm_cell: hx must hold two tensors, got {}",
           int64_t(hx.size()));
  check_hidden("lstm_cell", input, hx[0], w_hh);
  auto [state, cell] = recurrent_step(RecurrentCell::Lstm, linear(input, w_ih, b_ih),
                                      linear(hx[0], w_hh, b_hh), hx[0], hx[1]);
  return {state, cell};
}

}  // namespace flambeau::ops
