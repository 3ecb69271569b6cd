// Softmax over rows, and over the middle dim a tile of columns at a time. Sums of half types are
// kept in float: a bfloat16 running sum of ones sticks at 256.
#include "flambeau/kernels/cpu/softmax.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/rows.h"
#include "flambeau/kernels/math_exp.h"
#include "flambeau/kernels/math_log.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements a thread should get at least
constexpr int64_t kKept =
    4096;  // exponentials of a half row that are kept instead of computed twice
constexpr int64_t kTileCols = 512;
constexpr int64_t kTileBytes =
    1 << 18;                     // a tile that is walked three times stays in the second cache
constexpr int64_t kFlush = 512;  // rows that a float sum may gather

// Writes exp(x - max) to e and returns the sum.
template <class T, class E>
[[gnu::flatten]] double exp_row(const T* x, E* e, int64_t n, ComputeOf<T> max) {
  using V = Vec<ComputeOf<T>>;
  return sums<ComputeOf<T>, 1>(n,
                               [=](V* sum, int64_t i, auto part) {
                                 V y = exp(load(x + i, part) - max);
                                 store(e + i, y, part);
                                 sum[0] = sum[0] + kept(y, part);
                               })
      .v[0];
}

template <class T>
[[gnu::flatten]] double sum_exp_row(const T* x, int64_t n, ComputeOf<T> max) {
  using V = Vec<ComputeOf<T>>;
  return sums<ComputeOf<T>, 1>(n,
                               [=](V* sum, int64_t i, auto part) {
                                 sum[0] = sum[0] + kept(exp(load(x + i, part) - max), part);
                               })
      .v[0];
}

template <class T, class E>
void scale_row(const E* e, T* y, int64_t n, ComputeOf<T> factor) {
  each_register<ComputeOf<T>>(
      n, [=](int64_t i, auto part) { store(y + i, load(e + i, part) * factor, part); });
}

template <class T>
void log_softmax_row(const T* x, T* y, int64_t n) {
  using L = ComputeOf<T>;
  L max = row_max(x, n);
  L log_sum = L(__builtin_log(sum_exp_row(x, n, max)));
  each_register<L>(
      n, [=](int64_t i, auto part) { store(y + i, load(x + i, part) - max - log_sum, part); });
}

template <class T>
void softmax_row(const T* x, T* y, int64_t n) {
  using L = ComputeOf<T>;
  L max = row_max(x, n);
  if constexpr (!kIsHalf<T>) {
    double sum = exp_row(x, y, n, max);
    scale_row(y, y, n, L(1 / sum));
  } else if (n <= kKept) {
    float e[kKept];
    double sum = exp_row(x, e, n, max);
    scale_row(e, y, n, L(1 / sum));
  } else {
    L factor = L(1 / sum_exp_row(x, n, max));
    each_register<L>(n, [=](int64_t i, auto part) {
      store(y + i, exp(load(x + i, part) - max) * factor, part);
    });
  }
}

// exp(y) of a half type is what its softmax would have been before rounding, so log keeps the
// float.
template <class T, bool log>
[[gnu::flatten]] void backward_row(const T* g, const T* y, T* gx, int64_t n) {
  using L = ComputeOf<T>;
  using V = Vec<L>;
  V sum = L(sums<L, 1>(n, [=](V* s, int64_t i, auto part) {
              V gi = load(g + i, part);
              s[0] = s[0] + (log ? gi : gi * load(y + i, part));
            }).v[0]);
  each_register<L>(n, [=](int64_t i, auto part) {
    V gi = load(g + i, part), yi = load(y + i, part);
    store(gx + i, log ? gi - exp(yi) * sum : yi * (gi - sum), part);
  });
}

// -- columns

// Sums of a few columns in L, moved to double every kFlush rows.
template <class L>
struct ColumnSums {
  L part[kTileCols];
  double total[kTileCols];
  int64_t cols, rows = 0;

  explicit ColumnSums(int64_t n) : cols(n) {
    for (int64_t c = 0; c < cols; ++c) part[c] = 0, total[c] = 0;
  }
  void end_row() {
    if (++rows % kFlush == 0) flush();
  }
  void flush() {
    for (int64_t c = 0; c < cols; ++c) total[c] += double(part[c]), part[c] = 0;
  }
};

template <class T>
void max_columns(const T* x, int64_t n, int64_t stride, int64_t cols, ComputeOf<T>* max) {
  using L = ComputeOf<T>;
  using B = Body<ReduceOp::AMax>;
  constexpr int W = Vec<L>::kLanes;
  StateOf<B, L> states[kTileCols / W];
  fold_columns<B, L>(x, stride, n, cols, static_cast<const L*>(nullptr), states);
  each_register<L>(cols, [&](int64_t c, auto part) { store(max + c, states[c / W].value, part); });
}

template <class T, bool log>
[[gnu::flatten]] void forward_columns(const T* x, T* y, int64_t n, int64_t stride, int64_t cols) {
  using L = ComputeOf<T>;
  L max[kTileCols], factor[kTileCols];
  max_columns(x, n, stride, cols, max);
  ColumnSums<L> s(cols);
  constexpr bool kept = !log && !kIsHalf<T>;  // exponentials wait in y
  for (int64_t r = 0; r < n; ++r) {
    each_register<L>(cols, [&](int64_t c, auto part) {
      Vec<L> e = exp(load(x + r * stride + c, part) - load(max + c, part));
      if constexpr (kept) store(y + r * stride + c, e, part);
      store(s.part + c, load(s.part + c, part) + e, part);
    });
    s.end_row();
  }
  s.flush();
  for (int64_t c = 0; c < cols; ++c)
    factor[c] = log ? L(__builtin_log(s.total[c])) : L(1 / s.total[c]);
  for (int64_t r = 0; r < n; ++r) {
    const T* from = kept ? y : x;
    each_register<L>(cols, [&](int64_t c, auto part) {
      Vec<L> v = load(from + r * stride + c, part), f = load(factor + c, part);
      if (!kept) v = v - load(max + c, part);
      store(y + r * stride + c, log ? v - f : kept ? v * f : exp(v) * f, part);
    });
  }
}

template <class T, bool log>
[[gnu::flatten]] void backward_columns(const T* g, const T* y, T* gx, int64_t n, int64_t stride,
                                       int64_t cols) {
  using L = ComputeOf<T>;
  ColumnSums<L> s(cols);
  for (int64_t r = 0; r < n; ++r) {
    each_register<L>(cols, [&](int64_t c, auto part) {
      Vec<L> v = load(g + r * stride + c, part);
      if (!log) v = v * load(y + r * stride + c, part);
      store(s.part + c, load(s.part + c, part) + v, part);
    });
    s.end_row();
  }
  s.flush();
  for (int64_t c = 0; c < cols; ++c) s.part[c] = L(s.total[c]);
  for (int64_t r = 0; r < n; ++r) {
    each_register<L>(cols, [&](int64_t c, auto part) {
      Vec<L> gi = load(g + r * stride + c, part), yi = load(y + r * stride + c, part),
             sum = load(s.part + c, part);
      store(gx + r * stride + c, log ? gi - exp(yi) * sum : yi * (gi - sum), part);
    });
  }
}

// body(offset of a tile's first element, columns) for every tile of [outer][n][inner].
template <class F>
void each_tile(int64_t outer, int64_t n, int64_t inner, int64_t size, const F& body) {
  int64_t cols = kTileBytes / most(1, n * size) / 64 * 64;
  cols = least(least(kTileCols, most(cols, 64)), inner);
  int64_t tiles = ceil_div(inner, cols);
  parallel_for(outer * tiles, most(1, kGrain / (n * cols)), [&](int64_t t0, int64_t t1) {
    for (int64_t t = t0; t < t1; ++t) {
      int64_t c = (t % tiles) * cols;
      body((t / tiles) * n * inner + c, least(cols, inner - c));
    }
  });
}

template <class F>
void each_row(int64_t rows, int64_t n, const F& body) {
  parallel_for(rows, most(1, kGrain / n), [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) body(r * n);
  });
}

template <class T>
void forward(const T* x, T* y, int64_t outer, int64_t n, int64_t inner, bool log) {
  if (inner == 1) {
    each_row(outer, n, [=](int64_t at) {
      log ? log_softmax_row(x + at, y + at, n) : softmax_row(x + at, y + at, n);
    });
  } else {
    each_tile(outer, n, inner, sizeof(T), [=](int64_t at, int64_t cols) {
      log ? forward_columns<T, true>(x + at, y + at, n, inner, cols)
          : forward_columns<T, false>(x + at, y + at, n, inner, cols);
    });
  }
}

template <class T>
void backward(const T* g, const T* y, T* gx, int64_t outer, int64_t n, int64_t inner, bool log) {
  if (inner == 1) {
    each_row(outer, n, [=](int64_t at) {
      log ? backward_row<T, true>(g + at, y + at, gx + at, n)
          : backward_row<T, false>(g + at, y + at, gx + at, n);
    });
  } else {
    each_tile(outer, n, inner, 2 * sizeof(T), [=](int64_t at, int64_t cols) {
      log ? backward_columns<T, true>(g + at, y + at, gx + at, n, inner, cols)
          : backward_columns<T, false>(g + at, y + at, gx + at, n, inner, cols);
    });
  }
}

}  // namespace

void softmax_forward(DType dtype, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
                     bool log) {
  if (outer * n * inner == 0) return;
  with_float_type(dtype, [=]<class T>(T) {
    forward(static_cast<const T*>(x), static_cast<T*>(y), outer, n, inner, log);
  });
}

void softmax_backward(DType dtype, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                      int64_t inner, bool log) {
  if (outer * n * inner == 0) return;
  with_float_type(dtype, [=]<class T>(T) {
    backward(static_cast<const T*>(g), static_cast<const T*>(y), static_cast<T*>(gx), outer, n,
             inner, log);
  });
}

}  // namespace flambeau::FL_ISA
