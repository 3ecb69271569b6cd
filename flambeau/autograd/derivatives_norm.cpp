// Derivatives of normalisation. A kernel computes all three at once; a graph of the backward is
// made of plain ops.
#include "flambeau/autograd/derivatives.h"
#include "flambeau/kernels/cpu/norm.h"

namespace flambeau {

namespace {

using Three = std::tuple<Tensor, Tensor, Tensor>;

// The gradients of (input, weight, bias) that somebody wants, and what every norm's kernel is told
// in the same way.
struct Wanted {
  Tensor gx, gw, gb;
  DType param_dtype;

  Wanted(std::array<bool, 3> wanted, const Tensor& x, IntList param_sizes, DType param_dtype)
      : param_dtype(param_dtype) {
    if (wanted[0]) gx = new_tensor(x.sizes(), x.dtype(), x.device());
    if (wanted[1]) gw = new_tensor(param_sizes, param_dtype, x.device());
    if (wanted[2]) gb = new_tensor(param_sizes, param_dtype, x.device());
  }
  template <class Args>
  void set(Args& a, const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
           const Tensor& rstd) const {
    a.dtype = x.dtype();
    a.param_dtype = param_dtype;
    a.g = g->data;
    a.x = x->data;
    a.weight = data_or_null(weight);
    a.mean = mean->data;
    a.rstd = rstd->data;
    a.gx = data_or_null(gx);
    a.gw = data_or_null(gw);
    a.gb = data_or_null(gb);
  }
  Three all() const { return {gx, gw, gb}; }
};

// dx = rstd * (h - mean(h) - xhat * mean(h * xhat)) over `dims`, where h = g * weight; both means
// are zero terms where the statistics are constants or (RMS) the mean is none.
Tensor input_grad(const Tensor& h, const Tensor& xhat, const Tensor& rstd, IntList dims,
                  bool centered) {
  Tensor inner = h - xhat * ops::mean(h * xhat, dims, true);
  if (centered) inner = inner - ops::mean(h, dims, true);
  return inner * rstd;
}

Tensor scaled(const Tensor& g, const Tensor& weight) { return weight.defined() ? g * weight : g; }

// Over all dims but the channels'.
Ints channel_dims(const Tensor& x) {
  Ints dims{0};
  for (int64_t d = 2; d < x.ndim(); d++) dims.push_back(d);
  return dims;
}

Tensor as_channels(const Tensor& t, int64_t ndim) {
  if (!t.defined()) return t;
  Ints sizes(static_cast<size_t>(ndim), 1);
  sizes[1] = t.numel();
  return ops::reshape(t, sizes);
}

}  // namespace

Three layer_norm_grads(const Tensor& g, const Tensor& input, IntList normalized_shape,
                       const Tensor& weight, const Tensor& mean, const Tensor& rstd, double eps,
                       bool centered, std::array<bool, 3> wanted) {
  int64_t n = int64_t(normalized_shape.size()), outer = input.ndim() - n;
  if (tls.grad) {
    Ints last, first;
    for (int64_t d = 0; d < input.ndim(); d++) (d < outer ? first : last).push_back(d);
    Tensor center = centered ? ops::mean(input, IntList(last), true) : Tensor();
    Tensor moved = centered ? input - center : input;
    Tensor scale = ops::rsqrt(ops::mean(moved * moved, IntList(last), true) + Scalar(eps));
    Tensor xhat = moved * scale;
    Tensor gx = wanted[0] ? input_grad(scaled(g, weight), xhat, scale, last, centered) : Tensor();
    Tensor gw =
        wanted[1] ? (first.empty() ? g * xhat : ops::sum(g * xhat, IntList(first))) : Tensor();
    Tensor gb = wanted[2] ? (first.empty() ? g : ops::sum(g, IntList(first))) : Tensor();
    return {gx, gw, gb};
  }
  Tensor gd = dense(g), x = dense(input), w = dense(weight);
  DType param = weight.defined() ? weight.dtype() : x.dtype();
  Wanted wanted_grads(wanted, x, normalized_shape, param);
  LayerNormGrads a{};
  a.rows = mean.numel();
  a.cols = numel_of(normalized_shape);
  a.centered = centered;
  wanted_grads.set(a, gd, x, w, mean, rstd);
  if (has_memory(x)) layer_norm_backward(a);
  return wanted_grads.all();
}

Three batch_norm_grads(const Tensor& g, const Tensor& input, const Tensor& weight,
                       const Tensor& mean, const Tensor& rstd, bool training, double eps,
                       std::array<bool, 3> wanted) {
  if (tls.grad) {
    Ints dims = channel_dims(input);
    IntList over(dims);
    auto constant = [&](const Tensor& t) { return as_channels(ops::detach(t), input.ndim()); };
    Tensor moved = input - (training ? ops::mean(input, over, true) : constant(mean));
    Tensor scale =
        training ? ops::rsqrt(ops::mean(moved * moved, over, true) + Scalar(eps)) : constant(rstd);
    Tensor xhat = moved * scale;
    Tensor h = scaled(g, as_channels(weight, input.ndim()));
    Tensor gx = !wanted[0] ? Tensor()
                : training ? input_grad(h, xhat, scale, over, true)
                           : h * scale;
    return {gx, wanted[1] ? ops::sum(g * xhat, over) : Tensor(),
            wanted[2] ? ops::sum(g, over) : Tensor()};
  }
  Tensor gd = dense(g), x = dense(input), w = dense(weight);
  DType param_dtype = weight.defined() ? weight.dtype() : x.dtype();
  Wanted wanted_grads(wanted, x, {x.size(1)}, param_dtype);
  BatchNormGrads a{};
  a.n = x.size(0);
  a.channels = x.size(1);
  a.spatial = numel_of(IntList(x->sizes + 2, size_t(x.ndim() - 2)));
  a.train = training;
  wanted_grads.set(a, gd, x, w, mean, rstd);
  if (has_memory(x)) batch_norm_backward(a);
  return wanted_grads.all();
}

Three group_norm_grads(const Tensor& g, const Tensor& input, const Tensor& weight,
                       const Tensor& mean, const Tensor& rstd, int64_t groups,
                       std::array<bool, 3> wanted) {
  if (tls.grad) {
    int64_t n = input.size(0);
    int64_t pixels = numel_of(IntList(input->sizes + 2, size_t(input.ndim() - 2)));
    Tensor x = ops::reshape(input, {n, groups, input.size(1) / groups * pixels});
    Tensor moved = x - ops::mean(x, IntList{2}, true);
    Tensor var = ops::mean(moved * moved, IntList{2}, true);
    // eps is the same that forward used: 1 / rstd^2 - var of the forward values.
    Tensor eps =
        ops::detach(ops::reshape(ops::reciprocal(rstd * rstd), {n, groups, 1})) - ops::detach(var);
    Tensor scale = ops::rsqrt(var + eps), xhat = moved * scale;
    Tensor h = ops::reshape(scaled(g, as_channels(weight, input.ndim())), x.sizes());
    Tensor gx = wanted[0]
                    ? ops::reshape(input_grad(h, xhat, scale, IntList{2}, true), input.sizes())
                    : Tensor();
    Ints dims = channel_dims(input);
    Tensor gw =
        wanted[1] ? ops::sum(g * ops::reshape(xhat, input.sizes()), IntList(dims)) : Tensor();
    return {gx, gw, wanted[2] ? ops::sum(g, IntList(dims)) : Tensor()};
  }
  Tensor gd = dense(g), x = dense(input), w = dense(weight);
  DType param = weight.defined() ? weight.dtype() : x.dtype();
  Wanted wanted_grads(wanted, x, {x.size(1)}, param);
  GroupNormGrads a{};
  a.n = x.size(0);
  a.groups = groups;
  a.channels = x.size(1) / groups;
  a.spatial = numel_of(IntList(x->sizes + 2, size_t(x.ndim() - 2)));
  wanted_grads.set(a, gd, x, w, mean, rstd);
  if (has_memory(x)) group_norm_backward(a);
  return wanted_grads.all();
}

}  // namespace flambeau
