// Recurrent layers, one on the other, in one direction or both: the matrix product of all inputs,
// then the steps.
#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/recurrent.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

// Half types are float32 between the first input and the last results: a state is rounded at every
// step otherwise.
Tensor widened(const Tensor& t) {
  return t.defined() && is_half(t.dtype()) ? to(t, DType::Float32) : t;
}

// The arguments that all four ops share.
struct Net {
  std::string_view mode;
  TensorList params;
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t per_layer() const { return int64_t(params.size()) / (layers * directions()); }
  bool projected() const { return per_layer() == (has_biases ? 5 : 3); }

  void check(int64_t steps, TensorList hx, int64_t batch) const {
    const int64_t all = mul_sat(layers, directions()), least = has_biases ? 4 : 2;
    FL_CHECK(layers > 0 && steps > 0, RuntimeError,
             "{}: a layer and a step are needed, got {} and {}", mode, layers, steps);
    const int64_t most = mode == "lstm" ? least + 1 : least;
    const auto given = int64_t(params.size());
    FL_CHECK(given == mul_sat(all, least) || given == mul_sat(all, most), RuntimeError,
             "{}: {} layers need {} parameters each, got {}", mode, all, least, given);
    const size_t states = mode == "lstm" ? 2 : 1;
    FL_CHECK(hx.size() == states, RuntimeError, "{}: hx must hold {} tensors, got {}", mode, states,
             hx.size());
    for (const Tensor& t : hx) {
      FL_CHECK(t.ndim() == 3 && t.size(0) == all && t.size(1) == batch, RuntimeError,
               "{}: a state must have shape ({}, {}, *), got {}", mode, all, batch, t.sizes());
    }
  }

  // Of direction k of all: the output and the last states, appended to `last`.
  Tensor direction(int64_t k, const Tensor& data, IntList sizes, TensorList hx,
                   std::vector<Tensor> (&last)[2]) const {
    auto param = [&](int64_t i, bool present) {
      return present ? widened(params[size_t(k * per_layer() + i)]) : Tensor();
    };
    const Tensor w_hh = param(1, true), b_hh = param(3, has_biases);
    const Tensor w_hr = param(per_layer() - 1, projected());
    const Tensor h0 = widened(select(hx[0], 0, k));
    const Tensor c0 = hx.size() == 2 ? widened(select(hx[1], 0, k)) : Tensor();
    // Under autocast the products are of another type than the states.
    const Tensor x = to(linear(data, param(0, true), param(2, has_biases)), h0.dtype());
    const bool for_backward = recording(x, h0, c0, w_hh, b_hh, w_hr);
    auto [output, state, cell, cells, kept] = _recurrent_layer(
        x, h0, c0, w_hh, b_hh, w_hr, sizes, mode, k % directions() == 1, for_backward);
    last[0].push_back(state), last[1].push_back(cell);
    return output;
  }

  // (output, last states, last cells) of all layers over the rows of all steps.
  std::tuple<Tensor, Tensor, Tensor> run(const Tensor& input, IntList sizes, TensorList hx) const {
    Tensor data = widened(input);
    std::vector<Tensor> last[2];
    for (int64_t layer = 0; layer < layers; layer++) {
      std::vector<Tensor> outputs;
      for (int64_t d = 0; d < directions(); d++)
        outputs.push_back(direction(layer * directions() + d, data, sizes, hx, last));
      data = directions() == 1 ? outputs[0] : cat(outputs, -1);
      if (dropout > 0 && train && layer < layers - 1) data = ops::dropout(data, dropout, true);
    }
    auto joined = [&](const std::vector<Tensor>& list) {
      return to(list.size() == 1 ? unsqueeze(list[0], 0) : stack(list), hx[0].dtype());
    };
    return {to(data, hx[0].dtype()), joined(last[0]), hx.size() == 2 ? joined(last[1]) : Tensor()};
  }

  // Over (steps, batch, *), or (batch, steps, *).
  std::tuple<Tensor, Tensor, Tensor> run_padded(const Tensor& input, TensorList hx,
                                                bool batch_first) const {
    FL_CHECK(input.ndim() == 3, RuntimeError, "{}: input must have 3 dims, got shape {}", mode,
             input.sizes());
    Tensor x = batch_first ? transpose(input, 0, 1) : input;
    const int64_t steps = x.size(0), batch = x.size(1);
    check(steps, hx, batch);
    auto [data, state, cell] =
        run(reshape(x, {steps * batch, x.size(2)}), Ints(size_t(steps), batch), hx);
    data = view(data, {steps, batch, data.size(1)});
    return {batch_first ? transpose(data, 0, 1) : data, state, cell};
  }

  // Over the rows of a packed sequence.
  std::tuple<Tensor, Tensor, Tensor> run_packed(const Tensor& data, const Tensor& batch_sizes,
                                                TensorList hx) const {
    FL_CHECK(data.ndim() == 2, RuntimeError, "{}: packed data must have 2 dims, got shape {}", mode,
             data.sizes());
    FL_CHECK(batch_sizes.ndim() == 1 && batch_sizes.dtype() == DType::Int64 &&
                 has_values(batch_sizes) && batch_sizes.device().type == DeviceType::CPU,
             RuntimeError, "{}: batch_sizes must be a list of int64 on the CPU, got {} of {}", mode,
             batch_sizes.dtype(), batch_sizes.sizes());
    auto flat = dense(batch_sizes);
    const Tensor& list = flat;
    const IntList sizes(list.data<int64_t>(), size_t(list.size(0)));
    check(int64_t(sizes.size()), hx, sizes.empty() ? 0 : sizes[0]);
    return run(data, sizes, hx);
  }
};

std::tuple<Tensor, Tensor> without_cell(const std::tuple<Tensor, Tensor, Tensor>& results) {
  return {std::get<0>(results), std::get<1>(results)};
}
std::tuple<Tensor, Tensor> padded(const Net& net, const Tensor& input, const Tensor& hx,
                                  bool batch_first) {
  return without_cell(net.run_padded(input, {&hx, 1}, batch_first));
}
std::tuple<Tensor, Tensor> packed(const Net& net, const Tensor& data, const Tensor& batch_sizes,
                                  const Tensor& hx) {
  return without_cell(net.run_packed(data, batch_sizes, {&hx, 1}));
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> lstm_impl(const Tensor& input, TensorList hx, TensorList params,
                                             bool has_biases, int64_t num_layers, double dropout,
                                             bool train, bool bidirectional, bool batch_first) {
  const Net net{"lstm", params, has_biases, num_layers, dropout, train, bidirectional};
  return net.run_padded(input, hx, batch_first);
}
std::tuple<Tensor, Tensor, Tensor> lstm_impl(const Tensor& data, const Tensor& batch_sizes,
                                             TensorList hx, TensorList params, bool has_biases,
                                             int64_t num_layers, double dropout, bool train,
                                             bool bidirectional) {
  const Net net{"lstm", params, has_biases, num_layers, dropout, train, bidirectional};
  return net.run_packed(data, batch_sizes, hx);
}

std::tuple<Tensor, Tensor> gru_impl(const Tensor& input, const Tensor& hx, TensorList params,
                                    bool has_biases, int64_t num_layers, double dropout, bool train,
                                    bool bidirectional, bool batch_first) {
  return padded({"gru", params, has_biases, num_layers, dropout, train, bidirectional}, input, hx,
                batch_first);
}
std::tuple<Tensor, Tensor> gru_impl(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
                                    TensorList params, bool has_biases, int64_t num_layers,
                                    double dropout, bool train, bool bidirectional) {
  return packed({"gru", params, has_biases, num_layers, dropout, train, bidirectional}, data,
                batch_sizes, hx);
}

std::tuple<Tensor, Tensor> rnn_relu_impl(const Tensor& input, const Tensor& hx, TensorList params,
                                         bool has_biases, int64_t num_layers, double dropout,
                                         bool train, bool bidirectional, bool batch_first) {
  return padded({"rnn_relu", params, has_biases, num_layers, dropout, train, bidirectional}, input,
                hx, batch_first);
}
std::tuple<Tensor, Tensor> rnn_relu_impl(const Tensor& data, const Tensor& batch_sizes,
                                         const Tensor& hx, TensorList params, bool has_biases,
                                         int64_t num_layers, double dropout, bool train,
                                         bool bidirectional) {
  return packed({"rnn_relu", params, has_biases, num_layers, dropout, train, bidirectional}, data,
                batch_sizes, hx);
}

std::tuple<Tensor, Tensor> rnn_tanh_impl(const Tensor& input, const Tensor& hx, TensorList params,
                                         bool has_biases, int64_t num_layers, double dropout,
                                         bool train, bool bidirectional, bool batch_first) {
  return padded({"rnn_tanh", params, has_biases, num_layers, dropout, train, bidirectional}, input,
                hx, batch_first);
}
std::tuple<Tensor, Tensor> rnn_tanh_impl(const Tensor& data, const Tensor& batch_sizes,
                                         const Tensor& hx, TensorList params, bool has_biases,
                                         int64_t num_layers, double dropout, bool train,
                                         bool bidirectional) {
  return packed({"rnn_tanh", params, has_biases, num_layers, dropout, train, bidirectional}, data,
                batch_sizes, hx);
}

}  // namespace flambeau::ops
