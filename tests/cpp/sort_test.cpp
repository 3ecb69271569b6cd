// Sorting, selecting, searching and counting against std::stable_sort and plain loops, for every
// real dtype. Values come from small sets (many ties), from all bit patterns (NaN, infinities, -0)
// and from narrow and wide ranges.
#include "flambeau/kernels/cpu/sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace flambeau {
namespace {

using Ints = std::vector<int64_t>;
std::mt19937_64 engine(3);

// Elements as long double hold every int64, uint64 and double exactly.
template <class T>
long double number(T x) {
  if constexpr (std::is_class_v<T>) {
    return to_float(x);
  } else {
    return x;
  }
}

// NaN is the largest.
bool before(long double a, long double b) {
  if (std::isnan(a)) return false;
  return std::isnan(b) || a < b;
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
T from_small(int64_t i) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(float(i));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(float(i));
  } else {
    return T(i);
  }
}

enum Kind { kTies, kBits, kNarrow, kSame };

template <class T>
std::vector<T> random_elements(int64_t n, Kind kind) {
  std::vector<T> v(n);
  for (auto& x : v) {
    uint64_t bits = engine();
    if (kind == kTies) {
      x = from_small<T>(int64_t(bits % 9));
    } else if (kind == kSame) {
      x = from_small<T>(5);
    } else {
      if (kind == kNarrow) bits = 0x4000400040004000 + bits % 50000;
      std::memcpy(&x, &bits, sizeof(T));
    }
  }
  if (kind == kTies && n > 3 && !std::is_integral_v<T>) {
    v[n / 2] = from_small<T>(0);
    reinterpret_cast<char*>(&v[n / 2])[sizeof(T) - 1] |= char(0x80);  // -0
  }
  return v;
}

template <class T>
Ints stable_order(const T* x, int64_t n, bool descending) {
  Ints order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return descending ? before(number(x[b]), number(x[a])) : before(number(x[a]), number(x[b]));
  });
  return order;
}

// Calls body(element type, rows, cols, kind) for dtypes and shapes around the thresholds of the
// sort.
template <class F>
void each_type(const F& body) {
  body(uint8_t{}), body(int8_t{}), body(int16_t{}), body(uint16_t{}), body(int32_t{}),
      body(uint32_t{});
  body(int64_t{}), body(uint64_t{}), body(Half{}), body(BFloat16{}), body(float{}), body(double{});
}

template <class F>
void each_case(const F& body) {
  each_type([&](auto type) {
    using T = decltype(type);
    for (auto [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {5, 2}, {3, 40}, {4, 41}, {9, 1000}, {2, 20000}}) {
      for (Kind kind : {kTies, kBits, kNarrow, kSame})
        body(random_elements<T>(rows * cols, kind), rows, cols);
    }
  });
}

TEST(SortRows, StableWithNanLast) {
  each_case([](const auto& x, int64_t rows, int64_t cols) {
    using T = std::decay_t<decltype(x[0])>;
    for (bool descending : {false, true}) {
      std::vector<T> values(x.size());
      Ints indices(x.size());
      sort_rows(kDTypeOf<T>, x.data(), rows, cols, descending, values.data(), indices.data());
      for (int64_t r = 0; r < rows; ++r) {
        const T* row = x.data() + r * cols;
        Ints want = stable_order(row, cols, descending);
        ASSERT_EQ(Ints(&indices[r * cols], &indices[r * cols] + cols), want);
        for (int64_t i = 0; i < cols; ++i)
          ASSERT_TRUE(same_bits(values[r * cols + i], row[want[i]]));
      }
    }
  });
}

TEST(SortRows, WideKeysThatShareTheirTopBits) {
  std::vector<int64_t> x(30000), values(30000), want;
  for (auto& v : x) v = int64_t(engine() % 3) << 40 | int64_t(engine() % 5000);
  x[7] = INT64_MIN;
  want = x;
  std::sort(want.begin(), want.end());
  sort_rows(DType::Int64, x.data(), 1, 30000, false, values.data(), nullptr);
  EXPECT_EQ(values, want);
}

TEST(TopK, BestFirstFromEitherEnd) {
  each_case([](const auto& x, int64_t rows, int64_t cols) {
    using T = std::decay_t<decltype(x[0])>;
    for (int64_t k : {int64_t(1), cols / 7, cols / 2, cols}) {
      for (bool largest : {false, true}) {
        std::vector<T> values(rows * k);
        Ints indices(rows * k);
        topk_rows(kDTypeOf<T>, x.data(), rows, cols, k, largest, values.data(), indices.data());
        for (int64_t r = 0; r < rows; ++r) {
          const T* row = x.data() + r * cols;
          Ints want = stable_order(row, cols, largest);
          for (int64_t i = 0; i < k; ++i) {
            ASSERT_EQ(indices[r * k + i], want[i]);
            ASSERT_TRUE(same_bits(values[r * k + i], row[want[i]]));
          }
        }
      }
    }
  });
}

TEST(KthValue, IsTheKthOfAStableSort) {
  each_case([](const auto& x, int64_t rows, int64_t cols) {
    using T = std::decay_t<decltype(x[0])>;
    for (int64_t k : {int64_t(1), (cols + 1) / 2, cols}) {
      std::vector<T> values(rows);
      Ints indices(rows);
      kthvalue_rows(kDTypeOf<T>, x.data(), rows, cols, k, values.data(), indices.data());
      for (int64_t r = 0; r < rows; ++r) {
        const T* row = x.data() + r * cols;
        int64_t want = stable_order(row, cols, false)[k - 1];
        ASSERT_EQ(indices[r], want);
        ASSERT_TRUE(same_bits(values[r], row[want]));
      }
    }
  });
}

TEST(Median, LowerOfTwoAndNan) {
  const float nan = std::nanf("");
  std::vector<float> x = {4, 1, 3, 2, 1, nan, 9, nan, nan, nan, nan, nan};
  float values[3];
  int64_t indices[3];
  median_rows(DType::Float32, x.data(), 3, 4, false, values, indices);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(indices[0], 3);
  EXPECT_TRUE(std::isnan(values[1]) && std::isnan(values[2]));
  EXPECT_EQ(indices[1], 1);
  median_rows(DType::Float32, x.data(), 3, 4, true, values, indices);
  EXPECT_EQ(values[1], 1);
  EXPECT_EQ(indices[1], 0);
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST(Mode, SmallestOfTheMostFrequent) {
  std::vector<int32_t> x = {3, 1, 3, 1, 2, 5, 5, 5, 1, 1};
  int32_t values[2];
  int64_t indices[2];
  mode_rows(DType::Int32, x.data(), 2, 5, values, indices);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(indices[0], 3);
  EXPECT_EQ(values[1], 5);
  EXPECT_EQ(indices[1], 2);
}

TEST(SearchSorted, CountsWhatComesBefore) {
  each_type([](auto type) {
    using T = decltype(type);
    for (int64_t size : {0, 1, 2, 7, 64, 1000}) {
      for (bool one_row : {false, true}) {
        const int64_t rows = 3, per_row = 21;
        auto sorted = random_elements<T>(rows * size, kTies),
             values = random_elements<T>(rows * per_row, kTies);
        for (int64_t r = 0; r < rows; ++r) {
          std::sort(sorted.begin() + r * size, sorted.begin() + (r + 1) * size,
                    [](T a, T b) { return number(a) < number(b); });
        }
        for (bool right : {false, true}) {
          Ints got(rows * per_row);
          searchsorted_rows(kDTypeOf<T>, sorted.data(), one_row, size, values.data(), rows, per_row,
                            right, got.data());
          for (int64_t i = 0; i < rows * per_row; ++i) {
            auto row = sorted.begin() + (one_row ? 0 : i / per_row * size);
            int64_t want = std::count_if(row, row + size, [&](T s) {
              return right ? number(s) <= number(values[i]) : number(s) < number(values[i]);
            });
            ASSERT_EQ(got[i], want);
          }
        }
      }
    }
  });
  float sorted[] = {1, 2}, value = std::nanf("");
  int64_t at;
  searchsorted_rows(DType::Float32, sorted, true, 2, &value, 1, 1, false, &at);
  EXPECT_EQ(at, 2);
}

TEST(Unique, SortedWithInverseAndCounts) {
  each_type([](auto type) {
    using T = decltype(type);
    for (int64_t n : {1, 2, 300, 20000}) {
      for (Kind kind : {kTies, kNarrow, kSame, kBits}) {
        auto x = random_elements<T>(n, kind);
        auto is_nan = [](T v) { return std::isnan(number(v)); };
        std::map<long double, int64_t> want;
        for (T v : x) {
          if (!is_nan(v)) ++want[number(v)];
        }
        const int64_t nans = std::count_if(x.begin(), x.end(), is_nan);
        std::vector<T> values(n);
        Ints inverse(n), counts(n);
        int64_t found =
            unique_sorted(kDTypeOf<T>, x.data(), n, values.data(), inverse.data(), counts.data());
        ASSERT_EQ(found, int64_t(want.size()) + nans);
        int64_t u = 0;
        for (auto [value, count] : want) {
          ASSERT_EQ(number(values[u]), value);
          ASSERT_EQ(counts[u++], count);
        }
        for (; u < found; ++u) ASSERT_TRUE(is_nan(values[u]) && counts[u] == 1);
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_TRUE(is_nan(x[i]) ? is_nan(values[inverse[i]])
                                   : number(values[inverse[i]]) == number(x[i]));
        }
        std::vector<T> alone(n);
        ASSERT_EQ(unique_sorted(kDTypeOf<T>, x.data(), n, alone.data(), nullptr, nullptr), found);
      }
    }
  });
  EXPECT_EQ(unique_sorted(DType::Float32, nullptr, 0, nullptr, nullptr, nullptr), 0);
}

TEST(Unique, Consecutive) {
  std::vector<float> x = {1, 1, 2, 1, 0.0f, -0.0f, std::nanf(""), std::nanf("")}, values(8);
  Ints inverse(8), counts(8);
  ASSERT_EQ(
      unique_consecutive(DType::Float32, x.data(), 8, values.data(), inverse.data(), counts.data()),
      6);
  EXPECT_EQ(values[2], 1);
  EXPECT_EQ(inverse, (Ints{0, 0, 1, 2, 3, 3, 4, 5}));
  counts.resize(6);
  EXPECT_EQ(counts, (Ints{2, 1, 1, 2, 1, 1}));
}

TEST(Unique, Rows) {
  std::vector<int16_t> x = {3, -1, 0, 5, 3, -1, 0, 4, 3, -1};
  Ints firsts(5), inverse(5), counts(5);
  ASSERT_EQ(unique_rows(DType::Int16, x.data(), 5, 2, false, firsts.data(), inverse.data(),
                        counts.data()),
            3);
  EXPECT_EQ(inverse, (Ints{2, 1, 2, 0, 2}));
  EXPECT_EQ(Ints(firsts.begin(), firsts.begin() + 3), (Ints{3, 1, 0}));
  EXPECT_EQ(Ints(counts.begin(), counts.begin() + 3), (Ints{1, 1, 3}));
  ASSERT_EQ(unique_rows(DType::Int16, x.data(), 5, 2, true, firsts.data(), nullptr, nullptr), 5);
}

TEST(Counting, BincountAndWeights) {
  Ints x = {0, 3, 3, 1, 3}, out(5);
  bincount_items(x.data(), 5, 5, out.data());
  EXPECT_EQ(out, (Ints{1, 1, 0, 3, 0}));
  std::vector<double> weights = {1, 2, 3, 4, 5}, sums(5);
  bincount_weighted(DType::Float64, x.data(), weights.data(), 5, 5, sums.data());
  EXPECT_EQ(sums, (std::vector<double>{1, 4, 0, 10, 0}));
}

TEST(Counting, HistogramIncludesBothEnds) {
  std::vector<float> x = {0, 0.5, 1, 2, 4, 5, -1, std::nanf("")}, out(4);
  histc_items(DType::Float32, x.data(), 8, 0, 4, 4, out.data());
  EXPECT_EQ(out, (std::vector<float>{2, 1, 1, 1}));
}

}  // namespace
}  // namespace flambeau
