// Trains a linear model by gradient descent: y = x @ w + b, with libflambeau alone.
#include <cmath>
#include <cstdio>

#include "flambeau/flambeau.h"

using namespace flambeau;

int main() {
  default_generator().manual_seed(0);
  Tensor x = randn({256, 3});
  Tensor truth = randn({3, 1});
  Tensor y = matmul(x, truth) + 0.5;

  Tensor w = zeros({3, 1}), b = zeros({1});
  w.set_requires_grad();
  b.set_requires_grad();
  for (int step = 0; step < 200; step++) {
    Tensor error = matmul(x, w) + b - y;
    Tensor loss = mean(error * error);
    if (step % 50 == 0) std::printf("step %3d  loss %.6f\n", step, loss.item().to_double());
    loss.backward();
    NoGradGuard no_grad;
    for (Tensor* p : {&w, &b}) {
      sub_(*p, p->grad(), 0.1);
      Tensor g = p->grad();
      zero_(g);
    }
  }
  double gap = max(abs(w - truth)).item().to_double();
  std::printf("largest error of a weight %.2e, bias %.4f\n", gap, b.item().to_double());
  return gap < 1e-3 && std::abs(b.item().to_double() - 0.5) < 1e-3 ? 0 : 1;
}
