// Trains a linear model by gradient descent: y = x @ w + b, with libflambeau alone.
#include <cmath>
#include <cstdio>

#include "flambeau/flambeau.h"

using namespace flambeau;

int main() {
  manual_seed(0);
  Tensor x = randn({256, 3});
  Tensor truth = randn({3, 1});
  Tensor y = x.matmul(truth) + 0.5;

  Tensor w = zeros({3, 1}, {.requires_grad = true}), b = zeros({1}, {.requires_grad = true});
  for (int step = 0; step < 200; step++) {
    Tensor error = x.matmul(w) + b - y;
    Tensor loss = error.square().mean();
    if (step % 50 == 0) std::printf("step %3d  loss %.6f\n", step, loss.item<double>());
    loss.backward();
    NoGradGuard no_grad;
    for (const Tensor& p : {w, b}) {
      p.sub_(0.1 * p.grad());
      p.grad().zero_();
    }
  }
  double gap = (w - truth).abs().max().item<double>(), bias = b.item<double>();
  std::printf("largest error of a weight %.2e, bias %.4f\n", gap, bias);
  return gap < 1e-3 && std::abs(bias - 0.5) < 1e-3 ? 0 : 1;
}
