// Poolings against plain loops: windows at every edge, both layouts, NaN, ties, half types, thread
// counts.
#include "flambeau/kernels/cpu/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "flambeau/core/threadpool.h"
#include "tests/cpp/each_isa.h"

namespace flambeau {
namespace {

double value(float x) { return x; }
double value(double x) { return x; }
double value(int64_t x) { return double(x); }
double value(BFloat16 x) { return to_float(x); }
double value(Half x) { return to_float(x); }
template <class T>
T from(double x) {
  return T(x);
}
template <>
BFloat16 from<BFloat16>(double x) {
  return to_bfloat16(float(x));
}
template <>
Half from<Half>(double x) {
  return to_half(float(x));
}

template <class T>
constexpr double kTolerance = std::is_same_v<T, double>     ? 1e-14
                              : std::is_same_v<T, float>    ? 1e-6
                              : std::is_same_v<T, Half>     ? 2e-3
                              : std::is_same_v<T, BFloat16> ? 1e-2
                                                            : 0;

int64_t volume(const int64_t (&s)[3]) { return s[0] * s[1] * s[2]; }

// Element of pixel p of a plane in memory.
size_t place(const PoolArgs& g, const int64_t (&size)[3], int64_t plane, int64_t p) {
  if (!g.channels_last) return size_t(plane * volume(size) + p);
  const int64_t image = plane / g.channels, c = plane % g.channels;
  return size_t((image * volume(size) + p) * g.channels + c);
}

struct Span {
  int64_t begin, end, step, full;
};
Span span_of(const PoolArgs& g, int d, int64_t o) {
  if (g.adaptive) {
    const int64_t begin = o * g.in[d] / g.out[d],
                  end = ((o + 1) * g.in[d] + g.out[d] - 1) / g.out[d];
    return {begin, end, 1, end - begin};
  }
  int64_t begin = o * g.stride[d] - g.pad[d];
  const int64_t end = begin + (g.kernel[d] - 1) * g.dilation[d] + 1;
  const int64_t full = std::min(end, g.in[d] + g.pad[d]) - begin;
  while (begin < 0) begin += g.dilation[d];
  return {begin, std::min(end, g.in[d]), g.dilation[d], full};
}

// Calls f(plane, output pixel, input pixels, size with padding).
template <class F>
void each_window(const PoolArgs& g, const F& f) {
  for (int64_t plane = 0; plane < g.batch * g.channels; plane++) {
    for (int64_t o = 0; o < volume(g.out); o++) {
      const Span d = span_of(g, 0, o / g.out[2] / g.out[1]),
                 h = span_of(g, 1, o / g.out[2] % g.out[1]);
      const Span w = span_of(g, 2, o % g.out[2]);
      std::vector<int64_t> elements;
      for (int64_t i = d.begin; i < d.end; i += d.step) {
        for (int64_t j = h.begin; j < h.end; j += h.step) {
          for (int64_t k = w.begin; k < w.end; k += w.step)
            elements.push_back((i * g.in[1] + j) * g.in[2] + k);
        }
      }
      f(plane, o, elements, d.full * h.full * w.full);
    }
  }
}

template <class T>
struct Tensors {
  std::vector<T> x, y, gy, gx;
  std::vector<int64_t> indices;
  Tensors(PoolArgs& g, std::mt19937& random) {
    const size_t in = size_t(g.batch * g.channels * volume(g.in)),
                 out = size_t(g.batch * g.channels * volume(g.out));
    // Few values, so that ties are common.
    for (size_t i = 0; i < in; i++) x.push_back(from<T>(double(int(random() % 9)) - 4));
    for (size_t i = 0; i < out; i++) gy.push_back(from<T>(double(int(random() % 9)) - 4));
    y = gy, gx = x;
    indices.assign(out, -7);
    g.dtype = kDTypeOf<T>;
    g.x = x.data(), g.y = y.data(), g.gy = gy.data(), g.gx = gx.data(), g.indices = indices.data();
  }
};

template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& want, const char* what) {
  int wrong = 0;
  for (size_t i = 0; i < want.size(); i++) {
    const double a = value(got[i]), b = want[i];
    if (std::isnan(a) && std::isnan(b)) continue;
    if (!(std::abs(a - b) <= kTolerance<T> * (1 + std::abs(b)))) wrong++;
  }
  EXPECT_EQ(wrong, 0) << what << " of " << want.size();
}

template <class T>
void check_max(PoolArgs g, std::mt19937 random, bool with_nan = false) {
  Tensors<T> t(g, random);
  if constexpr (std::is_floating_point_v<T>) {
    for (size_t i = 0; with_nan && i < t.x.size(); i += 5)
      t.x[i] = std::numeric_limits<T>::quiet_NaN();
  }
  std::vector<double> y(t.y.size()), gx(t.x.size());
  std::vector<int64_t> indices(t.y.size());
  each_window(g, [&](int64_t plane, int64_t o, const std::vector<int64_t>& elements, int64_t) {
    int64_t best = elements[0];
    for (int64_t p : elements) {
      const double v = value(t.x[place(g, g.in, plane, p)]);
      if (v > value(t.x[place(g, g.in, plane, best)]) || std::isnan(v)) best = p;
    }
    const size_t at = place(g, g.out, plane, o);
    y[at] = value(t.x[place(g, g.in, plane, best)]);
    indices[at] = best;
    gx[place(g, g.in, plane, best)] += value(t.gy[at]);
  });
  max_pool_forward(g);
  expect_near(t.y, y, "y");
  EXPECT_EQ(t.indices, indices);
  if constexpr (!std::is_integral_v<T>) {
    max_pool_backward(g);
    expect_near(t.gx, gx, "gx");
  }
}

template <class T>
void check_average(PoolArgs g, std::mt19937 random) {
  Tensors<T> t(g, random);
  std::vector<double> y(t.y.size()), gx(t.x.size());
  each_window(g, [&](int64_t plane, int64_t o, const std::vector<int64_t>& elements, int64_t full) {
    const double by = g.divisor ? double(g.divisor)
                                : double(g.count_include_pad ? full : int64_t(elements.size()));
    const size_t at = place(g, g.out, plane, o);
    for (int64_t p : elements) {
      y[at] += value(t.x[place(g, g.in, plane, p)]) / by;
      gx[place(g, g.in, plane, p)] += value(t.gy[at]) / by;
    }
  });
  avg_pool_forward(g);
  expect_near(t.y, y, "y");
  avg_pool_backward(g);
  expect_near(t.gx, gx, "gx");
}

std::vector<PoolArgs> cases(bool dilations) {
  std::mt19937 random(4);
  auto pick = [&](std::initializer_list<int64_t> from) {
    return from.begin()[random() % from.size()];
  };
  std::vector<PoolArgs> all;
  while (all.size() < 30) {
    PoolArgs g{};
    g.batch = pick({1, 2}), g.channels = pick({1, 3, 19});
    g.adaptive = random() % 4 == 0;
    bool fits = true;
    const int first = int(random() % 3);
    for (int d = 0; d < 3; d++) {
      g.in[d] = g.out[d] = g.kernel[d] = g.stride[d] = g.dilation[d] = 1;
      if (d < first) continue;
      g.in[d] = first == 0 ? pick({3, 5}) : pick({4, 7, 21});
      if (g.adaptive) {
        g.out[d] = pick({1, 2, 5});
        continue;
      }
      g.kernel[d] = pick({1, 2, 3, 5}), g.stride[d] = pick({1, 2, 3}),
      g.pad[d] = int64_t(random()) % (g.kernel[d] / 2 + 1);
      if (dilations) g.dilation[d] = pick({1, 1, 2});
      const int64_t span = g.in[d] + 2 * g.pad[d] - g.dilation[d] * (g.kernel[d] - 1) - 1;
      fits = fits && span >= 0;
      g.out[d] = span / g.stride[d] + 1;
      // As ceil_mode: one more window, if it starts inside the image or its left padding.
      if (random() % 2 && g.out[d] * g.stride[d] < g.in[d] + g.pad[d]) {
        const Span last = span_of(g, d, g.out[d]);
        if (last.begin < last.end) g.out[d]++;
      }
    }
    g.channels_last = random() % 2, g.count_include_pad = random() % 2;
    if (!g.adaptive && random() % 4 == 0) g.divisor = 3;
    if (fits) all.push_back(g);
  }
  return all;
}

TEST(Pool, Maximum) {
  int i = 0;
  for (const PoolArgs& g : cases(true)) {
    SCOPED_TRACE(i++);
    on_each_isa([&] {
      check_max<float>(g, std::mt19937(1));
      check_max<float>(g, std::mt19937(1), true);
      check_max<double>(g, std::mt19937(2), true);
      check_max<BFloat16>(g, std::mt19937(3));
      check_max<int64_t>(g, std::mt19937(4));
    });
  }
}

TEST(Pool, Average) {
  int i = 0;
  for (const PoolArgs& g : cases(false)) {
    SCOPED_TRACE(i++);
    on_each_isa([&] {
      check_average<float>(g, std::mt19937(1));
      check_average<double>(g, std::mt19937(2));
      check_average<Half>(g, std::mt19937(3));
    });
  }
}

TEST(Pool, MinusInfinityKeepsFirstPlace) {
  PoolArgs g{DType::Float32, 1,         1,         {1, 1, 4}, {1, 1, 2},
             {1, 1, 2},      {1, 1, 2}, {0, 0, 0}, {1, 1, 1}};
  std::mt19937 random(1);
  Tensors<float> t(g, random);
  t.x.assign(4, -std::numeric_limits<float>::infinity());
  max_pool_forward(g);
  EXPECT_EQ(t.indices, (std::vector<int64_t>{0, 2}));
  g.indices = nullptr;
  max_pool_forward(g);
  EXPECT_EQ(t.y[1], -std::numeric_limits<float>::infinity());
}

TEST(Pool, SameBitsForAnyThreadCount) {
  const int before = num_threads();
  PoolArgs g{DType::Float32, 4,         30,        {1, 40, 40}, {1, 40, 40},
             {1, 3, 3},      {1, 1, 1}, {0, 1, 1}, {1, 1, 1}};
  for (bool last : {false, true}) {
    g.channels_last = last;
    std::mt19937 random(9);
    Tensors<float> t(g, random);
    for (float& v : t.gy) v *= 0.37f;
    set_num_threads(1);
    avg_pool_forward(g), avg_pool_backward(g);
    const auto y = t.y, gx = t.gx;
    set_num_threads(2);
    avg_pool_forward(g), avg_pool_backward(g);
    EXPECT_EQ(y, t.y);
    EXPECT_EQ(gx, t.gx);
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace flambeau
