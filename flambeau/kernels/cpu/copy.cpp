// Strided copies. Dims are ordered by the destination and merged, then one of four inner loops
// runs: a run of memory, a tile transposition, a repeated or reversed element, or plain strides.
#include "flambeau/kernels/cpu/items.h"
#include "flambeau/kernels/cpu/rearrange.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kGrainBytes = 1 << 18;

struct Dim {
  int64_t size, src, dst;
};

// The copy after ordering and merging: dims[n - 1] is innermost.
struct Plan {
  int n = 0;
  Dim dims[kCopyDims];
};

int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

// Whether `a` should be the outer of two dims: writes should be sequential, then reads.
bool outer_of(const Dim& a, const Dim& b) {
  if (magnitude(a.dst) != magnitude(b.dst)) return magnitude(a.dst) > magnitude(b.dst);
  return magnitude(a.src) > magnitude(b.src);
}

void insert(Plan& plan, Dim dim) {
  int i = plan.n++;
  for (; i > 0 && outer_of(dim, plan.dims[i - 1]); --i) plan.dims[i] = plan.dims[i - 1];
  plan.dims[i] = dim;
}

void merge(Plan& plan) {
  int n = 0;
  for (int i = 1; i < plan.n; ++i) {
    Dim& outer = plan.dims[n];
    const Dim& inner = plan.dims[i];
    if (outer.src == inner.size * inner.src && outer.dst == inner.size * inner.dst) {
      outer = {outer.size * inner.size, inner.src, inner.dst};
    } else {
      plan.dims[++n] = inner;
    }
  }
  plan.n = n + 1;
}

// Copies sizes with at least one dim; false if there is nothing to copy.
bool make_plan(Plan& plan, int ndim, const int64_t* sizes, const int64_t* src, const int64_t* dst) {
  for (int d = 0; d < ndim; ++d) {
    if (sizes[d] == 0) return false;
    if (sizes[d] != 1) insert(plan, {sizes[d], src[d], dst[d]});
  }
  if (plan.n == 0) plan.dims[plan.n++] = {1, 1, 1};
  merge(plan);
  return true;
}

// Offsets of src and dst at a flat position over the dims [0, n) of a plan, advanced one by one.
struct Offsets {
  const Plan& plan;
  int n;
  int64_t src = 0, dst = 0;
  int64_t at[kCopyDims];

  Offsets(const Plan& p, int dims, int64_t position) : plan(p), n(dims) {
    for (int d = n - 1; d >= 0; --d) {
      at[d] = position % plan.dims[d].size;
      position /= plan.dims[d].size;
      src += at[d] * plan.dims[d].src;
      dst += at[d] * plan.dims[d].dst;
    }
  }

  void next() {
    for (int d = n - 1; d >= 0; --d) {
      const Dim& dim = plan.dims[d];
      src += dim.src;
      dst += dim.dst;
      if (++at[d] < dim.size) return;
      src -= dim.size * dim.src;
      dst -= dim.size * dim.dst;
      at[d] = 0;
    }
  }
};

int64_t count(const Plan& plan, int dims) {
  int64_t n = 1;
  for (int d = 0; d < dims; ++d) n *= plan.dims[d].size;
  return n;
}

template <class T>
inline constexpr int kLanes = 16 / sizeof(T);
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(16)));
};
template <>
struct VectorOf<Item16> {};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
Vector<T> load(const T* x) {
  Vector<T> v;
  __builtin_memcpy(&v, x, 16);
  return v;
}
template <class T>
void store(T* x, Vector<T> v) {
  __builtin_memcpy(x, &v, 16);
}

// (a0 b0 a1 b1 ...) of the low or the high halves.
template <class T, bool kHigh>
Vector<T> interleave(Vector<T> a, Vector<T> b) {
  constexpr int n = kLanes<T>, h = kHigh ? n / 2 : 0;
  if constexpr (n == 16) {
    return __builtin_shufflevector(a, b, h, h + 16, h + 1, h + 17, h + 2, h + 18, h + 3, h + 19,
                                   h + 4, h + 20, h + 5, h + 21, h + 6, h + 22, h + 7, h + 23);
  } else if constexpr (n == 8) {
    return __builtin_shufflevector(a, b, h, h + 8, h + 1, h + 9, h + 2, h + 10, h + 3, h + 11);
  } else if constexpr (n == 4) {
    return __builtin_shufflevector(a, b, h, h + 4, h + 1, h + 5);
  } else {
    return __builtin_shufflevector(a, b, h, h + 2);
  }
}

template <class T>
Vector<T> reverse(Vector<T> v) {
  constexpr int n = kLanes<T>;
  if constexpr (n == 16) {
    return __builtin_shufflevector(v, v, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  } else if constexpr (n == 8) {
    return __builtin_shufflevector(v, v, 7, 6, 5, 4, 3, 2, 1, 0);
  } else if constexpr (n == 4) {
    return __builtin_shufflevector(v, v, 3, 2, 1, 0);
  } else {
    return __builtin_shufflevector(v, v, 1, 0);
  }
}

template <class T>
inline constexpr int64_t kTile = sizeof(T) >= 8 ? 32 : 64;

// Transposes a square of kLanes x kLanes items. Interleaving row i with row i + n / 2 rotates the
// bits of an item's position by one; log2(n) rounds exchange row and column.
template <class T>
void transpose_square(const T* src, int64_t src_stride, T* dst, int64_t dst_stride) {
  constexpr int n = kLanes<T>;
  Vector<T> rows[n], next[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) rows[i] = load(src + i * src_stride);
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      next[2 * i] = interleave<T, false>(rows[i], rows[i + n / 2]);
      next[2 * i + 1] = interleave<T, true>(rows[i], rows[i + n / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) store(dst + i * dst_stride, rows[i]);
}

// n items, at most kTile. Left to itself the compiler copies so few with a string instruction,
// which starts slowly.
template <class T>
void copy_few(const T* src, T* dst, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) __builtin_memcpy(dst + i, src + i, 16);
  for (; i < n; ++i) dst[i] = src[i];
}

// Asks for the lines of `rows` rows of one tile: too short for the hardware to see a stream in
// them.
template <class T, bool kWrite>
void prefetch_tile(const T* x, int64_t stride, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t b = 0; b < kTile<T> * int64_t(sizeof(T)); b += 64) {
      __builtin_prefetch(reinterpret_cast<const char*>(x + r * stride) + b, kWrite);
    }
  }
}

// dst[r * dst_stride + c] = src[c * src_stride + r] for r < rows, c < cols.
template <class T>
void turn(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows,
          int64_t cols) {
  int64_t whole_rows = 0, whole_cols = 0;
  if constexpr (sizeof(T) < 16) {
    constexpr int n = kLanes<T>;
    whole_rows = rows - rows % n;
    whole_cols = cols - cols % n;
    for (int64_t c = 0; c < whole_cols; c += n) {
      for (int64_t r = 0; r < whole_rows; r += n) {
        transpose_square(src + c * src_stride + r, src_stride, dst + r * dst_stride + c,
                         dst_stride);
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_cols : 0; c < cols; ++c) {
      dst[r * dst_stride + c] = src[c * src_stride + r];
    }
  }
}

// The same for at most kTile of each. The source goes through a dense buffer: with a stride of some
// power of two its rows would fight for the same few cache lines.
template <class T>
void transpose_tile(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows,
                    int64_t cols) {
  constexpr int64_t kStride = kTile<T>;
  alignas(64) T buffer[kTile<T> * kStride];
  for (int64_t c = 0; c < cols; ++c) {
    copy_few(src + c * src_stride, buffer + c * kStride, rows);
  }
  turn(buffer, kStride, dst, dst_stride, rows, cols);
}

// The last dim is contiguous in dst, dim `t` is in src. Strips are several tiles wide: a column of
// tiles would touch a page of the source per row for 256 bytes, and page walks would take the time.
template <class T>
void copy_transposed(Plan plan, int t, const T* src, T* dst) {
  constexpr int64_t kStrip = 4 * kTile<T>;
  const Dim inner = plan.dims[plan.n - 1], row = plan.dims[t];
  for (int d = t; d + 1 < plan.n; ++d) plan.dims[d] = plan.dims[d + 1];
  const int outer = plan.n - 2;
  const int64_t strips = (row.size + kStrip - 1) / kStrip;
  const int64_t strip_bytes = least(kStrip, row.size) * inner.size * int64_t(sizeof(T));
  const int64_t grain = most<int64_t>(1, kGrainBytes / strip_bytes);
  parallel_for(count(plan, outer) * strips, grain, [&](int64_t unit, int64_t end) {
    for (; unit < end; ++unit) {
      Offsets at(plan, outer, unit / strips);
      const int64_t first = unit % strips * kStrip, last = least(first + kStrip, row.size);
      for (int64_t c = 0; c < inner.size; c += kTile<T>) {
        const int64_t cols = least(kTile<T>, inner.size - c);
        for (int64_t r = first; r < last; r += kTile<T>) {
          const T* from = src + at.src + r + c * inner.src;
          T* to = dst + at.dst + r * row.dst + c;
          const int64_t rows = least(kTile<T>, last - r);
          if (r + kTile<T> < last) {
            prefetch_tile<T, false>(from + kTile<T>, inner.src, cols);
            prefetch_tile<T, true>(to + kTile<T> * row.dst, row.dst,
                                   least(kTile<T>, last - r - kTile<T>));
          }
          transpose_tile(from, inner.src, to, row.dst, rows, cols);
        }
      }
    }
  });
}

template <class T>
void fill_run(T* dst, int64_t n, T value) {
  int64_t i = 0;
  if constexpr (sizeof(T) < 16) {
    constexpr int lanes = kLanes<T>;
    Vector<T> v = value - Vector<T>{};
    for (; i + lanes <= n; i += lanes) store(dst + i, v);
  }
  for (; i < n; ++i) dst[i] = value;
}

template <class T>
void reverse_run(const T* src, T* dst, int64_t n) {
  int64_t i = 0;
  if constexpr (sizeof(T) < 16) {
    constexpr int lanes = kLanes<T>;
    for (; i + lanes <= n; i += lanes) store(dst + i, reverse<T>(load(src - i - lanes + 1)));
  }
  for (; i < n; ++i) dst[i] = src[-i];
}

template <class T>
void copy_run(const T* src, T* dst, const Dim& dim, int64_t n) {
  if (dim.dst == 1 && dim.src == 1) {
    std::memcpy(dst, src, n * sizeof(T));
  } else if (dim.dst == 1 && dim.src == 0) {
    fill_run(dst, n, *src);
  } else if (dim.dst == 1 && dim.src == -1) {
    reverse_run(src, dst, n);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dim.dst] = src[i * dim.src];
  }
}

// Rows too long for one chunk, cut anywhere.
template <class T>
void copy_long_rows(const Plan& plan, const T* src, T* dst) {
  const Dim inner = plan.dims[plan.n - 1];
  constexpr int64_t grain = kGrainBytes / int64_t(sizeof(T));
  parallel_for(count(plan, plan.n), grain, [&](int64_t begin, int64_t end) {
    Offsets at(plan, plan.n - 1, begin / inner.size);
    for (int64_t first = begin % inner.size; begin < end; first = 0, at.next()) {
      int64_t n = least(inner.size - first, end - begin);
      copy_run(src + at.src + first * inner.src, dst + at.dst + first * inner.dst, inner, n);
      begin += n;
    }
  });
}

// Rows one by one; a loop over the dim above the last keeps short ones cheap.
template <class T>
void copy_rows(const Plan& plan, const T* src, T* dst) {
  const Dim inner = plan.dims[plan.n - 1],
            middle = plan.n > 1 ? plan.dims[plan.n - 2] : Dim{1, 0, 0};
  const int outer = most(plan.n - 2, 0);
  const int64_t grain = most<int64_t>(1, kGrainBytes / (inner.size * int64_t(sizeof(T))));
  parallel_for(count(plan, outer) * middle.size, grain, [&](int64_t begin, int64_t end) {
    Offsets at(plan, outer, begin / middle.size);
    for (int64_t first = begin % middle.size; begin < end; first = 0, at.next()) {
      const int64_t n = least(middle.size - first, end - begin);
      const T* from = src + at.src + first * middle.src;
      T* to = dst + at.dst + first * middle.dst;
      for (int64_t i = 0; i < n; ++i)
        copy_run(from + i * middle.src, to + i * middle.dst, inner, inner.size);
      begin += n;
    }
  });
}

// The dim to transpose with the last one, or -1: it must be contiguous in src, both long enough for
// vectors.
template <class T>
int transposed_dim(const Plan& plan) {
  const Dim& inner = plan.dims[plan.n - 1];
  if (inner.dst != 1 || inner.src == 1 || inner.src == 0 || inner.size < 4) return -1;
  for (int d = plan.n - 2; d >= 0; --d) {
    if (plan.dims[d].src == 1 && plan.dims[d].size >= 4) return d;
  }
  return -1;
}

}  // namespace

void copy_strided(int64_t itemsize, int ndim, const int64_t* sizes, const void* src,
                  const int64_t* src_strides, void* dst, const int64_t* dst_strides) {
  Plan plan;
  if (!make_plan(plan, ndim, sizes, src_strides, dst_strides)) return;
  with_item(itemsize, [&](auto item) {
    using T = decltype(item);
    int t = transposed_dim<T>(plan);
    if (t >= 0) {
      copy_transposed(plan, t, static_cast<const T*>(src), static_cast<T*>(dst));
    } else if (plan.dims[plan.n - 1].size * itemsize >= kGrainBytes) {
      copy_long_rows(plan, static_cast<const T*>(src), static_cast<T*>(dst));
    } else {
      copy_rows(plan, static_cast<const T*>(src), static_cast<T*>(dst));
    }
  });
}

void turn_block(int64_t itemsize, const void* src, int64_t src_stride, void* dst,
                int64_t dst_stride, int64_t rows, int64_t cols) {
  with_item(itemsize, [&](auto item) {
    using T = decltype(item);
    turn(static_cast<const T*>(src), src_stride / itemsize, static_cast<T*>(dst),
         dst_stride / itemsize, rows, cols);
  });
}

}  // namespace flambeau::FL_ISA
