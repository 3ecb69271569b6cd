// searchsorted and counting: bincount, histc.
#include <algorithm>
#include <cmath>

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/order_keys.h"
#include "flambeau/kernels/cpu/sort.h"

namespace flambeau {
namespace order {
namespace {

// Searches kTogether values at once: their loads do not wait for one another, and no branch depends
// on data. The searched part shrinks alike for all of them.
constexpr int kTogether = 8;

template <class F, bool kRight>
void search_block(const typename F::Key* sorted, int64_t size, const typename F::Key* values,
                  int count, int64_t* out) {
  using U = typename F::Key;
  U keys[kTogether] = {};
  int64_t base[kTogether] = {};
  for (int j = 0; j < count; ++j) keys[j] = F::encode(values[j]);
  auto goes_after = [&](int j, int64_t at) {
    U key = F::encode(sorted[at]);
    return kRight ? key <= keys[j] : key < keys[j];
  };
  for (int64_t length = size; length > 1;) {
    int64_t half = length / 2;
    for (int j = 0; j < kTogether; ++j)
      base[j] += half & -int64_t(goes_after(j, base[j] + half - 1));
    length -= half;
  }
  for (int j = 0; j < count; ++j) {
    out[j] = F::is_nan(keys[j]) ? size : base[j] + goes_after(j, base[j]);
  }
}

template <class F, bool kRight>
void search_row(const typename F::Key* sorted, int64_t size, const typename F::Key* values,
                int64_t n, int64_t* out) {
  if (size == 0) {
    std::fill_n(out, n, 0);
    return;
  }
  for (int64_t i = 0; i < n; i += kTogether) {
    int count = int(std::min<int64_t>(kTogether, n - i));
    search_block<F, kRight>(sorted, size, values + i, count, out + i);
  }
}

template <class T>
void add_weights(const int64_t* x, const T* weights, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[x[i]] += weights[i];
}

template <class T>
void histogram(const T* x, int64_t n, T low, T high, int64_t bins, T* out) {
  Buffer<int64_t> counts(bins);
  std::fill_n(counts.get(), bins, 0);
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= low && x[i] <= high)) continue;  // leaves NaN out too
    int64_t bin = int64_t((x[i] - low) * T(bins) / (high - low));
    ++counts.get()[std::min(bin, bins - 1)];
  }
  for (int64_t b = 0; b < bins; ++b) out[b] = T(counts.get()[b]);
}

}  // namespace
}  // namespace order

void searchsorted_rows(DType dtype, const void* sorted, bool one_row, int64_t size,
                       const void* values, int64_t rows, int64_t per_row, bool right,
                       int64_t* out) {
  constexpr int64_t kGrain = 4096;
  order::with_format(dtype, [&](auto format) {
    using F = decltype(format);
    using U = typename F::Key;
    auto run = right ? order::search_row<F, true> : order::search_row<F, false>;
    parallel_for(rows * per_row, kGrain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        int64_t r = begin / per_row, n = std::min(end, (r + 1) * per_row) - begin;
        const U* row = static_cast<const U*>(sorted) + (one_row ? 0 : r * size);
        run(row, size, static_cast<const U*>(values) + begin, n, out + begin);
        begin += n;
      }
    });
  });
}

void bincount_items(const int64_t* x, int64_t n, int64_t bins, int64_t* out) {
  std::fill_n(out, bins, 0);
  // Two counters per bin, as equal values in a row would wait for each other.
  order::Buffer<int64_t> second(bins);
  std::fill_n(second.get(), bins, 0);
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    ++out[x[i]];
    ++second.get()[x[i + 1]];
  }
  if (i < n) ++out[x[i]];
  for (int64_t b = 0; b < bins; ++b) out[b] += second.get()[b];
}

void bincount_weighted(DType dtype, const int64_t* x, const void* weights, int64_t n, int64_t bins,
                       void* out) {
  std::fill_n(static_cast<char*>(out), bins * itemsize(dtype), 0);
  if (dtype == DType::Float32) {
    order::add_weights(x, static_cast<const float*>(weights), n, static_cast<float*>(out));
  } else {
    order::add_weights(x, static_cast<const double*>(weights), n, static_cast<double*>(out));
  }
}

void histc_items(DType dtype, const void* x, int64_t n, double low, double high, int64_t bins,
                 void* out) {
  if (dtype == DType::Float32) {
    order::histogram(static_cast<const float*>(x), n, float(low), float(high), bins,
                     static_cast<float*>(out));
  } else {
    order::histogram(static_cast<const double*>(x), n, low, high, bins, static_cast<double*>(out));
  }
}

}  // namespace flambeau
