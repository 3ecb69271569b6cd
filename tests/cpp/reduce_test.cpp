// Reductions against plain loops in double, over types, geometries and instruction sets.
#include "flambeau/kernels/cpu/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "flambeau/core/threadpool.h"
#include "tests/cpp/each_isa.h"

namespace flambeau {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Geometry {
  int64_t outer, n, inner, x_outer, x_n, x_inner, reps = 1, x_reps = 0;
};

// The elements as doubles (real and imaginary part), whatever their type.
struct Data {
  DType dtype;
  std::vector<char> bytes;
  std::vector<std::complex<double>> values;

  Data(DType t, int64_t count, uint64_t seed, bool small = false)
      : dtype(t), bytes(size_t(count * itemsize(t))) {
    for (int64_t i = 0; i < count; ++i) {
      auto next = [&] {
        return double((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 40) /
               (1 << 24);
      };
      double u = next();
      if (is_inexact(t)) {
        put(i, {u * 4 - 2, is_complex(t) ? next() * 4 - 2 : 0});
      } else if (t == DType::Bool) {
        put(i, u > 0.5);
      } else {
        double range = small ? 3 : 100;
        put(i, std::floor(u * range) - (info(t).category == 'i' && !small ? 50 : 0));
      }
    }
  }
  void put(int64_t i, std::complex<double> z) {
    auto as = [&]<class T>(T v) {
      std::memcpy(bytes.data() + i * int64_t(sizeof(T)), &v, sizeof(T));
      return v;
    };
    double x = z.real();
    if (values.size() <= size_t(i)) values.resize(size_t(i) + 1);
    auto& kept = values[size_t(i)];
    switch (dtype) {
      case DType::Bool:
        kept = as(uint8_t(x != 0));
        break;
      case DType::UInt8:
        kept = as(uint8_t(x));
        break;
      case DType::Int8:
        kept = as(int8_t(x));
        break;
      case DType::Int16:
        kept = as(int16_t(x));
        break;
      case DType::Int32:
        kept = as(int32_t(x));
        break;
      case DType::Int64:
        kept = double(as(int64_t(x)));
        break;
      case DType::UInt16:
        kept = as(uint16_t(x));
        break;
      case DType::UInt32:
        kept = as(uint32_t(x));
        break;
      case DType::UInt64:
        kept = double(as(uint64_t(x)));
        break;
      case DType::Float16:
        kept = to_float(as(to_half(float(x))));
        break;
      case DType::BFloat16:
        kept = to_float(as(to_bfloat16(float(x))));
        break;
      case DType::Float32:
        kept = as(float(x));
        break;
      case DType::Float64:
        kept = as(x);
        break;
      case DType::Complex64:
        kept = as(std::complex<float>(z));
        break;
      case DType::Complex128:
        kept = as(z);
        break;
    }
  }
};

std::complex<double> read(DType t, const void* p, int64_t i) {
  auto at = [&]<class T>(T) { return static_cast<const T*>(p)[i]; };
  switch (t) {
    case DType::Bool:
    case DType::UInt8:
      return at(uint8_t());
    case DType::Int8:
      return at(int8_t());
    case DType::Int16:
      return at(int16_t());
    case DType::Int32:
      return at(int32_t());
    case DType::Int64:
      return double(at(int64_t()));
    case DType::UInt16:
      return at(uint16_t());
    case DType::UInt32:
      return at(uint32_t());
    case DType::UInt64:
      return double(at(uint64_t()));
    case DType::Float16:
      return to_float(at(Half()));
    case DType::BFloat16:
      return to_float(at(BFloat16()));
    case DType::Float32:
      return at(float());
    case DType::Float64:
      return at(double());
    case DType::Complex64:
      return at(std::complex<float>());
    case DType::Complex128:
      return at(std::complex<double>());
  }
  return 0;
}

struct Expected {
  std::complex<double> first, second;
};

Expected spread(const std::vector<std::complex<double>>& x, double correction, bool root) {
  std::complex<double> mean = 0;
  for (auto v : x) mean += v;
  mean /= double(x.size());
  double squares = 0;
  for (auto v : x) squares += std::norm(v - mean);
  double var = squares / std::max(0.0, double(x.size()) - correction);
  return {root ? std::sqrt(var) : var, mean};
}

Expected extreme(const std::vector<std::complex<double>>& x, double sign) {
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i) {
    double v = sign * x[i].real(), b = sign * x[best].real();
    if (v > b || (std::isnan(v) && !std::isnan(b))) best = i;
  }
  return {x[best].real(), double(best)};
}

Expected naive(ReduceOp op, const std::vector<std::complex<double>>& x, double p) {
  std::complex<double> sum = 0, product = 1;
  double count = 0, powers = 0, nan_count = 0, nan_sum = 0, exps = 0;
  for (auto v : x) {
    sum += v;
    product *= v;
    count += v != 0.0;
    powers += std::pow(std::abs(v), p);
    if (!std::isnan(v.real())) nan_sum += v.real(), ++nan_count;
    exps += std::exp(v.real());
  }
  auto norms = x;
  for (auto& v : norms) v = std::abs(v);
  switch (op) {
    case ReduceOp::Sum:
      return {sum, 0};
    case ReduceOp::NanSum:
      return {nan_sum, 0};
    case ReduceOp::Mean:
      return {sum / double(x.size()), 0};
    case ReduceOp::NanMean:
      return {nan_sum / nan_count, 0};
    case ReduceOp::Prod:
      return {product, 0};
    case ReduceOp::AMax:
      return {extreme(x, 1).first, 0};
    case ReduceOp::AMin:
      return {extreme(x, -1).first, 0};
    case ReduceOp::AMinMax:
      return {extreme(x, -1).first, extreme(x, 1).first};
    case ReduceOp::MaxIndex:
      return extreme(x, 1);
    case ReduceOp::MinIndex:
      return extreme(x, -1);
    case ReduceOp::ArgMax:
      return {extreme(x, 1).second, 0};
    case ReduceOp::ArgMin:
      return {extreme(x, -1).second, 0};
    case ReduceOp::Any:
      return {count > 0, 0};
    case ReduceOp::All:
      return {count == double(x.size()), 0};
    case ReduceOp::CountNonzero:
      return {count, 0};
    case ReduceOp::Var:
      return {spread(x, p, false).first, 0};
    case ReduceOp::Std:
      return {spread(x, p, true).first, 0};
    case ReduceOp::VarMean:
      return spread(x, p, false);
    case ReduceOp::StdMean:
      return spread(x, p, true);
    case ReduceOp::Norm0:
      return {count, 0};
    case ReduceOp::Norm1:
    case ReduceOp::Norm2:
    case ReduceOp::NormP:
      return {std::pow(powers, 1 / p), 0};
    case ReduceOp::NormInf:
      return {extreme(norms, 1).first, 0};
    case ReduceOp::NormNegInf:
      return {extreme(norms, -1).first, 0};
    case ReduceOp::LogSumExp:
      return {std::log(exps), 0};
  }
  return {};
}

double parameter(ReduceOp op) {
  switch (op) {
    case ReduceOp::Var:
    case ReduceOp::VarMean:
    case ReduceOp::Norm1:
      return 1;
    case ReduceOp::Norm2:
      return 2;
    case ReduceOp::NormP:
      return 3;
    default:
      return 0;
  }
}

bool finds(ReduceOp op) { return op == ReduceOp::MaxIndex || op == ReduceOp::MinIndex; }

double tolerance(DType t) {
  return t == DType::Float16            ? 1e-3
         : t == DType::BFloat16         ? 8e-3
         : real_of(t) == DType::Float32 ? 2e-6
                                        : 1e-12;
}

void expect_near(std::complex<double> want, std::complex<double> got, double tol,
                 const std::string& what) {
  if (std::isnan(want.real())) {
    EXPECT_TRUE(std::isnan(got.real())) << what << " wants NaN, got " << got;
    return;
  }
  if (want == got) return;
  ASSERT_LE(std::abs(want - got), tol * (1 + std::abs(want)))
      << what << " wants " << want << ", got " << got;
}

void check(ReduceOp op, const Data& x, const Geometry& g, double p) {
  int result = reduce_result(op, x.dtype);
  if (result < 0) return;
  DType out_dtype = DType(result), out2_dtype = finds(op) ? DType::Int64 : x.dtype;
  if (op == ReduceOp::AMinMax) out2_dtype = x.dtype;
  int64_t outputs = g.outer * g.inner;
  std::vector<char> out(size_t(outputs * itemsize(out_dtype))), out2(size_t(outputs * 16));
  reduce({op, x.dtype, out_dtype, g.outer, g.n, g.inner, g.x_outer, g.x_n, g.x_inner,
          x.bytes.data(), out.data(), out2.data(), p, g.reps, g.x_reps});
  for (int64_t o = 0; o < outputs; ++o) {
    std::vector<std::complex<double>> values;
    for (int64_t r = 0; r < g.reps; ++r) {
      for (int64_t i = 0; i < g.n; ++i) {
        values.push_back(x.values[size_t(o / g.inner * g.x_outer + o % g.inner * g.x_inner +
                                         i * g.x_n + r * g.x_reps)]);
      }
    }
    Expected want = naive(op, values, p);
    double size = 1;
    if (op == ReduceOp::Sum || op == ReduceOp::Mean || op == ReduceOp::NanSum ||
        op == ReduceOp::NanMean) {
      // Errors scale with what is added, not with what is left of it.
      for (auto v : values) size += std::isnan(v.real()) ? 0 : std::abs(v);
      if (op == ReduceOp::Mean || op == ReduceOp::NanMean) size /= double(values.size());
      size = is_inexact(x.dtype) ? size / (1 + std::abs(want.first)) : 1;
    }
    std::string what = std::string(name(x.dtype)) + " op " + std::to_string(int(op)) + " n " +
                       std::to_string(g.n) + " inner " + std::to_string(g.inner) + " at " +
                       std::to_string(o);
    double tol =
        (is_half(out_dtype) ? tolerance(out_dtype) : tolerance(x.dtype)) * std::max(1.0, size);
    expect_near(want.first, read(out_dtype, out.data(), o), tol, what);
    if (finds(op) || op == ReduceOp::AMinMax || op == ReduceOp::VarMean ||
        op == ReduceOp::StdMean) {
      expect_near(want.second, read(out2_dtype, out2.data(), o), tol, what + " (second)");
    }
  }
}

constexpr Geometry kGeometries[] = {
    {1, 1, 1, 1, 1, 1},
    {3, 1, 5, 5, 5, 1},
    {1, 7, 1, 7, 1, 1},
    {5, 37, 1, 37, 1, 1},
    {2, 300, 1, 301, 1, 1},
    {1, 20000, 1, 20000, 1, 1},
    {1, 1000, 1, 3000, 3, 1},
    {40, 3, 1, 3, 1, 1},
    {1, 50, 70, 3500, 70, 1},
    {2, 9, 33, 9 * 40, 40, 1},
    {3, 11, 4, 44, 4, 1},
    {1, 3000, 3, 9000, 3, 1},
    {1, 600, 129, 0, 1, 600},
    {7, 20, 6, 1, 7, 140},
    {4, 6, 1, 6, 1, 1, 5, 24},
    {1, 5, 40, 40, 40, 1, 3, 200},
    {2, 3, 17, 51, 17, 1, 4, 102},
    {1, 8, 1, 0, 0, 0},
};

int64_t extent(const Geometry& g) {
  return 1 + (g.outer - 1) * g.x_outer + (g.n - 1) * g.x_n + (g.inner - 1) * g.x_inner +
         (g.reps - 1) * g.x_reps;
}

class Reduce : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isa, Reduce, testing::Range(0, kIsas));

TEST_P(Reduce, MatchesPlainLoops) {
  for (int t = 0; t < kDTypes; ++t) {
    for (int op = 0; op < kReduceOps; ++op) {
      for (const Geometry& g : kGeometries) {
        if (ReduceOp(op) == ReduceOp::Prod && g.n > 100) continue;
        Data x(DType(t), extent(g), uint64_t(op * 100 + t), ReduceOp(op) == ReduceOp::Prod);
        check(ReduceOp(op), x, g, parameter(ReduceOp(op)));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Reduce, PropagatesNaNAndFindsTheFirst) {
  for (DType t : {DType::Float32, DType::Float64, DType::BFloat16}) {
    for (const Geometry& g : kGeometries) {
      Data x(t, extent(g), 7);
      for (int64_t i = 1; i < extent(g); i += 13) x.put(i, kNaN);
      for (ReduceOp op : {ReduceOp::AMax, ReduceOp::AMin, ReduceOp::MaxIndex, ReduceOp::MinIndex,
                          ReduceOp::Sum, ReduceOp::NanSum, ReduceOp::NormInf, ReduceOp::LogSumExp,
                          ReduceOp::Any, ReduceOp::Var}) {
        check(op, x, g, 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Reduce, FindsTheFirstOfEqualsAndOfTheLowest) {
  for (double value : {0.0, -kInf, kInf}) {
    for (const Geometry& g : kGeometries) {
      Data x(DType::Float32, extent(g), 1);
      for (int64_t i = 0; i < extent(g); ++i) x.put(i, value);
      check(ReduceOp::MaxIndex, x, g, 0);
      check(ReduceOp::MinIndex, x, g, 0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Reduce, LogSumExpOfInfinities) {
  auto of = [](std::vector<float> x) {
    float y = 0;
    int64_t n = int64_t(x.size());
    reduce({ReduceOp::LogSumExp, DType::Float32, DType::Float32, 1, n, 1, n, 1, 1, x.data(), &y});
    return y;
  };
  EXPECT_EQ(of({-float(kInf), -float(kInf)}), -kInf);
  EXPECT_EQ(of({float(kInf), 1}), kInf);
  EXPECT_FLOAT_EQ(of({1000, 1000}), 1000 + std::log(2.0f));
  EXPECT_EQ(of({}), -kInf);
  std::vector<float> far(20000, -float(kInf));
  far[19000] = -500;
  EXPECT_FLOAT_EQ(of(far), -500);
}

TEST_P(Reduce, EmptyReductionsHaveTheirNeutralResult) {
  float y[2] = {5, 5};
  auto of = [&](ReduceOp op) {
    reduce({op, DType::Float32, DType::Float32, 2, 0, 1, 0, 1, 1, nullptr, y});
    return y[1];
  };
  EXPECT_EQ(of(ReduceOp::Sum), 0);
  EXPECT_EQ(of(ReduceOp::Prod), 1);
  EXPECT_TRUE(std::isnan(of(ReduceOp::Mean)));
  EXPECT_TRUE(std::isnan(of(ReduceOp::Var)));
  EXPECT_EQ(of(ReduceOp::Norm2), 0);
}

// A run of floats: four groups of 32 bytes, gathered after 16 steps; whole groups of the rest join
// the first; single elements come first in the total, then the lanes.
template <class T>
T sum_in_order(const std::vector<T>& x) {
  constexpr size_t group = 32 / sizeof(T), step = 4 * group;
  const size_t n = x.size();
  const size_t width = n < group ? 1 : group;
  T sums[step] = {}, near[step] = {}, total = 0;
  size_t i = 0, steps = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    for (size_t k = 0; k < 4 * width; k++) near[k] += x[i + k];
    if (++steps % 16) continue;
    for (size_t k = 0; k < step; k++) sums[k] += near[k], near[k] = 0;
  }
  for (size_t k = 0; k < step; k++) sums[k] += near[k];
  for (; i + width <= n; i += width)
    for (size_t k = 0; k < width; k++) sums[k] += x[i + k];
  for (size_t k = width; k < 4 * width; k++) sums[k % width] += sums[k];
  for (; i < n; i++) total += x[i];
  for (size_t k = 0; k < width; k++) total += sums[k];
  return total;
}

template <class T>
void check_runs() {
  for (size_t n : {1, 3, 4, 5, 7, 8, 9, 12, 17, 31, 33, 40, 100, 511, 513, 1000, 4096}) {
    std::vector<T> x(n);
    uint32_t seed = uint32_t(n);
    for (T& v : x) v = T(int32_t(seed = seed * 1664525 + 1013904223)) / 3;
    T y = 0;
    const auto length = int64_t(n);
    reduce({ReduceOp::Sum, kDTypeOf<T>, kDTypeOf<T>, 1, length, 1, length, 1, 1, x.data(), &y});
    EXPECT_EQ(y, sum_in_order(x)) << n << " of " << name(kDTypeOf<T>);
  }
}
TEST_P(Reduce, RunsOfFloatsAreAddedInOneOrderAtEveryLevel) {
  check_runs<float>();
  check_runs<double>();
}

TEST_P(Reduce, LongFloatSumsStayExactToAnUlpOrTwo) {
  std::vector<float> x(1 << 22);
  double want = 0;
  uint32_t seed = 1;
  for (float& v : x) want += v = float((seed = seed * 1664525 + 1013904223) >> 8) / (1 << 24);
  float y = 0;
  int64_t n = int64_t(x.size());
  reduce({ReduceOp::Sum, DType::Float32, DType::Float32, 1, n, 1, n, 1, 1, x.data(), &y});
  EXPECT_NEAR(y, want, 2e-7 * want);
  std::vector<float> columns(4);
  reduce({ReduceOp::Sum, DType::Float32, DType::Float32, 1, n / 4, 4, n, 4, 1, x.data(),
          columns.data()});
  EXPECT_NEAR(columns[0] + columns[1] + columns[2] + columns[3], want, 5e-7 * want);
}

TEST_P(Reduce, SameBitsForAnyNumberOfThreads) {
  int threads = num_threads();
  Data x(DType::Float32, 1 << 20, 3);
  constexpr Geometry shapes[] = {{1, 1 << 20, 1, 1, 1, 1},
                                 {1, 1 << 10, 1 << 10, 1, 1 << 10, 1},
                                 {1 << 10, 1 << 10, 1, 1 << 10, 1, 1},
                                 {1, 1 << 18, 4, 1, 4, 1}};
  for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Var, ReduceOp::MaxIndex, ReduceOp::LogSumExp}) {
    for (const Geometry& g : shapes) {
      auto once = [&](int count) {
        set_num_threads(count);
        std::vector<float> out(size_t(g.outer * g.inner));
        std::vector<int64_t> out2(out.size());
        reduce({op, DType::Float32, DType::Float32, g.outer, g.n, g.inner, g.x_outer, g.x_n,
                g.x_inner, x.bytes.data(), out.data(), out2.data(), 1});
        return out;
      };
      auto one = once(1), three = once(3);
      EXPECT_EQ(0, std::memcmp(one.data(), three.data(), one.size() * 4));
    }
  }
  set_num_threads(threads);
}

TEST_P(Reduce, HalfTypesMayBeReducedIntoFloat) {
  std::vector<BFloat16> x(1000, to_bfloat16(1));
  float y = 0;
  reduce({ReduceOp::Sum, DType::BFloat16, DType::Float32, 1, 999, 1, 999, 1, 1, x.data(), &y});
  EXPECT_EQ(y, 999);
  BFloat16 rounded;
  reduce({ReduceOp::Sum, DType::BFloat16, DType::BFloat16, 1, 1000, 1, 1000, 1, 1, x.data(),
          &rounded});
  EXPECT_EQ(to_float(rounded), 1000);
}

}  // namespace
}  // namespace flambeau
