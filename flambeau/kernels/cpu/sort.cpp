// Stable radix sort of rows with their indices, least significant digit first. Keys lose the row's
// minimum first, so that a small range takes few passes. Of wide keys the top 32 bits are sorted,
// then the runs that these leave equal.
#include "flambeau/kernels/cpu/sort.h"

#include <bit>
#include <cstring>

#include "flambeau/core/error.h"
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/order_keys.h"

namespace flambeau {
namespace order {
namespace {

// 2048 places to write to still fit the second-level TLB, but their counts cost more than a short
// row's elements.
constexpr int kWide = 11, kNarrow = 8;
constexpr int64_t kWideFrom = 16384;
constexpr int64_t kInsertion = 40;

void insertion_sort(uint64_t* a, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    uint64_t word = a[i];
    int64_t j = i;
    for (; j > 0 && word < a[j - 1]; --j) a[j] = a[j - 1];
    a[j] = word;
  }
}

// Makes starts of counts; false if one digit has everything, so that the pass would change nothing.
template <class Count>
bool make_starts(Count* counts, int64_t size, int64_t n) {
  Count sum = 0;
  for (int64_t d = 0; d < size; ++d) {
    Count count = counts[d];
    if (int64_t(count) == n) return false;
    counts[d] = sum;
    sum += count;
  }
  return true;
}

template <int kWidth, int kPasses>
uint64_t* radix_passes(uint64_t* a, uint64_t* b, int64_t n, int low) {
  constexpr uint64_t kDigits = 1 << kWidth, kMask = kDigits - 1;
  uint32_t counts[kPasses][kDigits] = {};  // a row has fewer than 2^32 elements
  for (int64_t i = 0; i < n; ++i) {
    uint64_t key = a[i] >> low;
#pragma GCC unroll 4
    for (int p = 0; p < kPasses; ++p) ++counts[p][key >> (p * kWidth) & kMask];
  }
  for (int p = 0; p < kPasses; ++p) {
    uint32_t* starts = counts[p];
    if (!make_starts(starts, kDigits, n)) continue;
    const int shift = low + p * kWidth;
    for (int64_t i = 0; i < n; ++i) b[starts[a[i] >> shift & kMask]++] = a[i];
    uint64_t* sorted = b;
    b = a;
    a = sorted;
  }
  return a;
}

template <class F>
struct Range {
  typename F::Key low = F::kMax, high = 0;
  bool lossy = false;  // some keys cannot be turned back into their elements

  Range(const typename F::Key* x, int64_t n) {
    using U = typename F::Key;
    constexpr int64_t kUnroll = 16;  // a fixed count is what the compiler makes vectors of
    U lows[kUnroll], highs[kUnroll] = {}, lossies[kUnroll] = {};
    for (U& l : lows) l = F::kMax;
    auto add = [&](int64_t i, int64_t j) {
      U key = F::encode(x[i + j]);
      lows[j] = key < lows[j] ? key : lows[j];
      highs[j] = key > highs[j] ? key : highs[j];
      lossies[j] |= U(F::is_lossy(x[i + j]));
    };
    int64_t i = 0;
    for (; i + kUnroll <= n; i += kUnroll) {
      for (int64_t j = 0; j < kUnroll; ++j) add(i, j);
    }
    for (; i < n; ++i) add(i, 0);
    for (int64_t j = 0; j < kUnroll; ++j) {
      low = lows[j] < low ? lows[j] : low;
      high = highs[j] > high ? highs[j] : high;
      lossy |= lossies[j] != 0;
    }
  }
};

// One row's sort: keys count from `base`, upwards or downwards.
template <class F>
struct Row {
  using U = typename F::Key;
  const U* x;
  int64_t n;
  bool descending;
  Range<F> range;
  U base;
  int bits, dropped;  // of the keys; `dropped` low ones do not fit a word

  Row(const U* x_, int64_t n_, bool descending_)
      : x(x_), n(n_), descending(descending_), range(x_, n_) {
    base = descending ? range.high : range.low;
    bits = std::bit_width(U(range.high - range.low));
    dropped = bits > 32 ? bits - 32 : 0;
  }

  U key(int64_t i) const {
    U k = F::encode(x[i]);
    return descending ? U(base - k) : U(k - base);
  }

  // Returns the sorted words, in a or b.
  uint64_t* sort(uint64_t* a, uint64_t* b) const {
    for (int64_t i = 0; i < n; ++i) a[i] = make_word(key(i) >> dropped, i);
    uint64_t* sorted = radix_sort(a, b, n, 32, 32 + bits - dropped);
    if (dropped) sort_runs(sorted, sorted == a ? b : a);
    return sorted;
  }

  // Sorts what the top bits leave equal by the low bits.
  void sort_runs(uint64_t* words, uint64_t* spare) const {
    const uint64_t mask = (uint64_t(1) << dropped) - 1;
    for (int64_t begin = 0, end; begin < n; begin = end) {
      const uint64_t top = key_of(words[begin]);
      for (end = begin + 1; end < n && key_of(words[end]) == top;) ++end;
      if (end - begin == 1) continue;
      uint64_t* run = words + begin;
      for (int64_t i = 0; i < end - begin; ++i) {
        int64_t at = position_of(run[i]);
        run[i] = make_word(uint64_t(key(at)) & mask, at);
      }
      uint64_t* sorted = radix_sort(run, spare, end - begin, 32, 32 + dropped);
      if (sorted != run) std::memcpy(run, sorted, size_t(end - begin) * 8);
    }
  }

  void write(const uint64_t* sorted, U* values, int64_t* indices) const {
    for (int64_t i = 0; indices && i < n; ++i) indices[i] = position_of(sorted[i]);
    if (!values) return;
    if (range.lossy || dropped) {
      for (int64_t i = 0; i < n; ++i) values[i] = x[position_of(sorted[i])];
    } else {
      for (int64_t i = 0; i < n; ++i) {
        U k = U(key_of(sorted[i]));
        values[i] = F::decode(descending ? U(base - k) : U(base + k));
      }
    }
  }
};

}  // namespace

uint64_t* radix_sort(uint64_t* a, uint64_t* b, int64_t n, int low, int high) {
  if (n <= kInsertion) {
    insertion_sort(a, n);
    return a;
  }
  const int bits = high - low;
  if (bits == 0) return a;
  if (n >= kWideFrom && bits > kNarrow) {
    switch ((bits + kWide - 1) / kWide) {
      case 1:
        return radix_passes<kWide, 1>(a, b, n, low);
      case 2:
        return radix_passes<kWide, 2>(a, b, n, low);
      default:
        return radix_passes<kWide, 3>(a, b, n, low);
    }
  }
  switch ((bits + kNarrow - 1) / kNarrow) {
    case 1:
      return radix_passes<kNarrow, 1>(a, b, n, low);
    case 2:
      return radix_passes<kNarrow, 2>(a, b, n, low);
    case 3:
      return radix_passes<kNarrow, 3>(a, b, n, low);
    default:
      return radix_passes<kNarrow, 4>(a, b, n, low);
  }
}

int64_t group_count(int64_t rows, int64_t cols) {
  constexpr int64_t kWorthSharing = 8192;
  if (rows * cols < kWorthSharing) return 1;
  int64_t most = 4 * int64_t(num_threads());
  return rows < most ? rows : most;
}

void check_positions(int64_t cols) {
  if (cols < kMaxPositions) return;
  throw NotImplementedError("sort: a row must have fewer than 2**32 elements, got " +
                            std::to_string(cols));
}

}  // namespace order

void sort_rows(DType dtype, const void* data, int64_t rows, int64_t cols, bool descending,
               void* values, int64_t* indices) {
  if (rows == 0 || cols == 0) return;
  order::check_positions(cols);
  const int64_t groups = order::group_count(rows, cols);
  order::Buffer<uint64_t> scratch(groups * 2 * cols);
  order::with_format(dtype, [&](auto format) {
    using F = decltype(format);
    using U = typename F::Key;
    parallel_for(groups, 1, [&](int64_t g, int64_t end) {
      uint64_t *a = scratch.get() + g * 2 * cols, *b = a + cols;
      for (int64_t r = rows * g / groups; r < rows * end / groups; ++r) {
        order::Row<F> row(static_cast<const U*>(data) + r * cols, cols, descending);
        row.write(row.sort(a, b), values ? static_cast<U*>(values) + r * cols : nullptr,
                  indices ? indices + r * cols : nullptr);
      }
    });
  });
}

}  // namespace flambeau
