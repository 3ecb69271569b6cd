// Selection: topk, kthvalue, median and mode of rows.
#include <algorithm>
#include <bit>
#include <functional>

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/order_keys.h"
#include "flambeau/kernels/cpu/sort.h"

namespace flambeau {
namespace order {
namespace {

// An element as topk ranks it: a larger candidate is better, and of equal keys the smaller position
// is.
struct Candidate {
  uint64_t key;
  int64_t position;
  friend bool operator>(const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key > b.key : a.position < b.position;
  }
};
// With 32-bit keys the same in one word, compared as an integer.
struct Narrow {
  using Item = uint64_t;
  static Item make(uint64_t key, int64_t position) { return key << 32 | uint32_t(~position); }
  static uint64_t key(Item item) { return item >> 32; }
  static int64_t position(Item item) { return int64_t(uint32_t(~item)); }
};
struct Wide {
  using Item = Candidate;
  static Item make(uint64_t key, int64_t position) { return {key, position}; }
  static uint64_t key(const Item& item) { return item.key; }
  static int64_t position(const Item& item) { return item.position; }
};

// Moves the first k of a[0, n), in the order `before`, to its front; the k-th of them is then a[k -
// 1]. Quickselect whose partition has no branch to mispredict, which is what std::nth_element
// spends its time on.
template <class Item, class Before>
void select_first(Item* a, int64_t n, int64_t k, Before before) {
  constexpr int64_t kSmall = 16;
  int64_t low = 0, high = n;
  for (int round = 0; round < 40 && high - low > kSmall; ++round) {
    Item *first = a + low, *middle = a + low + (high - low) / 2, *last = a + high - 1;
    if (before(*middle, *first)) std::swap(*middle, *first);
    if (before(*last, *first)) std::swap(*last, *first);
    if (before(*middle, *last)) std::swap(*middle, *last);
    const Item pivot = *last;
    int64_t place = low;
    for (int64_t i = low; i < high - 1; ++i) {
      Item item = a[i];
      a[i] = a[place];
      a[place] = item;
      place += before(item, pivot);
    }
    std::swap(a[place], *last);
    if (place == k - 1) return;
    if (place < k - 1) {
      low = place + 1;
    } else {
      high = place;
    }
  }
  std::nth_element(a + low, a + k - 1, a + high,
                   before);  // the rest, and inputs that defeat the pivots
}

constexpr int kBlock = 16;

// Keeps the best k of what it is given. When there is no room for another block all but the best k
// are dropped, and from then on only what beats the worst of those is worth adding.
template <class Shape>
struct Best {
  using Item = typename Shape::Item;
  Item* items;
  int64_t k, capacity, count = 0;
  uint64_t threshold = 0;

  bool full() const { return count + kBlock > capacity; }
  void shrink() {
    if (count <= k) return;
    select_first(items, count, k, std::greater<Item>());
    count = k;
    threshold = Shape::key(items[k - 1]);
  }
  void finish() {
    shrink();
    std::sort(items, items + count, std::greater<Item>());
  }
};

template <class F, bool kLargest>
typename F::Key rank(typename F::Key bits) {
  using U = typename F::Key;
  return kLargest ? F::encode(bits) : U(~F::encode(bits));
}

// Whether any of a block beats the threshold: the one loop that sees every element.
template <class F, bool kLargest>
bool any_above(const typename F::Key* x, typename F::Key threshold) {
  typename F::Key above[kBlock];
  for (int j = 0; j < kBlock; ++j) above[j] = rank<F, kLargest>(x[j]) > threshold;
  typename F::Key any = 0;
  for (int j = 0; j < kBlock; ++j) any |= above[j];
  return any != 0;
}

// Adds those of up to kBlock elements that beat the threshold. Branch-free: each is written, the
// count moves or not.
template <class F, bool kLargest, class Shape>
void add_above(const typename F::Key* x, int64_t first, int64_t n, Best<Shape>& best) {
  auto* const items = best.items;
  const auto threshold = typename F::Key(best.threshold);
  int64_t count = best.count;
  for (int64_t i = first; i < first + n; ++i) {
    auto key = rank<F, kLargest>(x[i]);
    items[count] = Shape::make(key, i);
    count += key > threshold;
  }
  best.count = count;
}

template <class F, bool kLargest, class Shape>
void select_best(const typename F::Key* x, int64_t n, Best<Shape>& best) {
  const int64_t head = std::min(n, best.capacity - kBlock);
  for (int64_t i = 0; i < head; ++i) best.items[i] = Shape::make(rank<F, kLargest>(x[i]), i);
  best.count = head;
  best.shrink();
  int64_t i = head;
  for (; i + kBlock <= n; i += kBlock) {
    if (!any_above<F, kLargest>(x + i, typename F::Key(best.threshold))) continue;
    add_above<F, kLargest>(x, i, kBlock, best);
    if (best.full()) best.shrink();
  }
  if (i < n) add_above<F, kLargest>(x, i, n - i, best);
  best.finish();
}

template <class F>
using ShapeOf = std::conditional_t<sizeof(typename F::Key) <= 4, Narrow, Wide>;

// Twice k makes shrinking linear in what was added; the rest keeps it rare for a small k.
int64_t capacity_for(int64_t k) { return 2 * k + 2 * kBlock; }

template <class F, bool kLargest>
void topk_of(const typename F::Key* x, int64_t rows, int64_t cols, int64_t k,
             typename F::Key* values, int64_t* indices) {
  using Shape = ShapeOf<F>;
  const int64_t groups = group_count(rows, cols), capacity = capacity_for(k);
  Buffer<typename Shape::Item> scratch(groups * capacity);
  parallel_for(groups, 1, [&](int64_t g, int64_t end) {
    for (int64_t r = rows * g / groups; r < rows * end / groups; ++r) {
      const auto* row = x + r * cols;
      Best<Shape> best{scratch.get() + g * capacity, k, capacity};
      select_best<F, kLargest>(row, cols, best);
      for (int64_t i = 0; i < k; ++i) {
        int64_t at = Shape::position(best.items[i]);
        values[r * k + i] = row[at];
        indices[r * k + i] = at;
      }
    }
  });
}

// A large k: the head of the sorted row.
void topk_by_sort(DType dtype, const void* x, int64_t rows, int64_t cols, int64_t k, bool largest,
                  char* values, int64_t* indices) {
  const int64_t size = itemsize(dtype);
  Buffer<char> sorted(cols * size);
  Buffer<int64_t> positions(cols);
  for (int64_t r = 0; r < rows; ++r) {
    sort_rows(dtype, static_cast<const char*>(x) + r * cols * size, 1, cols, largest, sorted.get(),
              positions.get());
    std::copy_n(sorted.get(), k * size, values + r * k * size);
    std::copy_n(positions.get(), k, indices + r * k);
  }
}

// Finds one element by rank. Words hold 32 bits of the key and the position; wider keys go on with
// their low half among those that share the high one.
template <class F>
struct Selector {
  using U = typename F::Key;
  static constexpr int kDropped = sizeof(U) == 8 ? 32 : 0;
  static constexpr int kDigit = sizeof(U) == 1 ? 8 : 11;
  static constexpr int kShift = 8 * sizeof(U) - kDigit;
  const U* x;
  int64_t n;
  uint64_t* words;  // room for n

  // The position of the element of rank k (from 0) in a stable sort.
  int64_t find(int64_t k) {
    constexpr int64_t kWorthCounting = 4096;
    int64_t count = n < kWorthCounting ? all_words() : words_of_digit(k);
    select_first(words, count, k + 1, std::less<uint64_t>());
    if (kDropped == 0) return position_of(words[k]);
    const uint64_t top = key_of(words[k]);
    int64_t equal = 0, before = 0;
    for (int64_t i = 0; i < count; ++i) {
      before += key_of(words[i]) < top;
      if (key_of(words[i]) != top) continue;
      int64_t at = position_of(words[i]);
      words[equal++] = make_word(uint64_t(F::encode(x[at])) & 0xffffffff, at);
    }
    select_first(words, equal, k - before + 1, std::less<uint64_t>());
    return position_of(words[k - before]);
  }

  int64_t all_words() {
    for (int64_t i = 0; i < n; ++i) words[i] = make_word(uint64_t(F::encode(x[i])) >> kDropped, i);
    return n;
  }

  // Only the elements whose leading digit is that of rank k; k becomes the rank among them.
  int64_t words_of_digit(int64_t& k) {
    int64_t counts[2][1 << kDigit] = {};  // two, as equal digits in a row would wait for each other
    int64_t i = 0;
    for (; i + 2 <= n; i += 2) {
      ++counts[0][F::encode(x[i]) >> kShift];
      ++counts[1][F::encode(x[i + 1]) >> kShift];
    }
    if (i < n) ++counts[0][F::encode(x[i]) >> kShift];
    int64_t digit = 0;
    for (int64_t here; k >= (here = counts[0][digit] + counts[1][digit]); ++digit) k -= here;
    int64_t count = 0;
    for (i = 0; i < n; ++i) {
      U key = F::encode(x[i]);
      words[count] = make_word(uint64_t(key) >> kDropped, i);
      count += int64_t(key >> kShift) == digit;
    }
    return count;
  }
};

template <class F>
int64_t first_nan(const typename F::Key* x, int64_t n) {
  for (int64_t i = 0; F::is_float && i < n; ++i) {
    if (F::is_nan(F::encode(x[i]))) return i;
  }
  return -1;
}

template <class F>
int64_t median_position(const typename F::Key* x, int64_t n, bool ignore_nan, uint64_t* words) {
  int64_t nan = first_nan<F>(x, n), nans = 0;
  if (nan >= 0 && !ignore_nan) return nan;
  for (int64_t i = nan; nan >= 0 && i < n; ++i) nans += F::is_nan(F::encode(x[i]));
  if (nans == n) return 0;
  return Selector<F>{x, n, words}.find((n - nans - 1) / 2);
}

template <class F>
int64_t mode_position(const typename F::Key* x, int64_t n, const int64_t* sorted) {
  int64_t longest = 0, mode = 0;
  for (int64_t begin = 0, end; begin < n; begin = end) {
    auto key = F::encode(x[sorted[begin]]);
    for (end = begin + 1; end < n && F::encode(x[sorted[end]]) == key;) ++end;
    if (end - begin > longest) {
      longest = end - begin;
      mode = sorted[end - 1];
    }
  }
  return mode;
}

// Writes the element and position that pick(format, row, scratch) chooses of every row. Scratch:
// cols words.
template <class Pick>
void pick_per_row(DType dtype, const void* data, int64_t rows, int64_t cols, void* values,
                  int64_t* indices, const Pick& pick) {
  check_positions(cols);
  const int64_t groups = group_count(rows, cols);
  Buffer<uint64_t> scratch(groups *
                           (cols + 1));  // one more: branch-free loops write past their last word
  with_format(dtype, [&](auto format) {
    using U = typename decltype(format)::Key;
    const U* x = static_cast<const U*>(data);
    parallel_for(groups, 1, [&](int64_t g, int64_t end) {
      for (int64_t r = rows * g / groups; r < rows * end / groups; ++r) {
        int64_t at = pick(format, x + r * cols, scratch.get() + g * (cols + 1));
        static_cast<U*>(values)[r] = x[r * cols + at];
        if (indices) indices[r] = at;
      }
    });
  });
}

}  // namespace
}  // namespace order

void topk_rows(DType dtype, const void* x, int64_t rows, int64_t cols, int64_t k, bool largest,
               void* values, int64_t* indices) {
  if (rows == 0 || k == 0) return;
  order::check_positions(cols);
  if (k > cols / 4 && k > 256) {
    return order::topk_by_sort(dtype, x, rows, cols, k, largest, static_cast<char*>(values),
                               indices);
  }
  order::with_format(dtype, [&](auto format) {
    using F = decltype(format);
    using U = typename F::Key;
    auto run = largest ? order::topk_of<F, true> : order::topk_of<F, false>;
    run(static_cast<const U*>(x), rows, cols, k, static_cast<U*>(values), indices);
  });
}

void kthvalue_rows(DType dtype, const void* x, int64_t rows, int64_t cols, int64_t k, void* values,
                   int64_t* indices) {
  order::pick_per_row(dtype, x, rows, cols, values, indices,
                      [=](auto format, const auto* row, uint64_t* words) {
                        return order::Selector<decltype(format)>{row, cols, words}.find(k - 1);
                      });
}

void median_rows(DType dtype, const void* x, int64_t rows, int64_t cols, bool ignore_nan,
                 void* values, int64_t* indices) {
  order::pick_per_row(
      dtype, x, rows, cols, values, indices, [=](auto format, const auto* row, uint64_t* words) {
        return order::median_position<decltype(format)>(row, cols, ignore_nan, words);
      });
}

void mode_rows(DType dtype, const void* x, int64_t rows, int64_t cols, void* values,
               int64_t* indices) {
  order::Buffer<int64_t> sorted(rows * cols);
  sort_rows(dtype, x, rows, cols, false, nullptr, sorted.get());
  order::with_format(dtype, [&](auto format) {
    using F = decltype(format);
    using U = typename F::Key;
    const U* data = static_cast<const U*>(x);
    for (int64_t r = 0; r < rows; ++r) {
      int64_t at = order::mode_position<F>(data + r * cols, cols, sorted.get() + r * cols);
      static_cast<U*>(values)[r] = data[r * cols + at];
      if (indices) indices[r] = at;
    }
  });
}

}  // namespace flambeau
