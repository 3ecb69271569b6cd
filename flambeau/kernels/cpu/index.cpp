// Index checks, advanced indexing and the row and element forms (index_select, index_copy,
// index_fill, take, put).
#include "flambeau/kernels/cpu/index.h"

#include "flambeau/kernels/cpu/elements.h"
#include "flambeau/kernels/cpu/items.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kGrain = 16384;  // elements a chunk moves

// One subtraction and one unsigned comparison test both ends of [low, low + range).
bool any_outside(const int64_t* index, int64_t n, int64_t low, uint64_t range) {
  uint64_t bad[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int j = 0; j < 8; ++j) bad[j] |= uint64_t(index[i + j]) - uint64_t(low) >= range;
  }
  for (; i < n; ++i) bad[0] |= uint64_t(index[i]) - uint64_t(low) >= range;
  return (bad[0] | bad[1] | bad[2] | bad[3] | bad[4] | bad[5] | bad[6] | bad[7]) != 0;
}

void lower_to(int64_t* first, int64_t value) {
  int64_t seen = __atomic_load_n(first, __ATOMIC_RELAXED);
  while (value < seen && !__atomic_compare_exchange_n(first, &seen, value, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
  }
}

// Where a row (a run along the last dim) of the iteration space starts in x, out and the index
// tensors.
struct Cursor {
  const IndexArgs& a;
  int64_t at[kIndexDims] = {};
  char* x;
  char* out;
  const int64_t* index[kIndexDims];

  Cursor(const IndexArgs& args, int64_t row)
      : a(args), x(static_cast<char*>(args.x)), out(static_cast<char*>(args.out)) {
    for (int k = 0; k < a.n_index; ++k) index[k] = a.index[k];
    for (int d = a.ndim - 2; d >= 0; --d) {
      at[d] = row % a.sizes[d];
      row /= a.sizes[d];
      move(d, at[d]);
    }
  }

  void move(int d, int64_t steps) {
    x += steps * a.x_strides[d];
    out += steps * a.out_strides[d];
    for (int k = 0; k < a.n_index; ++k) index[k] += steps * a.index_strides[k][d];
  }

  void next() {
    for (int d = a.ndim - 2; d >= 0; --d) {
      if (++at[d] < a.sizes[d]) return move(d, 1);
      move(d, 1 - a.sizes[d]);
      at[d] = 0;
    }
  }
};

// The last dim, which a row walks.
struct Inner {
  int64_t size = 1, x_stride = 0, out_stride = 0;
  int64_t index_stride[kIndexDims] = {};
  bool indexed = false;

  explicit Inner(const IndexArgs& a) {
    if (a.ndim == 0) return;
    int d = a.ndim - 1;
    size = a.sizes[d];
    x_stride = a.x_strides[d];
    out_stride = a.out_strides[d];
    for (int k = 0; k < a.n_index; ++k) {
      index_stride[k] = a.index_strides[k][d];
      indexed |= index_stride[k] != 0;
    }
  }
};

int64_t row_count(const IndexArgs& a) {
  int64_t rows = 1;
  for (int d = 0; d < a.ndim - 1; ++d) rows *= a.sizes[d];
  return rows;
}

template <class T>
struct Get {
  using Item = T;
  static void one(T* x, T* out) { *out = *x; }
  static void run(T* x, T* out, int64_t n) { std::memcpy(out, x, n * sizeof(T)); }
};

template <class T>
struct Set {
  using Item = T;
  static void one(T* x, T* out) { *x = *out; }
  static void run(T* x, T* out, int64_t n) { std::memcpy(x, out, n * sizeof(T)); }
};

template <class E>
struct Accumulate {
  using Item = typename E::Storage;
  static void one(Item* x, Item* out) {
    if constexpr (E::is_bool) {
      *x |= *out;
    } else {
      *x = E::store(add(E::load(*x), E::load(*out)));
    }
  }
  static void run(Item* __restrict x, Item* __restrict out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) one(x + i, out + i);
  }
};

// A run whose place is the same for all its elements but for the plain stride.
template <class Op>
void plain_run(const IndexArgs& a, const Inner& inner, const Cursor& c, int64_t first, int64_t n) {
  using T = typename Op::Item;
  char* x = c.x + first * inner.x_stride;
  char* out = c.out + first * inner.out_stride;
  for (int k = 0; k < a.n_index; ++k) x += wrap(*c.index[k], a.index_size[k]) * a.index_x_stride[k];
  if (inner.x_stride == sizeof(T) && inner.out_stride == sizeof(T)) {
    return Op::run(reinterpret_cast<T*>(x), reinterpret_cast<T*>(out), n);
  }
  for (int64_t i = 0; i < n; ++i, x += inner.x_stride, out += inner.out_stride) {
    Op::one(reinterpret_cast<T*>(x), reinterpret_cast<T*>(out));
  }
}

// A run along which the indices change. kCount: how many index tensors, 0 for any number.
template <class Op, int kCount>
void indexed_run(const IndexArgs& a, const Inner& inner, const Cursor& c, int64_t first,
                 int64_t n) {
  using T = typename Op::Item;
  const int count = kCount ? kCount : a.n_index;
  for (int64_t i = first; i < first + n; ++i) {
    char* x = c.x + i * inner.x_stride;
    for (int k = 0; k < count; ++k) {
      x += wrap(c.index[k][i * inner.index_stride[k]], a.index_size[k]) * a.index_x_stride[k];
    }
    Op::one(reinterpret_cast<T*>(x), reinterpret_cast<T*>(c.out + i * inner.out_stride));
  }
}

template <class Op>
void run(const IndexArgs& a, const Inner& inner, const Cursor& c, int64_t first, int64_t n) {
  if (!inner.indexed) return plain_run<Op>(a, inner, c, first, n);
  if (a.n_index == 1) return indexed_run<Op, 1>(a, inner, c, first, n);
  if (a.n_index == 2) return indexed_run<Op, 2>(a, inner, c, first, n);
  indexed_run<Op, 0>(a, inner, c, first, n);
}

// Rows lie anywhere: ask for the one eight steps ahead.
void prefetch_ahead(const IndexArgs& a, const Cursor& c, int64_t row_bytes) {
  constexpr int64_t kAhead = 8;
  int d = a.ndim - 2;
  if (c.at[d] + kAhead >= a.sizes[d]) return;
  int64_t index = wrap(c.index[0][kAhead * a.index_strides[0][d]], a.index_size[0]);
  const char* x = c.x + kAhead * a.x_strides[d] + index * a.index_x_stride[0];
  for (int64_t b = 0; b < row_bytes; b += 64) __builtin_prefetch(x + b);
}

template <class T>
void get_all(const IndexArgs& a) {
  Inner inner(a);
  int64_t row_bytes = inner.size * int64_t(sizeof(T));
  bool prefetch = a.ndim >= 2 && a.n_index == 1 && !inner.indexed && row_bytes <= 512;
  parallel_for(row_count(a) * inner.size, kGrain, [&](int64_t begin, int64_t end) {
    Cursor c(a, begin / inner.size);
    for (int64_t first = begin % inner.size; begin < end; first = 0, c.next()) {
      int64_t n = least(inner.size - first, end - begin);
      if (prefetch) prefetch_ahead(a, c, row_bytes);
      run<Get<T>>(a, inner, c, first, n);
      begin += n;
    }
  });
}

// Rows may name the same place, so their order must hold. Threads share the work by columns, which
// cannot meet.
template <class Op>
void write_all(const IndexArgs& a) {
  Inner inner(a);
  int64_t rows = row_count(a), parts = 1;
  if (rows * inner.size == 0) return;
  if (!inner.indexed && rows * inner.size >= 2 * kGrain) {
    int64_t most_parts = inner.size * int64_t(sizeof(typename Op::Item)) / 256;
    parts = most<int64_t>(1, least<int64_t>(num_threads(), most_parts));
  }
  parallel_for(parts, 1, [&](int64_t part, int64_t end) {
    for (; part < end; ++part) {
      int64_t first = inner.size * part / parts, last = inner.size * (part + 1) / parts;
      Cursor c(a, 0);
      for (int64_t row = 0; row < rows; ++row, c.next()) run<Op>(a, inner, c, first, last - first);
    }
  });
}

// Calls body(o, first, n): rows first .. first + n of outer slice o, in chunks of about kGrain
// items.
template <class F>
void each_row_range(const RowsArgs& a, const F& body) {
  int64_t grain = most<int64_t>(1, kGrain / most<int64_t>(1, a.inner));
  parallel_for(a.outer * a.n, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t o = begin / a.n, first = begin % a.n, n = least(a.n - first, end - begin);
      body(o, first, n);
      begin += n;
    }
  });
}

template <class T>
void select_range(const RowsArgs& a, const T* x, T* out, int64_t first, int64_t n) {
  const int64_t* index = a.index + first;
  out += first * a.inner;
  if (a.inner == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = x[index[i]];
    return;
  }
  const int64_t row_bytes = a.inner * int64_t(sizeof(T)),
                near_bytes = least<int64_t>(row_bytes, 512);
  for (int64_t i = 0; i < n; ++i) {
    if (i + 8 < n) {
      const char* ahead = reinterpret_cast<const char*>(x + index[i + 8] * a.inner);
      for (int64_t b = 0; b < near_bytes; b += 64) __builtin_prefetch(ahead + b);
    }
    std::memcpy(out + i * a.inner, x + index[i] * a.inner, row_bytes);
  }
}

// Equal indices write the same row: slices of `outer` and columns of `inner` are what threads may
// share.
template <class F>
void each_column_range(const RowsArgs& a, const F& body) {
  int64_t columns = most<int64_t>(1, least<int64_t>(num_threads(), a.inner * a.itemsize / 256));
  if (a.n * a.inner < kGrain) columns = 1;
  int64_t grain = most<int64_t>(1, kGrain / most<int64_t>(1, a.n * a.inner));
  parallel_for(a.outer * columns, grain, [&](int64_t unit, int64_t end) {
    for (; unit < end; ++unit) {
      int64_t part = unit % columns;
      int64_t first = a.inner * part / columns, last = a.inner * (part + 1) / columns;
      body(unit / columns, first, last - first);
    }
  });
}

template <class T>
void fill_run(T* x, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) x[i] = value;
}

}  // namespace

int64_t find_bad_index(const int64_t* index, int64_t n, int64_t low, int64_t high) {
  constexpr int64_t kBlock = 2048, kCheckGrain = 65536;
  const uint64_t range = high > low ? uint64_t(high - low) : 0;
  int64_t found = n;
  parallel_for(n, kCheckGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBlock) {
      int64_t count = least(kBlock, end - i);
      if (FL_LIKELY(!any_outside(index + i, count, low, range))) continue;
      while (uint64_t(index[i]) - uint64_t(low) < range) ++i;
      return lower_to(&found, i);
    }
  });
  return found < n ? found : -1;
}

void index_get(const IndexArgs& a) {
  with_item(a.itemsize, [&](auto item) { get_all<decltype(item)>(a); });
}

void index_set(const IndexArgs& a) {
  with_item(a.itemsize, [&](auto item) { write_all<Set<decltype(item)>>(a); });
}

void index_accumulate(DType dtype, const IndexArgs& a) {
  with_element(dtype, [&](auto element) { write_all<Accumulate<decltype(element)>>(a); });
}

void index_select_rows(const RowsArgs& a, const void* x, void* out) {
  with_item(a.itemsize, [&](auto item) {
    using T = decltype(item);
    each_row_range(a, [&](int64_t o, int64_t first, int64_t n) {
      select_range(a, static_cast<const T*>(x) + o * a.x_size * a.inner,
                   static_cast<T*>(out) + o * a.n * a.inner, first, n);
    });
  });
}

void index_copy_rows(const RowsArgs& a, void* x, const void* src) {
  with_item(a.itemsize, [&](auto item) {
    using T = decltype(item);
    each_column_range(a, [&](int64_t o, int64_t first, int64_t count) {
      T* to = static_cast<T*>(x) + o * a.x_size * a.inner + first;
      const T* from = static_cast<const T*>(src) + o * a.n * a.inner + first;
      for (int64_t i = 0; i < a.n; ++i) {
        std::memcpy(to + a.index[i] * a.inner, from + i * a.inner, count * sizeof(T));
      }
    });
  });
}

void index_fill_rows(const RowsArgs& a, void* x, const void* value) {
  with_item(a.itemsize, [&](auto item) {
    using T = decltype(item);
    T v;
    std::memcpy(&v, value, sizeof(T));
    each_column_range(a, [&](int64_t o, int64_t first, int64_t count) {
      T* to = static_cast<T*>(x) + o * a.x_size * a.inner + first;
      for (int64_t i = 0; i < a.n; ++i) fill_run(to + a.index[i] * a.inner, count, v);
    });
  });
}

void take_items(int64_t itemsize, const void* x, int64_t x_size, const int64_t* index, int64_t n,
                void* out) {
  with_item(itemsize, [&](auto item) {
    using T = decltype(item);
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        static_cast<T*>(out)[i] = static_cast<const T*>(x)[wrap(index[i], x_size)];
      }
    });
  });
}

void put_items(int64_t itemsize, void* x, int64_t x_size, const int64_t* index, int64_t n,
               const void* src) {
  with_item(itemsize, [&](auto item) {
    using T = decltype(item);
    for (int64_t i = 0; i < n; ++i) {
      static_cast<T*>(x)[wrap(index[i], x_size)] = static_cast<const T*>(src)[i];
    }
  });
}

void put_add_items(DType dtype, void* x, int64_t x_size, const int64_t* index, int64_t n,
                   const void* src) {
  with_element(dtype, [&](auto element) {
    using Op = Accumulate<decltype(element)>;
    using T = typename Op::Item;
    T* from = const_cast<T*>(static_cast<const T*>(src));
    for (int64_t i = 0; i < n; ++i) {
      Op::one(static_cast<T*>(x) + wrap(index[i], x_size), from + i);
    }
  });
}

}  // namespace flambeau::FL_ISA
