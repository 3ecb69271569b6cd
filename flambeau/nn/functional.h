// Functions of layers and losses that are more than an operator's name.
// Everything else (relu, softmax, conv2d ...) is the operator itself:
// flambeau::relu(x), x.softmax(1).
#pragma once
#include "flambeau/core/tensor.h"

namespace flambeau::nn::functional {

// How a loss becomes one number, numbered as the operators do.
enum class Reduction : int64_t { None, Mean, Sum };

// One size for height and width, or one each: 3 or {3, 5}.
struct Pair {
  int64_t height, width;
  Pair(int64_t both) : height(both), width(both) {}
  Pair(int64_t height, int64_t width) : height(height), width(width) {}
  bool operator==(const Pair&) const = default;
};

// -log softmax(input)[target] over classes: (N, C, *) and (N, *) indices or (N,
// C, *) odds.
struct CrossEntropyOptions {
  Tensor weight;
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::Mean;
  double label_smoothing = 0;
};
FL_API Tensor cross_entropy(const Tensor& input, const Tensor& target,
                            const CrossEntropyOptions& options = {});

// -input[target] over classes: (N, C, *) log-probabilities and (N, *) indices.
struct NllOptions {
  Tensor weight;
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::Mean;
};
FL_API Tensor nll_loss(const Tensor& input, const Tensor& target, const NllOptions& options = {});

FL_API Tensor mse_loss(const Tensor& input, const Tensor& target,
                       Reduction reduction = Reduction::Mean);
FL_API Tensor l1_loss(const Tensor& input, const Tensor& target,
                      Reduction reduction = Reduction::Mean);

// Maxima of windows; `stride` is the window's size unless given.
struct MaxPool2dOptions {
  std::optional<Pair> stride = {};
  Pair padding = 0, dilation = 1;
  bool ceil_mode = false;
};
FL_API Tensor max_pool2d(const Tensor& input, Pair kernel_size,
                         const MaxPool2dOptions& options = {});
// Zeroes elements with probability p and scales the rest by 1 / (1 - p).
FL_API Tensor dropout(const Tensor& input, double p = 0.5, bool training = true);

}  // namespace flambeau::nn::functional
