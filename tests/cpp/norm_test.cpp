// Norms against plain loops in double; their backward against central differences in double, and
// every other type against the double one.
#include "flambeau/kernels/cpu/norm.h"

#include <functional>
#include <numeric>

#include "rows_test.h"

namespace flambeau::rows_test {
namespace {

// A norm seen from above: x falls into sets that share a mean, and every element has a parameter.
struct Layout {
  int64_t size, sets, params;
  std::function<int64_t(int64_t)> set, param;
};

struct Stats {
  Doubles mean, var;
};

Stats stats(const Doubles& x, const Layout& l, bool centered) {
  Stats s{Doubles(size_t(l.sets)), Doubles(size_t(l.sets))};
  double n = double(l.size / l.sets);
  for (int64_t i = 0; i < l.size && centered; ++i) s.mean[size_t(l.set(i))] += x[size_t(i)] / n;
  for (int64_t i = 0; i < l.size; ++i) {
    double d = x[size_t(i)] - s.mean[size_t(l.set(i))];
    s.var[size_t(l.set(i))] += d * d / n;
  }
  return s;
}

Doubles normalise(const Doubles& x, const Doubles& w, const Doubles& b, const Layout& l,
                  const Stats& s, double eps) {
  Doubles y(x.size());
  for (int64_t i = 0; i < l.size; ++i) {
    size_t at = size_t(i), k = size_t(l.set(i)), p = size_t(l.param(i));
    y[at] = (x[at] - s.mean[k]) / std::sqrt(s.var[k] + eps) * w[p] + b[p];
  }
  return y;
}

// d sum(g * f(v)) / dv by central differences.
Doubles differences(const Doubles& g, Doubles v, const std::function<Doubles(const Doubles&)>& f) {
  Doubles d(v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    double kept = v[i], h = 1e-5;
    v[i] = kept + h;
    Doubles up = f(v);
    v[i] = kept - h;
    Doubles down = f(v);
    v[i] = kept;
    for (size_t k = 0; k < up.size(); ++k) d[i] += g[k] * (up[k] - down[k]) / (2 * h);
  }
  return d;
}

constexpr double kEps = 1e-3;

DType stats_type(DType t) { return t == DType::Float64 ? t : DType::Float32; }

// The buffers of one call, with inputs that a half type holds exactly so that every type sees the
// same numbers.
struct Call {
  DType t, p;
  Buffer x, w, b, g, y, mean, rstd, gx, gw, gb, running_mean, running_var;

  Call(DType dtype, DType param, const Layout& l)
      : t(dtype),
        p(param),
        x(t, numbers(DType::BFloat16, l.size, 1, -1, 3).values()),
        w(p, numbers(DType::BFloat16, l.params, 2, 0.5, 2).values()),
        b(p, numbers(DType::BFloat16, l.params, 3).values()),
        g(t, numbers(DType::BFloat16, l.size, 4).values()),
        y(t, l.size),
        mean(stats_type(t), l.sets),
        rstd(stats_type(t), l.sets),
        gx(t, l.size),
        gw(p, l.params),
        gb(p, l.params),
        running_mean(p, numbers(DType::BFloat16, l.params, 5).values()),
        running_var(p, numbers(DType::BFloat16, l.params, 6, 0.5, 2).values()) {}
};

using Run = std::function<void(Call&)>;

// Forward and backward of `run` on all types; `numeric` gives the expected gradients from first
// principles (small sizes).
void check(const Layout& l, bool centered, const Stats* fixed, const Run& run) {
  Call exact(DType::Float64, DType::Float64, l);
  run(exact);
  Stats s = fixed ? *fixed : stats(exact.x.values(), l, centered);
  Doubles x = exact.x.values(), w = exact.w.values(),
          b = centered ? exact.b.values() : Doubles(exact.b.bytes.size());
  expect_close(exact.y, normalise(x, w, b, l, s, kEps));
  if (l.size <= 300) {
    Doubles g = exact.g.values();
    auto of_x = [&](const Doubles& v) {
      return normalise(v, w, b, l, fixed ? *fixed : stats(v, l, centered), kEps);
    };
    auto of_w = [&](const Doubles& v) { return normalise(x, v, b, l, s, kEps); };
    auto of_b = [&](const Doubles& v) { return normalise(x, w, v, l, s, kEps); };
    expect_close(exact.gx, differences(g, x, of_x), 1, 1e-6);
    expect_close(exact.gw, differences(g, w, of_w), 1, 1e-6);
    if (centered) expect_close(exact.gb, differences(g, b, of_b), 1, 1e-6);
  }
  for (auto [t, p] : {std::pair{DType::Float32, DType::Float32},
                      {DType::Float16, DType::Float16},
                      {DType::Float16, DType::Float32},
                      {DType::BFloat16, DType::BFloat16},
                      {DType::BFloat16, DType::Float32}}) {
    Call call(t, p, l);
    run(call);
    expect_close(call.y, exact.y.values(), 2);
    expect_close(call.gx, exact.gx.values(), 2);
    double terms = 3 + double(l.size / l.params);
    expect_close(call.gw, exact.gw.values(), terms);
    if (centered) expect_close(call.gb, exact.gb.values(), terms);
  }
}

class Norm : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isa, Norm, testing::Range(0, kIsas));

TEST_P(Norm, LayerAndRms) {
  for (bool centered : {true, false}) {
    for (auto [rows, cols] : {std::pair{4, 5}, {1, 64}, {3, 70}, {700, 33}, {5, 9000}}) {
      int64_t n = cols;
      Layout l{rows * n, rows, n, [=](int64_t i) { return i / n; },
               [=](int64_t i) { return i % n; }};
      check(l, centered, nullptr, [&](Call& c) {
        layer_norm_forward({c.t, c.p, rows, n, centered, kEps, c.x.data(), c.w.data(),
                            centered ? c.b.data() : nullptr, c.y.data(), c.mean.data(),
                            c.rstd.data()});
        layer_norm_backward({c.t, c.p, rows, n, centered, c.g.data(), c.x.data(), c.w.data(),
                             c.mean.data(), c.rstd.data(), c.gx.data(), c.gw.data(), c.gb.data()});
      });
      if (HasFatalFailure()) return;
    }
  }
}

struct BatchShape {
  int64_t n, channels, spatial;
  bool last;
};
constexpr BatchShape kBatches[] = {{2, 3, 7, false},    {4, 5, 1, false},   {3, 20, 4, true},
                                   {40, 33, 50, false}, {30, 40, 40, true}, {700, 17, 1, false},
                                   {2, 2, 6000, false}};

Layout batch_layout(const BatchShape& s) {
  auto channel = [=](int64_t i) { return s.last ? i % s.channels : i / s.spatial % s.channels; };
  return {s.n * s.channels * s.spatial, s.channels, s.channels, channel, channel};
}

TEST_P(Norm, BatchInTraining) {
  for (const BatchShape& s : kBatches) {
    check(batch_layout(s), true, nullptr, [&](Call& c) {
      Doubles old_mean = c.running_mean.values(), old_var = c.running_var.values();
      batch_norm_train({c.t, c.p, s.n, s.channels, s.spatial, s.last, kEps, 0.25, c.x.data(),
                        c.w.data(), c.b.data(), c.y.data(), c.mean.data(), c.rstd.data(),
                        c.running_mean.data(), c.running_var.data()});
      batch_norm_backward({c.t, c.p, s.n, s.channels, s.spatial, s.last, true, c.g.data(),
                           c.x.data(), c.w.data(), c.mean.data(), c.rstd.data(), c.gx.data(),
                           c.gw.data(), c.gb.data()});
      Stats now = stats(c.x.values(), batch_layout(s), true);
      double m = double(s.n * s.spatial);
      for (size_t k = 0; k < old_mean.size(); ++k) {
        old_mean[k] = 0.75 * old_mean[k] + 0.25 * now.mean[k];
        old_var[k] = 0.75 * old_var[k] + 0.25 * now.var[k] * m / (m - 1);
      }
      expect_close(c.running_mean, old_mean);
      expect_close(c.running_var, old_var);
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(Norm, BatchInEvaluation) {
  for (const BatchShape& s : kBatches) {
    Layout l = batch_layout(s);
    Call first(DType::Float64, DType::Float64, l);
    Stats running{first.running_mean.values(), first.running_var.values()};
    check(l, true, &running, [&](Call& c) {
      batch_norm_eval({c.t, c.p, s.n, s.channels, s.spatial, s.last, kEps, 0, c.x.data(),
                       c.w.data(), c.b.data(), c.y.data(), c.mean.data(), c.rstd.data(),
                       c.running_mean.data(), c.running_var.data()});
      batch_norm_backward({c.t, c.p, s.n, s.channels, s.spatial, s.last, false, c.g.data(),
                           c.x.data(), c.w.data(), c.mean.data(), c.rstd.data(), c.gx.data(),
                           c.gw.data(), c.gb.data()});
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(Norm, Group) {
  struct {
    int64_t n, groups, channels, spatial;
  } shapes[] = {{2, 3, 2, 5}, {2, 1, 4, 1}, {3, 4, 1, 9}, {2, 8, 8, 100}, {1, 2, 3, 5000}};
  for (auto s : shapes) {
    int64_t row = s.channels * s.spatial, all = s.groups * s.channels;
    Layout l{s.n * s.groups * row, s.n * s.groups, all, [=](int64_t i) { return i / row; },
             [=](int64_t i) { return i / s.spatial % all; }};
    check(l, true, nullptr, [&](Call& c) {
      group_norm_forward({c.t, c.p, s.n, s.groups, s.channels, s.spatial, kEps, c.x.data(),
                          c.w.data(), c.b.data(), c.y.data(), c.mean.data(), c.rstd.data()});
      group_norm_backward({c.t, c.p, s.n, s.groups, s.channels, s.spatial, c.g.data(), c.x.data(),
                           c.w.data(), c.mean.data(), c.rstd.data(), c.gx.data(), c.gw.data(),
                           c.gb.data()});
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(Norm, ALargeMeanDoesNotDrownTheVariance) {
  Buffer x(DType::Float32, 4096), y(DType::Float32, 4096);
  for (int64_t i = 0; i < 4096; ++i) x.set(i, 10000 + (i % 2 ? 1 : -1));
  Buffer mean(DType::Float32, 1), rstd(DType::Float32, 1);
  layer_norm_forward({DType::Float32, DType::Float32, 1, 4096, true, 0, x.data(), nullptr, nullptr,
                      y.data(), mean.data(), rstd.data()});
  EXPECT_NEAR(rstd[0], 1, 1e-6);
  EXPECT_NEAR(y[1], 1, 1e-6);
}

TEST_P(Norm, AFirstElementFarOffDoesNotRoughenTheVariance) {
  constexpr int64_t n = 1 << 20;
  Buffer x(DType::Float32, n), y(DType::Float32, n), mean(DType::Float32, 1),
      rstd(DType::Float32, 1);
  for (int64_t i = 0; i < n; ++i) x.set(i, i == 0 ? 1000 : i % 2 ? 1 : -1);
  layer_norm_forward({DType::Float32, DType::Float32, 1, n, true, 0, x.data(), nullptr, nullptr,
                      y.data(), mean.data(), rstd.data()});
  double exact_mean = 1001.0 / n;
  double exact_var = (1e6 + n - 1) / double(n) - exact_mean * exact_mean;
  EXPECT_NEAR(rstd[0], 1 / std::sqrt(exact_var), 5e-7);
}

TEST_P(Norm, NothingOptionalIsNeeded) {
  Buffer x = numbers(DType::Float32, 60, 1), y(DType::Float32, 60), rstd(DType::Float32, 5),
         mean(DType::Float32, 5);
  LayerNormArgs args{DType::Float32, DType::Float32, 5,       12,       true,    kEps,
                     x.data(),       nullptr,        nullptr, y.data(), nullptr, nullptr};
  layer_norm_forward(args);
  Buffer bare = y;
  args.mean = mean.data(), args.rstd = rstd.data();
  layer_norm_forward(args);
  EXPECT_EQ(bare.bytes, y.bytes);
  Buffer gx(DType::Float32, 60), all(DType::Float32, 60), gw(DType::Float32, 12);
  LayerNormGrads grads{DType::Float32, DType::Float32, 5,       12,          true,
                       x.data(),       x.data(),       nullptr, mean.data(), rstd.data(),
                       gx.data(),      nullptr,        nullptr};
  layer_norm_backward(grads);
  grads.gx = all.data(), grads.gw = gw.data();
  layer_norm_backward(grads);
  EXPECT_EQ(gx.bytes, all.bytes);
}

}  // namespace
}  // namespace flambeau::rows_test
