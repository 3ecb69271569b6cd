// One step of a recurrent net, for each kind of cell; all steps of an LSTM layer.
#include "flambeau/kernels/cpu/recurrent.h"
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

Tensor plain_step(std::string_view op, const Tensor& input, const Tensor& hx, const Tensor& w_ih,
                  const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh) {
  check_hidden(op, input, hx, w_hh);
  return linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh);
}

}  // namespace

Tensor rnn_tanh_cell_impl(const Tensor& input, const Tensor& hx, const Tensor& w_ih,
                          const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh) {
  return tanh(plain_step("rnn_tanh_cell", input, hx, w_ih, w_hh, b_ih, b_hh));
}

Tensor rnn_relu_cell_impl(const Tensor& input, const Tensor& hx, const Tensor& w_ih,
                          const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh) {
  return relu(plain_step("rnn_relu_cell", input, hx, w_ih, w_hh, b_ih, b_hh));
}

Tensor gru_cell_impl(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  check_hidden("gru_cell", input, hx, w_hh);
  std::vector<Tensor> x = chunk(linear(input, w_ih, b_ih), 3, -1);
  std::vector<Tensor> h = chunk(linear(hx, w_hh, b_hh), 3, -1);
  Tensor reset = sigmoid(x[0] + h[0]), update = sigmoid(x[1] + h[1]);
  Tensor fresh = tanh(x[2] + reset * h[2]);
  return fresh + update * (hx - fresh);
}

std::tuple<Tensor, Tensor> lstm_cell_impl(const Tensor& input, TensorList hx, const Tensor& w_ih,
                                          const Tensor& w_hh, const Tensor& b_ih,
                                          const Tensor& b_hh) {
  FL_CHECK(hx.size() == 2, RuntimeError, "lstm_cell: hx must hold two tensors, got {}",
           int64_t(hx.size()));
  check_hidden("lstm_cell", input, hx[0], w_hh);
  std::vector<Tensor> gates = chunk(linear(input, w_ih, b_ih) + linear(hx[0], w_hh, b_hh), 4, -1);
  Tensor cell = sigmoid(gates[1]) * hx[1] + sigmoid(gates[0]) * tanh(gates[2]);
  return {sigmoid(gates[3]) * tanh(cell), cell};
}

Ints lstm_states(const Tensor& input, const Tensor& hx, const Tensor& cx, const Tensor& w_hh,
                 const Tensor& b_hh, bool) {
  FL_CHECK(input.ndim() == 3 && w_hh.ndim() == 2, RuntimeError,
           "lstm_layer: input (steps, n, 4 * h) and w_hh (4 * h, h) are needed, got {} and {}",
           input.sizes(), w_hh.sizes());
  const int64_t n = input.size(1), h = w_hh.size(1);
  Ints state{n, h};
  FL_CHECK(input.size(2) == 4 * h && w_hh.size(0) == 4 * h && hx.sizes() == IntList(state) &&
               cx.sizes() == IntList(state),
           RuntimeError, "lstm_layer: input {}, w_hh {} and states {} and {} do not fit",
           input.sizes(), w_hh.sizes(), hx.sizes(), cx.sizes());
  FL_CHECK(!b_hh.defined() || (b_hh.ndim() == 1 && b_hh.size(0) == 4 * h), RuntimeError,
           "lstm_layer: b_hh must have shape ({},), got {}", 4 * h,
           b_hh.defined() ? b_hh.sizes() : IntList());
  FL_CHECK(input.dtype() == DType::Float32 || input.dtype() == DType::Float64, RuntimeError,
           "lstm_layer: float32 or float64 is needed, got {}", input.dtype());
  for (const Tensor* t : {&hx, &cx, &w_hh, &b_hh}) {
    FL_CHECK(!t->defined() || t->dtype() == input.dtype(), RuntimeError,
             "lstm_layer: all must be {} like the input, got {}", input.dtype(), t->dtype());
  }
  return {input.size(0), n, h};
}

void lstm_layer_kernel(Tensor& output, Tensor& cells, Tensor& gates, const Tensor& input,
                       const Tensor& hx, const Tensor& cx, const Tensor& w_hh, const Tensor& b_hh,
                       bool reverse) {
  if (output.numel() == 0) return;
  LstmArgs a{input.dtype(), input.size(0), input.size(1), w_hh.size(1), reverse};
  a.x = input->data, a.h0 = hx->data, a.c0 = cx->data, a.w = w_hh->data;
  a.bias = data_or_null(b_hh);
  a.output = output->data, a.cells = cells->data, a.gates = gates->data;
  lstm_forward(a);
}

}  // namespace flambeau::ops
