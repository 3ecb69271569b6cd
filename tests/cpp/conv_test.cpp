// Convolutions against plain loops: random shapes, strides, dilations, groups, layouts, dtypes,
// instruction sets.
#include "flambeau/kernels/cpu/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "flambeau/core/threadpool.h"
#include "tests/cpp/each_isa.h"

namespace flambeau {
namespace {

double value(float x) { return x; }
double value(double x) { return x; }
double value(int32_t x) { return x; }
double value(Half x) { return to_float(x); }
double value(BFloat16 x) { return to_float(x); }
void assign(float& out, double x) { out = float(x); }
void assign(double& out, double x) { out = x; }
void assign(int32_t& out, double x) { out = int32_t(x); }
void assign(Half& out, double x) { out = to_half(float(x)); }
void assign(BFloat16& out, double x) { out = to_bfloat16(float(x)); }

// Relative to the largest result; half types also round once.
template <class T>
constexpr double kTolerance = std::is_same_v<T, double>     ? 1e-13
                              : std::is_same_v<T, float>    ? 1e-5
                              : std::is_same_v<T, Half>     ? 1e-3
                              : std::is_same_v<T, BFloat16> ? 8e-3
                                                            : 0;

int64_t volume(const int64_t (&s)[3]) { return s[0] * s[1] * s[2]; }

int64_t place(bool last, int64_t channels, const int64_t (&size)[3], int64_t n, int64_t c,
              const int64_t (&p)[3]) {
  const int64_t at = (p[0] * size[1] + p[1]) * size[2] + p[2];
  return last ? (n * volume(size) + at) * channels + c : (n * channels + c) * volume(size) + at;
}

// Calls f(index into x, into w, into y) for each product of the convolution.
template <class F>
void each_product(const ConvArgs& g, const F& f) {
  const int64_t c_group = g.c_in / g.groups, o_group = g.c_out / g.groups;
  int64_t o[3], t[3], p[3];
  for (int64_t n = 0; n < g.batch; n++) {
    for (int64_t co = 0; co < g.c_out; co++) {
      for (int64_t at = 0; at < volume(g.out) * volume(g.kernel); at++) {
        const int64_t tap = at % volume(g.kernel), pixel = at / volume(g.kernel);
        o[2] = pixel % g.out[2], o[1] = pixel / g.out[2] % g.out[1],
        o[0] = pixel / g.out[2] / g.out[1];
        t[2] = tap % g.kernel[2], t[1] = tap / g.kernel[2] % g.kernel[1],
        t[0] = tap / g.kernel[2] / g.kernel[1];
        bool inside = true;
        for (int d = 0; d < 3; d++) {
          p[d] = o[d] * g.stride[d] + t[d] * g.dilation[d] - g.pad[d];
          inside = inside && 0 <= p[d] && p[d] < g.in[d];
        }
        if (!inside) continue;
        for (int64_t c = 0; c < c_group; c++) {
          f(place(g.channels_last, g.c_in, g.in, n, co / o_group * c_group + c, p),
            (co * c_group + c) * volume(g.kernel) + tap,
            place(g.channels_last, g.c_out, g.out, n, co, o));
        }
      }
    }
  }
}

template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& want, const char* what) {
  double scale = 1;
  for (double x : want) scale = std::max(scale, std::abs(x));
  int wrong = 0;
  for (size_t i = 0; i < want.size(); i++) {
    if (!(std::abs(value(got[i]) - want[i]) <= kTolerance<T> * scale)) wrong++;
  }
  EXPECT_EQ(wrong, 0) << what << " of " << want.size();
}

std::string describe(const ConvArgs& g) {
  std::ostringstream s;
  s << name(g.dtype) << " batch " << g.batch << " channels " << g.c_in << ">" << g.c_out
    << " groups " << g.groups << (g.channels_last ? " channels last" : "");
  for (int d = 0; d < 3; d++) {
    s << " [" << g.in[d] << ">" << g.out[d] << " k" << g.kernel[d] << " s" << g.stride[d] << " p"
      << g.pad[d] << " d" << g.dilation[d] << "]";
  }
  s << " isa v" << int(active_isa) + 2;
  return s.str();
}

template <class T>
struct Tensors {
  std::vector<T> x, w, bias, gy, y, gx, gw, gbias;

  Tensors(ConvArgs& g, std::mt19937& random) {
    auto fill = [&](int64_t count) {
      std::vector<T> data(static_cast<size_t>(count));
      for (T& v : data) assign(v, double(int(random() % 17) - 8) / (std::is_integral_v<T> ? 1 : 4));
      return data;
    };
    x = fill(g.batch * g.c_in * volume(g.in)), gy = fill(g.batch * g.c_out * volume(g.out));
    w = fill(g.c_out * (g.c_in / g.groups) * volume(g.kernel)), bias = fill(g.c_out);
    y = gy, gx = x, gw = w, gbias = bias;  // old values that must not survive
    for (auto* out : {&y, &gx, &gw, &gbias}) {
      for (T& v : *out)
        assign(v, std::is_integral_v<T> ? 77 : std::numeric_limits<double>::quiet_NaN());
    }
    g.dtype = kDTypeOf<T>;
    g.x = x.data(), g.w = w.data(), g.bias = bias.data(), g.y = y.data();
    g.gy = gy.data(), g.gx = gx.data(), g.gw = gw.data(), g.gbias = gbias.data();
  }
};

template <class T>
void check_once(ConvArgs g, std::mt19937 random) {
  Tensors<T> t(g, random);
  SCOPED_TRACE(describe(g));
  std::vector<double> y(t.y.size()), gx(t.gx.size()), gw(t.gw.size()), gbias(t.gbias.size());
  for (size_t i = 0; i < y.size(); i++) {
    const size_t c =
        g.channels_last ? i % size_t(g.c_out) : i / size_t(volume(g.out)) % size_t(g.c_out);
    y[i] = value(t.bias[c]);
    gbias[c] += value(t.gy[i]);
  }
  each_product(g, [&](int64_t xi, int64_t wi, int64_t yi) {
    const size_t a = size_t(xi), b = size_t(wi), c = size_t(yi);
    y[c] += value(t.x[a]) * value(t.w[b]);
    gx[a] += value(t.gy[c]) * value(t.w[b]);
    gw[b] += value(t.gy[c]) * value(t.x[a]);
  });
  conv_forward(g);
  conv_backward_input(g);
  conv_backward_weight(g);
  expect_near(t.y, y, "y");
  expect_near(t.gx, gx, "gx");
  expect_near(t.gw, gw, "gw");
  expect_near(t.gbias, gbias, "gbias");
}

template <class T>
void check(const ConvArgs& g, const std::mt19937& random) {
  on_each_isa([&] { check_once<T>(g, random); });
}

ConvArgs square(int64_t batch, int64_t c_in, int64_t c_out, int64_t size, int64_t kernel,
                int64_t stride = 1, int64_t pad = 0, int64_t dilation = 1, int64_t groups = 1) {
  const int64_t out = (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  return {DType::Float32,
          batch,
          c_in,
          c_out,
          groups,
          {1, size, size},
          {1, out, out},
          {1, kernel, kernel},
          {1, stride, stride},
          {0, pad, pad},
          {1, dilation, dilation}};
}

template <class T>
void check_random(int count) {
  std::mt19937 random(11);
  auto pick = [&](std::initializer_list<int64_t> from) {
    return from.begin()[random() % from.size()];
  };
  for (int i = 0; i < count; i++) {
    ConvArgs g{};
    g.groups = pick({1, 1, 2, 3});
    g.batch = pick({1, 2, 9});
    g.c_in = g.groups * pick({1, 3, 5, 17}), g.c_out = g.groups * pick({1, 2, 6, 15});
    bool empty = false;
    const int first = int(random() % 3);  // dims before it are absent
    for (int d = 0; d < 3; d++) {
      g.in[d] = g.kernel[d] = g.stride[d] = g.dilation[d] = 1;
      if (d >= first) {
        g.in[d] = pick({1, 4, 7, 19});
        g.kernel[d] = pick({1, 2, 3, 5}), g.stride[d] = pick({1, 1, 2, 3});
        g.dilation[d] = pick({1, 1, 2}), g.pad[d] = pick({0, 1, 3});
      }
      const int64_t span = g.in[d] + 2 * g.pad[d] - g.dilation[d] * (g.kernel[d] - 1) - 1;
      empty = empty || span < 0;
      g.out[d] = span / g.stride[d] + 1;
    }
    g.channels_last = random() % 2;
    if (!empty) check<T>(g, random);
  }
}

TEST(Conv, Float32) { check_random<float>(40); }
TEST(Conv, Float64) { check_random<double>(30); }
TEST(Conv, Float16) { check_random<Half>(15); }
TEST(Conv, BFloat16) { check_random<BFloat16>(15); }
TEST(Conv, Int32) { check_random<int32_t>(10); }

TEST(Conv, ManyChannelsAreSummedInParts) {
  check<float>(square(2, 120, 40, 9, 3, 1, 1), std::mt19937(1));
}
TEST(Conv, WeightOfSmallImagesAndManyChannels) {
  check<float>(square(3, 130, 150, 7, 3, 1, 1), std::mt19937(2));
}
// Rows that fill vectors badly, images that share panels, a last unit with fewer of them, and
// images that need several blocks.
template <class T>
void check_patches(int seed) {
  for (ConvArgs g : {square(9, 24, 60, 4, 3, 1, 1), square(3, 60, 70, 7, 3, 1, 1),
                     square(4, 50, 60, 9, 3, 2, 1), square(3, 140, 140, 5, 2, 1, 1, 1, 2),
                     square(2, 8, 120, 26, 3, 1, 1), square(24, 6, 40, 6, 3, 1, 0)}) {
    check<T>(g, std::mt19937(static_cast<unsigned>(seed)));
    g.channels_last = true;
    check<T>(g, std::mt19937(static_cast<unsigned>(seed)));
  }
}
TEST(Conv, PatchesOfFloats) {
  check_patches<float>(9);
  check_patches<double>(10);
}
TEST(Conv, PatchesOfHalves) {
  check_patches<Half>(11);
  check_patches<BFloat16>(12);
}

TEST(Conv, Depthwise) { check<float>(square(2, 24, 24, 20, 3, 1, 1, 1, 24), std::mt19937(3)); }
TEST(Conv, PointwiseChannelsLast) {
  ConvArgs g = square(2, 20, 30, 6, 1);
  g.channels_last = true;
  check<float>(g, std::mt19937(4));
}

TEST(Conv, WithoutBias) {
  ConvArgs g = square(1, 1, 1, 3, 2);
  std::mt19937 random(5);
  Tensors<float> t(g, random);
  g.bias = nullptr, g.gbias = nullptr;
  conv_forward(g);
  conv_backward_weight(g);
  EXPECT_EQ(t.y[0], t.x[0] * t.w[0] + t.x[1] * t.w[1] + t.x[3] * t.w[2] + t.x[4] * t.w[3]);
  EXPECT_TRUE(std::isnan(t.gbias[0]));
}

TEST(Conv, EmptyBatchClearsWeightGradient) {
  ConvArgs g = square(0, 2, 3, 4, 3);
  std::mt19937 random(6);
  Tensors<float> t(g, random);
  conv_forward(g);
  conv_backward_input(g);
  conv_backward_weight(g);
  EXPECT_EQ(t.gw, std::vector<float>(t.gw.size(), 0.f));
  EXPECT_EQ(t.gbias, std::vector<float>(3, 0.f));
}

TEST(Conv, InfinityStaysInItsWindow) {
  ConvArgs g = square(1, 1, 1, 20, 3);
  std::mt19937 random(7);
  Tensors<float> t(g, random);
  t.x[0] = std::numeric_limits<float>::infinity();
  for (float& v : t.gy) v = 1;
  conv_backward_weight(g);
  EXPECT_TRUE(std::isinf(t.gw[0]));
  for (size_t i = 1; i < 9; i++) EXPECT_TRUE(std::isfinite(t.gw[i])) << i;
}

TEST(Conv, SameBitsForAnyThreadCount) {
  const int before = num_threads();
  for (ConvArgs g : {square(20, 3, 16, 20, 3, 1, 1), square(1, 40, 70, 30, 3, 2, 1),
                     square(3, 130, 150, 7, 3, 1, 1), square(9, 60, 90, 4, 3, 1, 1)}) {
    std::mt19937 random(8);
    Tensors<float> one(g, random);
    for (auto* data : {&one.x, &one.w, &one.gy}) {
      for (float& v : *data) v *= 0.37f;
    }
    Tensors<float> two = one;
    set_num_threads(1);
    conv_forward(g), conv_backward_input(g), conv_backward_weight(g);
    g.y = two.y.data(), g.gx = two.gx.data(), g.gw = two.gw.data(), g.gbias = two.gbias.data();
    set_num_threads(2);
    conv_forward(g), conv_backward_input(g), conv_backward_weight(g);
    EXPECT_EQ(one.y, two.y) << describe(g);
    EXPECT_EQ(one.gx, two.gx) << describe(g);
    EXPECT_EQ(one.gw, two.gw) << describe(g);
    EXPECT_EQ(one.gbias, two.gbias) << describe(g);
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace flambeau
