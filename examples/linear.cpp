// Fits a linear model to noisy data with libflambeau alone: forward, backward and an update by
// hand.
#include <cstdio>

#include "flambeau/flambeau.h"

using flambeau::Tensor;

int main() {
  flambeau::manual_seed(0);
  Tensor true_weight = flambeau::randn({3, 1});
  Tensor x = flambeau::randn({256, 3});
  Tensor y = x.matmul(true_weight) + 0.5 + flambeau::randn({256, 1}) * 0.01;

  Tensor weight = flambeau::zeros({3, 1}).requires_grad_();
  Tensor bias = flambeau::zeros({1}).requires_grad_();
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    Tensor loss = (x.matmul(weight) + bias - y).pow(2).mean();
    loss.backward();
    last = loss.item().to_double();
    flambeau::NoGradGuard no_grad;
    for (Tensor* parameter : {&weight, &bias}) {
      parameter->sub_(parameter->grad() * 0.1);
      parameter->grad().zero_();
    }
  }

  double error = (weight - true_weight).abs().max().item().to_double();
  std::printf("loss %.6f, bias %.3f, largest error of a weight %.4f\n", last,
              bias.item().to_double(), error);
  return last < 1e-3 && error < 0.01 ? 0 : 1;
}
