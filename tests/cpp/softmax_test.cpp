// Softmax and its backward against plain loops in double.
#include "flambeau/kernels/cpu/softmax.h"

#include "rows_test.h"

namespace flambeau::rows_test {
namespace {

struct Shape {
  int64_t outer, n, inner;
};
constexpr Shape kShapes[] = {{1, 1, 1},    {5, 7, 1},  {3, 64, 1},  {2, 1000, 1},
                             {1, 9000, 1}, {1, 5, 3},  {2, 6, 40},  {3, 9, 600},
                             {1, 700, 70}, {2, 1, 17}, {1, 1300, 5}};

template <class F>
void each_line(const Shape& s, const F& f) {
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; ++i)
      f([=](int64_t k) { return size_t((o * s.n + k) * s.inner + i); });
  }
}

Doubles forward(const Doubles& x, const Shape& s, bool log) {
  Doubles y(x.size());
  each_line(s, [&](auto at) {
    double max = -kInf, sum = 0;
    for (int64_t k = 0; k < s.n; ++k) max = std::max(max, x[at(k)]);
    for (int64_t k = 0; k < s.n; ++k) sum += std::exp(x[at(k)] - max);
    for (int64_t k = 0; k < s.n; ++k) {
      double v = x[at(k)] - max;
      y[at(k)] = log ? v - std::log(sum) : std::exp(v) / sum;
    }
  });
  return y;
}

Doubles backward(const Doubles& g, const Doubles& y, const Shape& s, bool log) {
  Doubles gx(g.size());
  each_line(s, [&](auto at) {
    double sum = 0;
    for (int64_t k = 0; k < s.n; ++k) sum += log ? g[at(k)] : g[at(k)] * y[at(k)];
    for (int64_t k = 0; k < s.n; ++k) {
      gx[at(k)] = log ? g[at(k)] - std::exp(y[at(k)]) * sum : y[at(k)] * (g[at(k)] - sum);
    }
  });
  return gx;
}

class Softmax : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isa, Softmax, testing::Range(0, kIsas));

TEST_P(Softmax, MatchesPlainLoops) {
  for (DType t : kFloats) {
    for (const Shape& s : kShapes) {
      int64_t size = s.outer * s.n * s.inner;
      for (bool log : {false, true}) {
        Buffer x = numbers(t, size, 1, -8, 8), y(t, size), g = numbers(t, size, 2), gx(t, size);
        softmax_forward(t, x.data(), y.data(), s.outer, s.n, s.inner, log);
        Doubles want = forward(x.values(), s, log);
        expect_close(y, want, log ? 1 : is_half(t) ? 1e-3 : 1e-6);
        softmax_backward(t, g.data(), y.data(), gx.data(), s.outer, s.n, s.inner, log);
        expect_close(gx, backward(g.values(), y.values(), s, log), log ? double(s.n) : 1);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Softmax, InfinitiesAndNaN) {
  for (int64_t inner : {1, 20}) {
    for (bool log : {false, true}) {
      Doubles rows[] = {
          {1, -kInf, 2, 2}, {-kInf, -kInf, -kInf, -kInf}, {1, kInf, 0, 3}, {1, kNaN, 0, 3}};
      for (const Doubles& row : rows) {
        Buffer x(DType::Float32, 4 * inner), y(DType::Float32, 4 * inner);
        for (int64_t i = 0; i < 4 * inner; ++i) x.set(i, row[size_t(i / inner)]);
        softmax_forward(DType::Float32, x.data(), y.data(), 1, 4, inner, log);
        double max = -kInf, sum = 0;
        for (double v : row) max = max > v || std::isnan(max) ? max : v;
        for (double v : row) sum += std::exp(v - max);
        Doubles want;
        for (int64_t i = 0; i < 4 * inner; ++i) {
          double v = row[size_t(i / inner)] - max;
          want.push_back(log ? v - std::log(sum) : std::exp(v) / sum);
        }
        expect_close(y, want);
      }
    }
  }
}

TEST_P(Softmax, InPlace) {
  Buffer x = numbers(DType::Float32, 300, 5), y(DType::Float32, 300);
  softmax_forward(DType::Float32, x.data(), y.data(), 3, 100, 1, false);
  softmax_forward(DType::Float32, x.data(), x.data(), 3, 100, 1, false);
  EXPECT_EQ(x.bytes, y.bytes);
}

}  // namespace
}  // namespace flambeau::rows_test
