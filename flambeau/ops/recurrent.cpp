// One step of a recurrent net, for each kind of cell.
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

}  // namespace flambeau::ops
