// Losses over classes against plain loops in double; backward against central differences.
#include "flambeau/kernels/cpu/loss.h"

#include <functional>

#include "flambeau/core/threadpool.h"
#include "rows_test.h"

namespace flambeau::rows_test {
namespace {

struct Case {
  int64_t n, classes, spatial;
  bool weighted;
  double smoothing;
};
constexpr Case kCases[] = {{5, 7, 1, false, 0},    {6, 40, 1, true, 0},    {4, 9, 1, true, 0.2},
                           {3, 5, 6, false, 0.1},  {2, 33, 20, true, 0},   {2, 4, 300, true, 0.3},
                           {1, 1000, 1, false, 0}, {3000, 3, 1, false, 0}, {2, 6, 3, true, 0.0}};
constexpr int64_t kIgnored = -100;

std::vector<int64_t> targets(const Case& c) {
  std::vector<int64_t> t(size_t(c.n * c.spatial));
  uint64_t seed = 9;
  for (int64_t& v : t) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v = seed >> 61 == 0 ? kIgnored : int64_t((seed >> 33) % uint64_t(c.classes));
  }
  return t;
}

struct Result {
  Doubles loss;
  double total_weight = 0;
};

// Cross entropy of logits, or with `log_probabilities` what nll_loss does.
Result naive(const Case& c, const Doubles& x, const std::vector<int64_t>& t, const Doubles& w,
             LossReduction reduction, bool log_probabilities) {
  Result r;
  double sum = 0;
  for (int64_t i = 0; i < c.n * c.spatial; ++i) {
    auto at = [&](int64_t k) {
      return x[size_t((i / c.spatial * c.classes + k) * c.spatial + i % c.spatial)];
    };
    double lse = 0, value = 0;
    for (int64_t k = 0; k < c.classes; ++k) lse += std::exp(at(k));
    lse = log_probabilities ? 0 : std::log(lse);
    int64_t target = t[size_t(i)];
    if (target != kIgnored) {
      value = (1 - c.smoothing) * w[size_t(target)] * (lse - at(target));
      for (int64_t k = 0; k < c.classes && c.smoothing > 0; ++k) {
        value += c.smoothing / double(c.classes) * w[size_t(k)] * (lse - at(k));
      }
      r.total_weight += w[size_t(target)];
    }
    sum += value;
    r.loss.push_back(value);
  }
  if (reduction == LossReduction::Mean) r.loss = {sum / r.total_weight};
  if (reduction == LossReduction::Sum) r.loss = {sum};
  return r;
}

Doubles differences(const Doubles& g, Doubles x, const std::function<Doubles(const Doubles&)>& f) {
  Doubles d(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    double kept = x[i], h = 1e-5;
    x[i] = kept + h;
    Doubles up = f(x);
    x[i] = kept - h;
    Doubles down = f(x);
    x[i] = kept;
    for (size_t k = 0; k < up.size(); ++k) d[i] += g[k] * (up[k] - down[k]) / (2 * h);
  }
  return d;
}

class Loss : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isa, Loss, testing::Range(0, kIsas));

template <class F>
void each_call(const F& f) {
  for (const Case& c : kCases) {
    for (auto reduction : {LossReduction::None, LossReduction::Mean, LossReduction::Sum}) {
      for (DType t : {DType::Float64, DType::Float32, DType::BFloat16, DType::Float16}) {
        f(c, reduction, t);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Loss, CrossEntropy) {
  Doubles exact_gx;
  each_call([&](const Case& c, LossReduction reduction, DType t) {
    int64_t size = c.n * c.classes * c.spatial, count = c.n * c.spatial;
    DType saved = t == DType::Float64 ? t : DType::Float32;
    Buffer x(t, numbers(DType::BFloat16, size, 1).values()), gx(t, size);
    Buffer w(t, numbers(DType::BFloat16, c.classes, 2, 0.5, 2).values());
    std::vector<int64_t> target = targets(c);
    Buffer loss(t, reduction == LossReduction::None ? count : 1), lse(saved, count),
        total(saved, 1);
    Buffer g(t, numbers(DType::BFloat16, loss.size(), 3).values());
    ClassShape s{t,        c.n,       c.classes,     c.spatial,
                 kIgnored, reduction, target.data(), c.weighted ? w.data() : nullptr};
    cross_entropy_forward(s, c.smoothing, x.data(), loss.data(), lse.data(), total.data());
    Doubles weights = c.weighted ? w.values() : Doubles(size_t(c.classes), 1);
    Result want = naive(c, x.values(), target, weights, reduction, false);
    expect_close(loss, want.loss);
    EXPECT_NEAR(total[0], want.total_weight, 1e-5 * want.total_weight);
    cross_entropy_backward(s, c.smoothing, g.data(), x.data(), lse.data(), total.data(), gx.data());
    if (t == DType::Float64) {
      exact_gx = gx.values();
      if (size > 300) return;
      auto f = [&](const Doubles& v) {
        return naive(c, v, target, weights, reduction, false).loss;
      };
      expect_close(gx, differences(g.values(), x.values(), f), 1, 1e-6);
    } else {
      expect_close(gx, exact_gx, is_half(t) ? 1e-2 : 1);
    }
  });
}

TEST_P(Loss, NegativeLogLikelihood) {
  each_call([&](const Case& c, LossReduction reduction, DType t) {
    if (c.smoothing > 0) return;
    int64_t size = c.n * c.classes * c.spatial, count = c.n * c.spatial;
    Buffer x = numbers(t, size, 1), w = numbers(t, c.classes, 2, 0.5, 2), gx(t, size), total(t, 1);
    std::vector<int64_t> target = targets(c);
    Buffer loss(t, reduction == LossReduction::None ? count : 1);
    Buffer g = numbers(t, loss.size(), 3);
    ClassShape s{t,        c.n,       c.classes,     c.spatial,
                 kIgnored, reduction, target.data(), c.weighted ? w.data() : nullptr};
    nll_loss_forward(s, x.data(), loss.data(), total.data());
    Doubles weights = c.weighted ? w.values() : Doubles(size_t(c.classes), 1);
    expect_close(loss, naive(c, x.values(), target, weights, reduction, true).loss);
    nll_loss_backward(s, g.data(), total.data(), gx.data());
    if (size > 300) return;
    auto f = [&](const Doubles& v) { return naive(c, v, target, weights, reduction, true).loss; };
    expect_close(gx, differences(g.values(), x.values(), f), 1, is_half(t) ? 0 : 2e-6);
  });
}

TEST_P(Loss, NothingCountedIsNaNAndItsGradientZero) {
  Buffer x = numbers(DType::Float32, 12, 1), gx = numbers(DType::Float32, 12, 2);
  std::vector<int64_t> target(3, kIgnored);
  Buffer loss(DType::Float32, 1), lse(DType::Float32, 3), total(DType::Float32, 1),
      g(DType::Float32, Doubles{1});
  ClassShape s{DType::Float32, 3, 4, 1, kIgnored, LossReduction::Mean, target.data(), nullptr};
  cross_entropy_forward(s, 0, x.data(), loss.data(), lse.data(), total.data());
  EXPECT_TRUE(std::isnan(loss[0]));
  cross_entropy_backward(s, 0, g.data(), x.data(), lse.data(), total.data(), gx.data());
  expect_close(gx, Doubles(12, 0));
}

TEST_P(Loss, FindsTheFirstValueOutOfRange) {
  std::vector<int64_t> v(3000, 5);
  EXPECT_EQ(first_out_of_range(v.data(), 3000, 0, 6, -100), -1);
  v[2999] = 6;
  EXPECT_EQ(first_out_of_range(v.data(), 3000, 0, 6, -100), 2999);
  v[700] = -1;
  v[1] = -100;
  EXPECT_EQ(first_out_of_range(v.data(), 3000, 0, 6, -100), 700);
  EXPECT_EQ(first_out_of_range(v.data(), 3000, 0, 6, 0), 1);
  EXPECT_EQ(first_out_of_range(v.data(), 0, 0, 6, 0), -1);
}

}  // namespace
}  // namespace flambeau::rows_test
