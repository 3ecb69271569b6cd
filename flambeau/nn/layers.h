// Layers. Parameters have the names and the shapes of torch.nn's, so that
// either side loads what the other saved; with equal seeds they start with
// equal values.
#pragma once
#include "flambeau/nn/functional.h"
#include "flambeau/nn/module.h"

namespace flambeau::nn {

using functional::Pair;

// y = x @ weight.T + bias: (*, in_features) -> (*, out_features).
class FL_API LinearImpl : public Module {
 public:
  LinearImpl(int64_t in_features, int64_t out_features, bool bias = true);
  Tensor forward(const Tensor& input) override;
  Tensor weight, bias;  // (out_features, in_features), (out_features,)
};
using Linear = Holder<LinearImpl>;

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
// (N, in_channels, H, W) -> (N, out_channels, H', W').
class FL_API Conv2dImpl : public Module {
 public:
  Conv2dImpl(int64_t in_channels, int64_t out_channels, Pair kernel_size,
             const Conv2dOptions& options = {});
  Tensor forward(const Tensor& input) override;
  Tensor weight,
      bias;  // (out_channels, in_channels / groups, kh, kw), (out_channels,)
  const Conv2dOptions options;
};
using Conv2d = Holder<Conv2dImpl>;

using functional::MaxPool2dOptions;
class FL_API MaxPool2dImpl : public Module {
 public:
  MaxPool2dImpl(Pair kernel_size, const MaxPool2dOptions& options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& input) override;
  const Pair kernel_size;
  const MaxPool2dOptions options;
};
using MaxPool2d = Holder<MaxPool2dImpl>;

struct BatchNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = true, track_running_stats = true;
};
// Each channel of (N, C, H, W) shifted and scaled to mean 0 and variance 1
// (Ioffe & Szegedy 2015).
class FL_API BatchNorm2dImpl : public Module {
 public:
  explicit BatchNorm2dImpl(int64_t num_features, const BatchNormOptions& options = {});
  Tensor forward(const Tensor& input) override;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  const BatchNormOptions options;
};
using BatchNorm2d = Holder<BatchNorm2dImpl>;

class FL_API ReLUImpl : public Module {
 public:
  Tensor forward(const Tensor& input) override;
};
using ReLU = Holder<ReLUImpl>;

// Joins the dims from `start_dim` to `end_dim`.
class FL_API FlattenImpl : public Module {
 public:
  explicit FlattenImpl(int64_t start_dim = 1, int64_t end_dim = -1)
      : start_dim(start_dim), end_dim(end_dim) {}
  Tensor forward(const Tensor& input) override;
  const int64_t start_dim, end_dim;
};
using Flatten = Holder<FlattenImpl>;

class FL_API DropoutImpl : public Module {
 public:
  explicit DropoutImpl(double p = 0.5);
  Tensor forward(const Tensor& input) override;
  const double p;
};
using Dropout = Holder<DropoutImpl>;

// Rows of weight at the indices: (*) int64 -> (*, embedding_dim). The row
// `padding_idx` starts as zeros and gets no gradient.
class FL_API EmbeddingImpl : public Module {
 public:
  EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim,
                std::optional<int64_t> padding_idx = {});
  Tensor forward(const Tensor& input) override;
  Tensor weight;  // (num_embeddings, embedding_dim)
  const std::optional<int64_t> padding_idx;
};
using Embedding = Holder<EmbeddingImpl>;

// Modules one after the other, named "0", "1" ... as in Python.
class FL_API SequentialImpl : public Module {
 public:
  SequentialImpl() = default;
  template <class... Impl>
  explicit SequentialImpl(Holder<Impl>... modules) {
    (push_back(std::move(modules)), ...);
  }
  template <class Impl>
  void push_back(Holder<Impl> module) {
    register_module(std::to_string(steps_.size()), module);
    steps_.push_back(module.ptr());
  }
  size_t size() const { return steps_.size(); }
  const std::shared_ptr<Module>& operator[](size_t i) const { return steps_.at(i); }
  Tensor forward(const Tensor& input) override;

 private:
  std::vector<std::shared_ptr<Module>> steps_;
};
using Sequential = Holder<SequentialImpl>;

}  // namespace flambeau::nn
