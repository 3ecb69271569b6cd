// Derivatives of recurrent layers. A kernel goes back through the steps; a graph of the backward is
// that of the steps written out.
#include "flambeau/autograd/derivatives.h"
#include "flambeau/ops/recurrent.h"

namespace flambeau {

namespace {

using ops::RecurrentLayer;
using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using Wanted = std::array<bool, 6>;

struct LayerGrads {
  const Tensor &output, &last, &last_cell;
};

Six through_steps(const RecurrentLayer& of, const LayerGrads& g, Wanted wanted) {
  BackwardCall call;
  std::array<Tensor, 3> results;
  {
    EnableGradGuard recorded;
    results = ops::recurrent_steps(of);
  }
  const Tensor* grads[] = {&g.output, &g.last, &g.last_cell};
  for (size_t i = 0; i < 3; i++) {
    // The cell of others than an LSTM is no tensor.
    if (grads[i]->defined() && results[i].defined())
      call.roots.push_back(results[i]), call.grads.push_back(*grads[i]);
  }
  const Tensor* inputs[] = {&of.input, &of.hx, &of.cx, &of.w_hh, &of.b_hh, &of.w_hr};
  for (size_t i = 0; i < 6; i++) {
    if (wanted[i]) call.inputs.push_back(*inputs[i]);
  }
  call.keep_graph = true;
  call.create_graph = tls.grad;
  std::vector<Tensor> found = run_backward(call);
  Tensor out[6];
  for (size_t i = 0, n = 0; i < 6; i++) {
    if (wanted[i]) out[i] = found[n++];
  }
  return {out[0], out[1], out[2], out[3], out[4], out[5]};
}

// The states that each row began its step with.
Tensor states_before(const RecurrentLayer& of, const Tensor& output, const Ints& starts) {
  std::vector<Tensor> pieces;
  for (int64_t t = 0; t < of.steps(); t++) {
    const int64_t n = of.sizes[size_t(t)], other = of.reverse ? t + 1 : t - 1;
    const bool any = 0 <= other && other < of.steps();
    const int64_t old = any ? std::min(n, of.sizes[size_t(other)]) : 0;
    if (old > 0) pieces.push_back(ops::narrow(output, 0, starts[size_t(other)], old));
    if (n > old) pieces.push_back(ops::narrow(of.hx, 0, old, n - old));
  }
  return ops::cat(pieces);
}

// Of w_hh: the slopes of all sums times the states before them.
Tensor weight_grad(const RecurrentLayer& of, const Tensor& g_sums, const Tensor& output,
                   const Ints& starts) {
  const int64_t n = of.hx.size(0), rows = g_sums.size(0) - n;
  if (of.sizes[0] != of.sizes.back())
    return ops::matmul(ops::t(g_sums), states_before(of, output, starts));
  const int64_t first = of.reverse ? rows : 0, rest = of.reverse ? 0 : n;
  Tensor gw = ops::matmul(ops::t(ops::narrow(g_sums, 0, first, n)), of.hx);
  if (rows == 0) return gw;
  return ops::addmm(gw, ops::t(ops::narrow(g_sums, 0, rest, rows)),
                    ops::narrow(output, 0, of.reverse ? n : 0, rows));
}

}  // namespace

Six recurrent_layer_grads(const Tensor& g_output, const Tensor& g_last, const Tensor& g_last_cell,
                          const Tensor& input, const Tensor& hx, const Tensor& cx,
                          const Tensor& w_hh, const Tensor& b_hh, const Tensor& w_hr,
                          const Tensor& output, const Tensor& cells, const Tensor& kept,
                          IntList sizes, std::string_view mode, bool reverse, bool for_backward,
                          Wanted wanted) {
  if (!g_output.defined() && !g_last.defined() && !g_last_cell.defined()) return {};
  const RecurrentCell cell = ops::recurrent_cell_named(mode);
  if (tls.grad || !for_backward) {
    return through_steps({input, hx, cx, w_hh, b_hh, w_hr, sizes, cell, reverse},
                         {g_output, g_last, g_last_cell}, wanted);
  }
  auto x = dense(input), h0 = dense(hx), c0 = dense(cx), w = dense(w_hh), b = dense(b_hh),
       shrink = dense(w_hr), g = dense(g_output), gl = dense(g_last), glc = dense(g_last_cell);
  const RecurrentLayer of{x, h0, c0, w, b, shrink, sizes, cell, reverse};
  const Ints starts = ops::first_rows(sizes);
  auto room = [&](const Tensor& like) { return like.defined() ? ops::zeros_like(like) : Tensor(); };
  const bool apart = cell == RecurrentCell::Gru;
  Tensor gx = new_tensor(input.sizes(), input.dtype(), input.device());
  Tensor g_sums = apart ? new_tensor(input.sizes(), input.dtype(), input.device()) : gx;
  Tensor gh = room(hx), gc = room(cx);
  Tensor g_states = w_hr.defined() ? ops::zeros_like(output) : Tensor();
  if (has_memory(input) && output.numel() > 0) {
    RecurrentArgs a = ops::recurrent_args(of, starts);
    a.output = output->data, a.cells = cells->data, a.kept = kept->data;
    a.g_output = data_or_null(g), a.g_last = data_or_null(gl), a.g_last_cell = data_or_null(glc);
    a.gx = gx->data, a.g_sums = g_sums->data, a.gh0 = gh->data, a.gc0 = data_or_null(gc);
    a.g_states = data_or_null(g_states);
    recurrent_backward(a);
  }
  Tensor gw, gb, gr;
  if (wanted[3]) gw = weight_grad(of, g_sums, output, starts);
  if (wanted[4]) gb = ops::sum(g_sums, IntList{0});
  if (wanted[5]) {
    const int64_t h = of.hidden();
    Tensor wide = ops::narrow(kept, 1, 3 * h, h) * ops::tanh(cells);
    gr = ops::matmul(ops::t(g_states), wide);
  }
  return {gx, gh, gc, gw, gb, gr};
}

}  // namespace flambeau
