// Matrix products against plain loops, over sizes around every tile edge, strides, dtypes and
// thread counts.
#include "flambeau/kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/pair_unit.h"
#include "tests/cpp/each_isa.h"

namespace flambeau {
namespace {

template <class T>
struct Wide {
  using type = double;
};
template <>
struct Wide<int32_t> {
  using type = int64_t;
};
template <>
struct Wide<int8_t> {
  using type = int64_t;
};
template <>
struct Wide<uint8_t> {
  using type = int64_t;
};
template <>
struct Wide<int64_t> {
  using type = int64_t;
};
template <>
struct Wide<std::complex<float>> {
  using type = std::complex<double>;
};

template <class T>
auto widen(T x) {
  return typename Wide<T>::type(x);
}
double widen(Half x) { return to_float(x); }
double widen(BFloat16 x) { return to_float(x); }

template <class T>
T narrow(double x) {
  return T(x);
}
template <>
Half narrow<Half>(double x) {
  return to_half(float(x));
}
template <>
BFloat16 narrow<BFloat16>(double x) {
  return to_bfloat16(float(x));
}

// Error allowed on sums of k products of numbers up to 4, and one rounding of the result.
template <class T>
double tolerance(int64_t k) {
  const double unit = std::is_same_v<T, double>     ? 1e-15
                      : std::is_same_v<T, Half>     ? 1e-3
                      : std::is_same_v<T, BFloat16> ? 8e-3
                                                    : 5e-7;
  return std::is_integral_v<T> ? 0 : unit * 40 * std::sqrt(double(k) + 1);
}

template <class T>
struct Matrix {
  std::vector<T> data;
  int64_t row, col;
};

struct Layout {
  bool transposed = false;
  int64_t gap = 1;  // element stride of the inner dimension
};

template <class T>
Matrix<T> random_matrix(std::mt19937& random, int64_t rows, int64_t cols, Layout layout) {
  Matrix<T> x;
  const int64_t inner = layout.transposed ? rows : cols, outer = layout.transposed ? cols : rows;
  const int64_t pitch = inner * layout.gap + 3;
  x.row = layout.transposed ? layout.gap : pitch;
  x.col = layout.transposed ? pitch : layout.gap;
  x.data.resize(size_t(outer * pitch + 1));
  for (T& value : x.data)
    value = narrow<T>(double(int(random() % 33) - 16) / (std::is_integral_v<T> ? 1 : 4));
  return x;
}

struct Case {
  int64_t m, n, k;
  Layout a = {}, b = {};
  double alpha = 1, beta = 0;
  bool bias = false;
  int activation = 0;
  bool rounded = false;
};

template <class T>
std::vector<T> product(const Case& x, const Matrix<T>& a, const Matrix<T>& b, std::vector<T> c,
                       const T* bias) {
  GemmArgs g{kDTypeOf<T>, x.m,           x.n,   x.k,          a.data.data(), a.row,
             a.col,       b.data.data(), b.row, b.col,        c.data(),      x.n,
             x.alpha,     x.beta,        bias,  x.activation, x.rounded};
  gemm(g);
  return c;
}

template <class T>
void check_once(const Case& x) {
  SCOPED_TRACE(testing::Message() << name(kDTypeOf<T>) << " " << x.m << "x" << x.n << "x" << x.k
                                  << " alpha " << x.alpha << " beta " << x.beta << " bias "
                                  << x.bias);
  std::mt19937 random(7);
  auto a = random_matrix<T>(random, x.m, x.k, x.a);
  auto b = random_matrix<T>(random, x.k, x.n, x.b);
  auto before = random_matrix<T>(random, x.m, x.n, {}).data;
  auto bias = random_matrix<T>(random, 1, x.n, {}).data;
  before.resize(size_t(x.m * x.n));
  if (x.beta == 0 && std::is_floating_point_v<T>) {
    for (T& value : before) value = std::numeric_limits<T>::quiet_NaN();
  }
  const auto c = product(x, a, b, before, x.bias ? bias.data() : nullptr);
  using W = decltype(widen(T{}));
  int wrong = 0;
  for (int64_t i = 0; i < x.m; i++) {
    for (int64_t j = 0; j < x.n; j++) {
      W sum = {};
      for (int64_t p = 0; p < x.k; p++) {
        sum += widen(a.data[size_t(i * a.row + p * a.col)]) *
               widen(b.data[size_t(p * b.row + j * b.col)]);
      }
      sum *= W(x.alpha);
      if (x.beta != 0) sum += W(x.beta) * widen(before[size_t(i * x.n + j)]);
      if (x.bias) sum += widen(bias[size_t(j)]);
      if (std::is_integral_v<T>) sum = widen(T(std::real(sum)));  // wraps
      if constexpr (!std::is_same_v<W, std::complex<double>>) {
        if (x.activation == 1 && sum < 0) sum = 0;
      }
      const double error = std::abs(widen(c[size_t(i * x.n + j)]) - sum);
      const double scale =
          std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ? 1 + std::abs(sum) : 1;
      if (!(error <= tolerance<T>(x.k) * scale)) wrong++;
    }
  }
  EXPECT_EQ(wrong, 0);
}

// On every instruction set that this machine has.
template <class T>
void check(const Case& x) {
  on_each_isa([&] { check_once<T>(x); });
}

template <class T>
void check_all(bool activations) {
  const int64_t sizes[] = {1, 2, 3, 5, 13, 14, 16, 17, 31, 33, 70, 130};
  std::mt19937 random(3);
  auto pick = [&] { return sizes[random() % 12]; };
  for (int i = 0; i < 60; i++) {
    Case x{pick(), pick(), pick()};
    x.a.transposed = random() % 2, x.b.transposed = random() % 2;
    if (random() % 5 == 0) x.a.gap = 2;
    if (random() % 5 == 0) x.b.gap = 3;
    if (random() % 3 == 0) x.alpha = 2;
    if (random() % 3 == 0) x.beta = random() % 2 ? 1 : -3;
    x.bias = random() % 3 == 0;
    x.activation = activations && random() % 3 == 0;
    check<T>(x);
  }
}

TEST(Gemm, Float32) {
  check_all<float>(true);
  for (bool turned : {false, true}) {
    check<float>({130, 600, 900, {turned}, {!turned}, 1, 1, true, 1});  // several depths and blocks
    check<float>({150, 140, 130, {turned}, {turned}});
    check<float>({1, 5000, 300, {}, {turned}, 2, 1, true});
    check<float>({700, 1, 300, {turned}, {}, 1, 0, true});
    check<float>({5, 520, 2100, {}, {turned}});
  }
}
TEST(Gemm, Float64) {
  check_all<double>(true);
  check<double>({130, 300, 500, {}, {true}, 1, 1, true, 1});
}
TEST(Gemm, Float16) { check_all<Half>(true); }
TEST(Gemm, BFloat16) {
  check_all<BFloat16>(true);
  check<BFloat16>({1100, 20, 900, {}, {true}, 1, 1, true});
}
// By vectors, then by tiles, where the processor has them.
TEST(Gemm, PairsOfBFloat16) {
  const PairUnit best = pair_unit();
  for (PairUnit unit : {PairUnit::Vector, PairUnit::Tile}) {
    if (unit > best) break;
    set_pair_unit(unit);
    for (bool a_turned : {false, true}) {
      for (bool b_turned : {false, true}) {
        check<BFloat16>({70, 90, 130, {a_turned}, {b_turned}});
        check<BFloat16>({5, 300, 200, {a_turned}, {b_turned}, 2, 1, true, 1});
        check<BFloat16>({520, 33, 47, {a_turned}, {b_turned}, 1, -3, true});
      }
    }
    check<BFloat16>({64, 96, 64, {false, 2}, {true, 3}});
    // Floats of few bits lose none.
    check<float>({70, 90, 130, {}, {true}, 2, 1, true, 1, true});
    check<float>({70, 91, 130, {true}, {}, 1, 0, false, 0, true});
    check<float>({64, 96, 64, {false, 2}, {true, 3}, 1, 0, false, 0, true});
    check<BFloat16>({40, 70, 4200, {}, {true}, 1, 1, true, 1});  // k in parts
    check<BFloat16>({2100, 1050, 40});                           // rows and columns in parts
  }
  set_pair_unit(best);
}

TEST(Gemm, Int8Wraps) { check_all<int8_t>(true); }
TEST(Gemm, UInt8Wraps) { check_all<uint8_t>(false); }
TEST(Gemm, Int32) { check_all<int32_t>(true); }
TEST(Gemm, Int64) { check_all<int64_t>(true); }
TEST(Gemm, Complex64) { check_all<std::complex<float>>(false); }

TEST(Gemm, EmptySumLeavesBetaCPlusBias) {
  std::vector<float> c = {1, 2, 3, 4}, bias = {10, -20};
  gemm({DType::Float32, 2, 2, 0, nullptr, 0, 1, nullptr, 2, 1, c.data(), 2, 1, 2, bias.data(), 1});
  EXPECT_EQ(c, (std::vector<float>{12, 0, 16, 0}));
  gemm({DType::Float32, 0, 2, 3, nullptr, 3, 1, nullptr, 2, 1, nullptr, 2});
}

TEST(Gemm, ReluKeepsNaN) {
  std::vector<float> a(64, std::nanf("")), c(64);
  gemm({DType::Float32, 8, 8, 8, a.data(), 8, 1, a.data(), 8, 1, c.data(), 8, 1, 0, nullptr, 1});
  for (float x : c) EXPECT_TRUE(std::isnan(x));
}

template <class T>
void check_threads() {
  for (Case x : {Case{200, 700, 500}, Case{13, 3000, 700}, Case{1, 9000, 100}, Case{900, 1, 900},
                 Case{7, 2000, 600, {}, {true}}}) {
    std::mt19937 random(1);
    auto a = random_matrix<T>(random, x.m, x.k, x.a);
    auto b = random_matrix<T>(random, x.k, x.n, x.b);
    for (T& value : a.data) value = narrow<T>(double(widen(value)) * 0.37);
    std::vector<T> c(size_t(x.m * x.n));
    set_num_threads(1);
    const auto one = product<T>(x, a, b, c, nullptr);
    set_num_threads(2);
    const auto two = product<T>(x, a, b, c, nullptr);
    EXPECT_EQ(std::memcmp(one.data(), two.data(), one.size() * sizeof(T)), 0)
        << name(kDTypeOf<T>) << " " << x.m << "x" << x.n << "x" << x.k;
  }
}
TEST(Gemm, SameBitsForAnyThreadCount) {
  const int before = num_threads();
  check_threads<float>();
  check_threads<BFloat16>();
  set_num_threads(before);
}

// One dot product: lanes of 64 bytes, steps of four, two and one lane groups, folded half on half
// and neighbour on neighbour at the end.
template <class T>
T dot_in_order(const std::vector<T>& a, const std::vector<T>& b) {
  constexpr size_t width = 64 / sizeof(T);
  T sums[4][width] = {};
  const size_t n = a.size();
  for (size_t p = 0; p < n;) {
    const size_t together = n - p >= 4 * width ? 4 : n - p >= 2 * width ? 2 : 1;
    for (size_t sum = 0; sum < together; sum++, p += width) {
      for (size_t i = 0; i < width && p + i < n; i++) sums[sum][i] += a[p + i] * b[p + i];
    }
  }
  T lanes[width];
  for (size_t i = 0; i < width; i++)
    lanes[i] = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
  size_t count = width;
  for (; count * sizeof(T) > 16; count /= 2)
    for (size_t i = 0; i < count / 2; i++) lanes[i] += lanes[i + count / 2];
  if (count == 4) return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  return lanes[0] + lanes[1];
}

// With factors of few bits, so that it does not matter whether products are rounded.
template <class T>
void check_dots() {
  std::mt19937 random(5);
  for (size_t n : {1, 3, 5, 8, 15, 16, 17, 31, 33, 48, 64, 65, 100, 129, 1000}) {
    std::vector<T> a(n), b(n);
    for (T& value : a) value = T(int(random() % 4095) - 2047) / T(16);
    for (T& value : b) value = T(int(random() % 4095) - 2047) / T(1 + random() % 2);
    on_each_isa([&] {
      const auto c = product<T>({1, 1, int64_t(n)}, {a, int64_t(n), 1}, {b, 1, int64_t(n)},
                                std::vector<T>(1), nullptr);
      EXPECT_EQ(c[0], dot_in_order(a, b)) << n << " of " << name(kDTypeOf<T>);
    });
  }
}
TEST(Gemm, OneDotHasTheSameBitsAtEveryLevel) {
  check_dots<float>();
  check_dots<double>();
}

TEST(Gemm, BatchesStepAndShare) {
  std::vector<double> a(3 * 2 * 2), b(2 * 2), c(3 * 2 * 2), want(3 * 2 * 2);
  for (size_t i = 0; i < a.size(); i++) a[i] = double(i);
  b = {1, 2, 3, 4};
  for (int64_t s = 0; s < 3; s++) {
    for (int64_t i = 0; i < 2; i++) {
      for (int64_t j = 0; j < 2; j++) {
        want[size_t(s * 4 + i * 2 + j)] = a[size_t(s * 4 + i * 2)] * b[size_t(j)] +
                                          a[size_t(s * 4 + i * 2 + 1)] * b[size_t(2 + j)];
      }
    }
  }
  GemmArgs first{DType::Float64, 2, 2, 2, a.data(), 2, 1, b.data(), 2, 1, c.data(), 2};
  gemm_batched(first, 3, 4, 0, 4);
  EXPECT_EQ(c, want);
  std::vector<double> repeated;
  for (int s = 0; s < 3; s++) repeated.insert(repeated.end(), b.begin(), b.end());
  first.b = repeated.data();
  std::fill(c.begin(), c.end(), -1);
  gemm_batched(first, 3, 4, 4, 4);
  EXPECT_EQ(c, want);
}

}  // namespace
}  // namespace flambeau
