// Scans and embeddings against plain loops.
#include "flambeau/kernels/cpu/scan.h"

#include <array>
#include <complex>

#include "flambeau/kernels/cpu/embedding.h"
#include "rows_test.h"

namespace flambeau::rows_test {
namespace {

struct Form {
  int64_t outer, n, inner, x_outer, x_n, x_inner;
};
constexpr Form kForms[] = {{1, 1, 1, 1, 1, 1},   {3, 7, 1, 7, 1, 1},     {2, 100, 1, 300, 3, 1},
                           {1, 9, 5, 45, 5, 1},  {2, 6, 40, 240, 40, 1}, {1, 5, 600, 1, 600, 1},
                           {3, 4, 10, 1, 30, 3}, {1, 5000, 1, 1, 1, 1}};

int64_t extent(const Form& f) {
  return 1 + (f.outer - 1) * f.x_outer + (f.n - 1) * f.x_n + (f.inner - 1) * f.x_inner;
}

class Scan : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isa, Scan, testing::Range(0, kIsas));

// f(state, x, position) updates the state and returns the output.
template <class State, class F>
Doubles naive(const Form& f, const Doubles& x, State start, const F& step) {
  Doubles y(size_t(f.outer * f.n * f.inner));
  for (int64_t o = 0; o < f.outer; ++o) {
    for (int64_t i = 0; i < f.inner; ++i) {
      State s = start;
      for (int64_t k = 0; k < f.n; ++k) {
        y[size_t((o * f.n + k) * f.inner + i)] =
            step(s, x[size_t(o * f.x_outer + k * f.x_n + i * f.x_inner)], k);
      }
    }
  }
  return y;
}

struct Best {
  double value = kNaN;
  int64_t at = -1;
};
template <bool largest>
double update(Best& b, double v, int64_t k) {
  bool better = b.at < 0 || std::isnan(v) ||
                (!std::isnan(b.value) && (largest ? v >= b.value : v <= b.value));
  if (better) b = {v, k};
  return b.value;
}

TEST_P(Scan, FloatsMatchPlainLoops) {
  for (DType t : kFloats) {
    for (const Form& f : kForms) {
      Buffer x = numbers(t, extent(f), 1, -1, 1.1), y(t, f.outer * f.n * f.inner);
      Doubles v = x.values();
      auto run = [&](ScanOp op, void* indices = nullptr) {
        EXPECT_EQ(scan_result(op, t), int(t));
        scan({op, t, f.outer, f.n, f.inner, f.x_outer, f.x_n, f.x_inner, x.data(), y.data(),
              indices});
      };
      run(ScanOp::CumSum);
      expect_close(y, naive(f, v, 0.0, [](double& s, double a, int64_t) { return s += a; }));
      run(ScanOp::CumProd);
      expect_close(y, naive(f, v, 1.0, [](double& s, double a, int64_t) { return s *= a; }));
      run(ScanOp::LogCumSumExp);
      expect_close(y, naive(f, v, 0.0, [](double& s, double a, int64_t) {
                     return std::log(s += std::exp(a));
                   }));
      for (int64_t i = 2; i < x.size(); i += 17) x.set(i, i % 2 ? kNaN : x[i - 1]);
      v = x.values();
      std::vector<int64_t> at(size_t(y.size()));
      run(ScanOp::CumMax, at.data());
      expect_close(y, naive(f, v, Best(), update<true>));
      Doubles where = naive(f, v, Best(), [](Best& b, double a, int64_t k) {
        return update<true>(b, a, k), double(b.at);
      });
      EXPECT_EQ(Doubles(at.begin(), at.end()), where);
      run(ScanOp::CumMin, at.data());
      expect_close(y, naive(f, v, Best(), update<false>));
      if (HasFatalFailure()) return;
    }
  }
}

template <class T>
void check_integers() {
  DType t = kDTypeOf<T>;
  for (const Form& f : kForms) {
    std::vector<T> x(size_t(extent(f)));
    for (size_t i = 0; i < x.size(); ++i) x[i] = T(i * 7 % 11);
    std::vector<int64_t> y(size_t(f.outer * f.n * f.inner)), at(y.size());
    scan({ScanOp::CumSum, t, f.outer, f.n, f.inner, f.x_outer, f.x_n, f.x_inner, x.data(),
          y.data()});
    Doubles v(x.begin(), x.end());
    EXPECT_EQ(Doubles(y.begin(), y.end()),
              naive(f, v, 0.0, [](double& s, double a, int64_t) { return s += a; }));
    std::vector<T> best(y.size());
    scan({ScanOp::CumMax, t, f.outer, f.n, f.inner, f.x_outer, f.x_n, f.x_inner, x.data(),
          best.data(), at.data()});
    EXPECT_EQ(Doubles(best.begin(), best.end()), naive(f, v, Best(), update<true>));
  }
  EXPECT_EQ(scan_result(ScanOp::CumSum, t), int(DType::Int64));
}

TEST_P(Scan, IntegersSumInInt64) {
  check_integers<uint8_t>();
  check_integers<int8_t>();
  check_integers<int16_t>();
  check_integers<int32_t>();
  check_integers<int64_t>();
}

TEST_P(Scan, Complex) {
  std::complex<float> x[3] = {{1, 2}, {3, -1}, {0, 1}}, y[3];
  scan({ScanOp::CumProd, DType::Complex64, 1, 3, 1, 3, 1, 1, x, y});
  EXPECT_EQ(y[2], x[0] * x[1] * x[2]);
  EXPECT_EQ(scan_result(ScanOp::CumMax, DType::Complex64), -1);
}

TEST_P(Scan, LogCumSumExpOfInfinities) {
  Buffer x(DType::Float32, Doubles{-kInf, -kInf, 1, 1000, kInf, 2000, kNaN}), y(DType::Float32, 7);
  scan({ScanOp::LogCumSumExp, DType::Float32, 1, 7, 1, 7, 1, 1, x.data(), y.data()});
  expect_close(y, {-kInf, -kInf, 1, 1000, kInf, kInf, kNaN});
}

TEST_P(Scan, EmbeddingRowsAndTheirGradient) {
  for (DType t : kFloats) {
    for (auto [rows, dim, n] : {std::array<int64_t, 3>{5, 3, 9}, {100, 64, 3000}, {7, 1000, 20}}) {
      Buffer table = numbers(t, rows * dim, 1), out(t, n * dim);
      Buffer g(t, numbers(DType::BFloat16, n * dim, 2).values());
      std::vector<int64_t> indices(size_t(n), 0);
      for (int64_t i = 0; i < n; ++i) indices[size_t(i)] = i * i % (rows - 1);
      embedding_rows(table.data(), dim * itemsize(t), dim * itemsize(t), indices.data(), n,
                     out.data());
      for (bool by_frequency : {false, true}) {
        Buffer gw = numbers(t, rows * dim, 3);
        embedding_backward({t, n, rows, dim, 1, by_frequency, indices.data(), g.data(), gw.data()});
        Doubles want(size_t(rows * dim)), count(size_t(rows), 0), terms;
        for (int64_t i = 0; i < n; ++i) ++count[size_t(indices[size_t(i)])];
        for (int64_t i = 0; i < n * dim; ++i) {
          int64_t r = indices[size_t(i / dim)], c = i % dim;
          ASSERT_EQ(out[i], table[r * dim + c]);
          if (r != 1) want[size_t(r * dim + c)] += g[i] / (by_frequency ? count[size_t(r)] : 1);
        }
        expect_close(gw, want, is_half(t) ? 1 : 30);
      }
    }
  }
}

}  // namespace
}  // namespace flambeau::rows_test
