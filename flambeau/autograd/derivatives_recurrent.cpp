// Derivatives of recurrent layers. A kernel goes back through the steps; a graph of the backward is
// that of the steps written out.
#include "flambeau/autograd/derivatives.h"
#include "flambeau/kernels/cpu/recurrent.h"

namespace flambeau {

namespace {

using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

struct Inputs5 {
  const Tensor &input, &hx, &cx, &w_hh, &b_hh;
};

// (states, cells) after each step, with a graph.
std::array<Tensor, 2> written_out(const Inputs5& of, bool reverse) {
  const int64_t steps = of.input.size(0);
  std::vector<Tensor> states(static_cast<size_t>(steps)), cells(static_cast<size_t>(steps));
  Tensor h = of.hx, c = of.cx;
  for (int64_t s = 0; s < steps; s++) {
    const int64_t t = reverse ? steps - 1 - s : s;
    Tensor sums = ops::select(of.input, 0, t) + ops::linear(h, of.w_hh, of.b_hh);
    std::vector<Tensor> gates = ops::chunk(sums, 4, -1);
    c = ops::sigmoid(gates[1]) * c + ops::sigmoid(gates[0]) * ops::tanh(gates[2]);
    h = ops::sigmoid(gates[3]) * ops::tanh(c);
    states[size_t(t)] = h, cells[size_t(t)] = c;
  }
  return {ops::stack(states, 0), ops::stack(cells, 0)};
}

Five through_steps(const Inputs5& of, const Tensor& g_output, const Tensor& g_cells, bool reverse,
                   std::array<bool, 5> wanted) {
  BackwardCall call;
  std::array<Tensor, 2> results = written_out(of, reverse);
  if (g_output.defined()) call.roots.push_back(results[0]), call.grads.push_back(g_output);
  if (g_cells.defined()) call.roots.push_back(results[1]), call.grads.push_back(g_cells);
  const Tensor* inputs[] = {&of.input, &of.hx, &of.cx, &of.w_hh, &of.b_hh};
  for (size_t i = 0; i < 5; i++) {
    if (wanted[i]) call.inputs.push_back(*inputs[i]);
  }
  call.keep_graph = call.create_graph = true;
  std::vector<Tensor> found = run_backward(call);
  Tensor grads[5];
  for (size_t i = 0, n = 0; i < 5; i++) {
    if (wanted[i]) grads[i] = found[n++];
  }
  return {grads[0], grads[1], grads[2], grads[3], grads[4]};
}

// Of the weights: the slopes of all sums times the states before them.
Tensor weight_grad(const Tensor& gx, const Tensor& hx, const Tensor& output, bool reverse) {
  const int64_t steps = gx.size(0), h = hx.size(1);
  auto flat = [](const Tensor& t, int64_t first, int64_t count, int64_t size) {
    return ops::reshape(ops::narrow(t, 0, first, count), {-1, size});
  };
  const int64_t first = reverse ? steps - 1 : 0;
  Tensor gw = ops::matmul(ops::t(ops::select(gx, 0, first)), hx);
  if (steps == 1) return gw;
  Tensor slopes = flat(gx, reverse ? 0 : 1, steps - 1, 4 * h);
  return ops::addmm(gw, ops::t(slopes), flat(output, reverse ? 1 : 0, steps - 1, h));
}

}  // namespace

Five lstm_layer_grads(const Tensor& g_output, const Tensor& g_cells, const Tensor& input,
                      const Tensor& hx, const Tensor& cx, const Tensor& w_hh, const Tensor& b_hh,
                      const Tensor& output, const Tensor& cells, const Tensor& gates, bool reverse,
                      std::array<bool, 5> wanted) {
  if (!g_output.defined() && !g_cells.defined()) return {};
  if (tls.grad)
    return through_steps({input, hx, cx, w_hh, b_hh}, g_output, g_cells, reverse, wanted);
  Tensor gx = new_tensor(input.sizes(), input.dtype(), input.device());
  Tensor gh = new_tensor(hx.sizes(), hx.dtype(), hx.device());
  Tensor gc = new_tensor(cx.sizes(), cx.dtype(), cx.device());
  if (output.numel() == 0) {
    ops::zero_(gh), ops::zero_(gc);
    Tensor none = ops::zeros_like(w_hh);
    return {gx, gh, gc, none, b_hh.defined() ? ops::zeros_like(b_hh) : Tensor()};
  }
  if (has_memory(input)) {
    auto h0 = dense(hx), c0 = dense(cx), w = dense(w_hh), g = dense(g_output), gs = dense(g_cells);
    LstmArgs a{input.dtype(), input.size(0), input.size(1), w_hh.size(1), reverse};
    a.h0 = h0->data, a.c0 = c0->data, a.w = w->data;
    a.output = output->data, a.cells = cells->data, a.gates = gates->data;
    a.g_output = data_or_null(g), a.g_cells = data_or_null(gs);
    a.gx = gx->data, a.gh0 = gh->data, a.gc0 = gc->data;
    lstm_backward(a);
  }
  return {gx, gh, gc, wanted[3] ? weight_grad(gx, hx, output, reverse) : Tensor(),
          wanted[4] ? ops::sum(gx, IntList{0, 1}) : Tensor()};
}

}  // namespace flambeau
