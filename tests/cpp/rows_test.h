// What the tests of the row kernels share: a fixture that runs each test on every instruction set,
// numbers of any floating type as doubles, and comparison with a tolerance per type.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "flambeau/core/dtype.h"
#include "tests/cpp/each_isa.h"

namespace flambeau::rows_test {

using Doubles = std::vector<double>;
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr DType kFloats[] = {DType::Float32, DType::Float64, DType::Float16,
                                    DType::BFloat16};

// Memory of one floating type that is written and read as doubles.
struct Buffer {
  DType dtype;
  std::vector<char> bytes;

  Buffer(DType t, int64_t n) : dtype(t), bytes(size_t(n * itemsize(t))) {}
  Buffer(DType t, const Doubles& values) : Buffer(t, int64_t(values.size())) {
    for (size_t i = 0; i < values.size(); ++i) set(int64_t(i), values[i]);
  }
  void* data() { return bytes.data(); }
  int64_t size() const { return int64_t(bytes.size()) / itemsize(dtype); }
  void set(int64_t i, double v) {
    auto put = [&](auto x) { std::memcpy(bytes.data() + i * int64_t(sizeof x), &x, sizeof x); };
    if (dtype == DType::Float16) return put(to_half(float(v)));
    if (dtype == DType::BFloat16) return put(to_bfloat16(float(v)));
    if (dtype == DType::Float32) return put(float(v));
    put(v);
  }
  double operator[](int64_t i) const {
    auto get = [&](auto x) {
      std::memcpy(&x, bytes.data() + i * int64_t(sizeof x), sizeof x);
      return x;
    };
    if (dtype == DType::Float16) return to_float(get(Half()));
    if (dtype == DType::BFloat16) return to_float(get(BFloat16()));
    if (dtype == DType::Float32) return get(float());
    return get(double());
  }
  Doubles values() const {
    Doubles v;
    for (int64_t i = 0; i < size(); ++i) v.push_back((*this)[i]);
    return v;
  }
};

// Fixed numbers in [low, high), as a buffer of this type holds them.
inline Buffer numbers(DType t, int64_t n, uint64_t seed, double low = -2, double high = 2) {
  Buffer b(t, n);
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    b.set(i, low + (high - low) * double(seed >> 40) / (1 << 24));
  }
  return b;
}

inline double tolerance(DType t) {
  return t == DType::Float16    ? 2e-3
         : t == DType::BFloat16 ? 1.6e-2
         : t == DType::Float32  ? 3e-6
                                : 1e-12;
}

// |got - want| <= tol * (scale + |want|), NaN equals NaN.
inline void expect_close(const Buffer& got, const Doubles& want, double scale = 1, double tol = 0) {
  ASSERT_EQ(got.size(), int64_t(want.size()));
  if (tol == 0) tol = tolerance(got.dtype);
  for (int64_t i = 0; i < got.size(); ++i) {
    double g = got[i], w = want[size_t(i)];
    if (std::isnan(w) ? std::isnan(g) : g == w) continue;
    ASSERT_LE(std::abs(g - w), tol * (scale + std::abs(w)))
        << name(got.dtype) << " at " << i << ": wants " << w << ", got " << g;
  }
}

}  // namespace flambeau::rows_test
