// Optimizers and their kernels against plain loops, on every instruction set and layout.
#include "flambeau/optim/optim.h"

#include <cmath>

#include "flambeau/flambeau.h"
#include "rows_test.h"

namespace flambeau::rows_test {
namespace {

class Optim : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isa, Optim, testing::Range(0, kIsas));

// A leaf with a gradient, element i of both made from i.
Tensor leaf(IntList sizes, bool transposed = false) {
  Tensor p = new_tensor(sizes, DType::Float64);
  if (transposed) p = new_strided(sizes, Ints{1, sizes[0]}, DType::Float64);
  Tensor g = new_tensor(sizes, DType::Float64);
  for (int64_t i = 0; i < p.numel(); i++) {
    p.data<double>()[i] = 0.1 * double(i % 7) - 0.3;
    g.data<double>()[i] = 0.05 * double(i % 5) - 0.1;
  }
  p.set_requires_grad();
  meta_of(p.impl()).grad = g;
  return p;
}

TEST_P(Optim, SgdWithMomentum) {
  Tensor p = leaf({37});
  std::vector<double> x(p.data<double>(), p.data<double>() + 37), b(37);
  const double* g = p.grad().data<double>();
  optim::SGD sgd({p}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  for (int step = 0; step < 3; step++) {
    sgd.step();
    for (size_t i = 0; i < 37; i++) {
      double grad = g[i] + 0.01 * x[i];
      b[i] = step ? 0.9 * b[i] + grad : grad;
      x[i] -= 0.1 * b[i];
    }
  }
  for (size_t i = 0; i < 37; i++) EXPECT_NEAR(p.data<double>()[i], x[i], 1e-15);
  EXPECT_EQ(p->version(), 3u);
}

TEST_P(Optim, AdamWOnATransposedParameter) {
  Tensor p = leaf({5, 4}, true), plain = leaf({5, 4});
  for (int64_t i = 0; i < 5; i++)
    for (int64_t j = 0; j < 4; j++) plain.data<double>()[i * 4 + j] = p.data<double>()[i + j * 5];
  optim::AdamW a({p}, {.lr = 0.1, .weight_decay = 0.1}),
      b({plain}, {.lr = 0.1, .weight_decay = 0.1});
  for (int step = 0; step < 3; step++) {
    a.step();
    b.step();
  }
  for (int64_t i = 0; i < 5; i++)
    for (int64_t j = 0; j < 4; j++)
      EXPECT_EQ(p.data<double>()[i + j * 5], plain.data<double>()[i * 4 + j]);
}

TEST_P(Optim, ClippingScalesToTheNorm) {
  Tensor p = leaf({100});
  double sum = 0;
  for (int64_t i = 0; i < 100; i++) sum += std::pow(p.grad().data<double>()[i], 2);
  std::vector<Tensor> list{p};
  EXPECT_NEAR(optim::clip_grad_norm_(list, 0.5), std::sqrt(sum), 1e-12);
  EXPECT_NEAR(optim::clip_grad_norm_(list, 9), 0.5, 1e-5);
}

TEST_P(Optim, RefusesWhatDoesNotFit) {
  Tensor p = leaf({3});
  meta_of(p.impl()).grad = new_tensor({4}, DType::Float64);
  optim::SGD sgd({p});
  EXPECT_THROW(sgd.step(), RuntimeError);
  EXPECT_THROW(optim::SGD({}), ValueError);
}

}  // namespace
}  // namespace flambeau::rows_test
