// unique: of elements, of runs, of rows.
#include <algorithm>
#include <bit>
#include <numeric>

#include "flambeau/kernels/cpu/order_keys.h"
#include "flambeau/kernels/cpu/sort.h"

namespace flambeau {
namespace order {
namespace {

// Numbers the runs of equal elements in order; a run's members come from one caller in that
// caller's order.
struct Runs {
  int64_t* inverse;
  int64_t* counts;
  int64_t found = 0;

  void add(int64_t position, bool starts) {
    found += starts;
    if (inverse) inverse[position] = found - 1;
    if (!counts) return;
    counts[found - 1] = starts ? 1 : counts[found - 1] + 1;
  }
};

template <class F>
bool differ(typename F::Key a, typename F::Key b) {
  return a != b || F::is_nan(a);
}

template <class F>
int64_t unique_by_sort(const typename F::Key* x, int64_t n, typename F::Key* values, Runs runs,
                       DType dtype) {
  Buffer<int64_t> sorted(n);
  sort_rows(dtype, x, 1, n, false, nullptr, sorted.get());
  typename F::Key last = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = sorted.get()[i];
    auto key = F::encode(x[at]);
    bool starts = i == 0 || differ<F>(key, last);
    runs.add(at, starts);
    if (starts) values[runs.found - 1] = x[at];
    last = key;
  }
  return runs.found;
}

// Where keys span a small range: counts every key of it, then ranks those that occur. No sort.
template <class F>
int64_t unique_by_count(const typename F::Key* x, int64_t n, typename F::Key low, int64_t range,
                        typename F::Key* values, int64_t* inverse, int64_t* counts) {
  using U = typename F::Key;
  Buffer<int64_t> slots(range);
  int64_t* slot = slots.get();
  std::fill_n(slot, range, 0);
  for (int64_t i = 0; i < n; ++i) ++slot[U(F::encode(x[i]) - low)];
  int64_t found = 0;
  for (int64_t s = 0; s < range; ++s) {
    if (slot[s] == 0) continue;
    values[found] = F::decode(U(low + U(s)));
    if (counts) counts[found] = slot[s];
    slot[s] = found++;
  }
  for (int64_t i = 0; inverse && i < n; ++i) inverse[i] = slot[U(F::encode(x[i]) - low)];
  return found;
}

template <class F>
int64_t unique_of(const typename F::Key* x, int64_t n, typename F::Key* values, int64_t* inverse,
                  int64_t* counts, DType dtype) {
  using U = typename F::Key;
  if constexpr (!F::is_float) {
    U low = F::kMax, high = 0;
    for (int64_t i = 0; i < n; ++i) {
      U key = F::encode(x[i]);
      low = std::min(low, key);
      high = std::max(high, key);
    }
    uint64_t last = U(high - low);
    if (last <= uint64_t(n) * 2 + 256) {
      return unique_by_count<F>(x, n, low, int64_t(last) + 1, values, inverse, counts);
    }
  }
  return unique_by_sort<F>(x, n, values, {inverse, counts}, dtype);
}

// Rows as keys of 64 bits, so that one comparison serves all dtypes.
struct KeyRows {
  const uint64_t* keys;
  int64_t m;
  const uint64_t* row(int64_t r) const { return keys + r * m; }
  bool less(int64_t a, int64_t b) const {
    return std::lexicographical_compare(row(a), row(a) + m, row(b), row(b) + m);
  }
  bool equal(int64_t a, int64_t b) const { return std::equal(row(a), row(a) + m, row(b)); }
};

}  // namespace
}  // namespace order

int64_t unique_sorted(DType dtype, const void* x, int64_t n, void* values, int64_t* inverse,
                      int64_t* counts) {
  if (n == 0) return 0;
  return order::with_format(dtype, [&](auto format) {
    using F = decltype(format);
    using U = typename F::Key;
    return order::unique_of<F>(static_cast<const U*>(x), n, static_cast<U*>(values), inverse,
                               counts, dtype);
  });
}

int64_t unique_consecutive(DType dtype, const void* data, int64_t n, void* values, int64_t* inverse,
                           int64_t* counts) {
  return order::with_format(dtype, [&](auto format) {
    using F = decltype(format);
    using U = typename F::Key;
    const U* x = static_cast<const U*>(data);
    order::Runs runs{inverse, counts};
    for (int64_t i = 0; i < n; ++i) {
      bool starts = i == 0 || order::differ<F>(F::encode(x[i]), F::encode(x[i - 1]));
      runs.add(i, starts);
      if (starts) static_cast<U*>(values)[runs.found - 1] = x[i];
    }
    return runs.found;
  });
}

int64_t unique_rows(DType dtype, const void* x, int64_t n, int64_t m, bool consecutive,
                    int64_t* firsts, int64_t* inverse, int64_t* counts) {
  order::Buffer<uint64_t> keys(n * m);
  order::with_format(dtype, [&](auto format) {
    using F = decltype(format);
    const auto* elements = static_cast<const typename F::Key*>(x);
    for (int64_t i = 0; i < n * m; ++i) keys.get()[i] = F::encode(elements[i]);
  });
  order::KeyRows rows{keys.get(), m};
  order::Buffer<int64_t> sorted(n);
  std::iota(sorted.get(), sorted.get() + n, 0);
  if (!consecutive) {
    std::stable_sort(sorted.get(), sorted.get() + n,
                     [&](int64_t a, int64_t b) { return rows.less(a, b); });
  }
  order::Runs runs{inverse, counts};
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = sorted.get()[i];
    bool starts = i == 0 || !rows.equal(at, sorted.get()[i - 1]);
    runs.add(at, starts);
    if (starts) firsts[runs.found - 1] = at;
  }
  return runs.found;
}

}  // namespace flambeau
