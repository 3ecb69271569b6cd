// The layers' parameters and their calls.
#include "flambeau/nn/layers.h"

#include <cmath>

#include "flambeau/generated/ops.h"
#include "flambeau/nn/init.h"

namespace flambeau::nn {
namespace {

// torch draws kaiming_uniform(a = sqrt(5)) and a bias from U(-k, k), k = 1 /
// sqrt(fan_in).
void draw(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  int64_t fan_in = init::fans_of(weight).in;
  if (!bias.defined() || fan_in == 0) return;
  double bound = 1 / std::sqrt(double(fan_in));
  init::uniform_(bias, -bound, bound);
}

}  // namespace

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, bool with_bias)
    : weight(register_parameter("weight", ops::empty({out_features, in_features}))),
      bias(register_parameter("bias", with_bias ? ops::empty({out_features}) : Tensor())) {
  draw(weight, bias);
}

Tensor LinearImpl::forward(const Tensor& input) { return ops::linear(input, weight, bias); }

Conv2dImpl::Conv2dImpl(int64_t in_channels, int64_t out_channels, Pair kernel,
                       const Conv2dOptions& o)
    : options(o) {
  FL_CHECK(o.groups > 0 && in_channels % o.groups == 0 && out_channels % o.groups == 0, ValueError,
           "Conv2d: groups must divide both channel counts, got {} for {} and {}", o.groups,
           in_channels, out_channels);
  Tensor fresh = ops::empty({out_channels, in_channels / o.groups, kernel.height, kernel.width});
  weight = register_parameter("weight", fresh);
  bias = register_parameter("bias", o.bias ? ops::empty({out_channels}) : Tensor());
  draw(weight, bias);
}

Tensor Conv2dImpl::forward(const Tensor& input) {
  const Conv2dOptions& o = options;
  return ops::conv2d(input, weight, bias, {o.stride.height, o.stride.width},
                     {o.padding.height, o.padding.width}, {o.dilation.height, o.dilation.width},
                     o.groups);
}

Tensor MaxPool2dImpl::forward(const Tensor& input) {
  return functional::max_pool2d(input, kernel_size, options);
}

BatchNorm2dImpl::BatchNorm2dImpl(int64_t num_features, const BatchNormOptions& o) : options(o) {
  if (o.affine) {
    weight = register_parameter("weight", ops::ones({num_features}));
    bias = register_parameter("bias", ops::zeros({num_features}));
  }
  if (o.track_running_stats) {
    running_mean = register_buffer("running_mean", ops::zeros({num_features}));
    running_var = register_buffer("running_var", ops::ones({num_features}));
    num_batches_tracked = register_buffer("num_batches_tracked", ops::zeros({}, DType::Int64));
  }
}

Tensor BatchNorm2dImpl::forward(const Tensor& input) {
  FL_CHECK(input.ndim() == 4, ValueError, "BatchNorm2d: the input must have 4 dims, got shape {}",
           input.sizes());
  if (is_training() && options.track_running_stats) ops::add_(num_batches_tracked, 1);
  bool own_statistics = is_training() || !options.track_running_stats;
  return ops::batch_norm(input, weight, bias, running_mean, running_var, own_statistics,
                         options.momentum, options.eps, true);
}

Tensor ReLUImpl::forward(const Tensor& input) { return ops::relu(input); }

Tensor FlattenImpl::forward(const Tensor& input) { return ops::flatten(input, start_dim, end_dim); }

DropoutImpl::DropoutImpl(double p) : p(p) {
  FL_CHECK(p >= 0 && p <= 1, ValueError, "Dropout: p must be in [0, 1], got {}", p);
}

Tensor DropoutImpl::forward(const Tensor& input) {
  return functional::dropout(input, p, is_training());
}

EmbeddingImpl::EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim,
                             std::optional<int64_t> padding)
    : padding_idx(padding ? wrap_dim("Embedding", *padding, num_embeddings) : padding) {
  weight = register_parameter("weight", ops::empty({num_embeddings, embedding_dim}));
  init::normal_(weight);
  if (padding_idx) {
    NoGradGuard no_grad;
    Tensor row = ops::select(weight, 0, *padding_idx);
    ops::zero_(row);
  }
}

Tensor EmbeddingImpl::forward(const Tensor& input) {
  return ops::embedding(weight, input, padding_idx.value_or(-1));
}

Tensor SequentialImpl::forward(const Tensor& input) {
  Tensor x = input;
  for (const auto& step : steps_) x = step->forward(x);
  return x;
}

}  // namespace flambeau::nn
