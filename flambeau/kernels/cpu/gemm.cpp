// The matrix product of floating types: which loop a size deserves, and the blocked loop itself.
#include "flambeau/kernels/cpu/gemm.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_pack.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

// A panel of a (kRows x depth) stays in L1, a block of b (depth x kBlockColumns) in L2.
template <class T>
inline constexpr int64_t kDepth = 1600 / int64_t(sizeof(T));
template <class T>
inline constexpr int64_t kBlockColumns = (kVectorBytes == 64 ? 2048 : 1536) / 4;
// Bounds the packed memory of huge products; packing again costs one part in this many.
inline constexpr int64_t kSuper = 4096;

// Where c goes and what is done to its sums. T is the type of the sums.
template <class T>
struct Target {
  T* c;
  int64_t c_row;
  Epilogue<T> end;

  // Part of k from p to q: bias and activation wait for the last part.
  Epilogue<T> part(bool first, bool last) const {
    Epilogue<T> e = end;
    if (!first) e.beta = 1;
    if (!last) e.bias = nullptr, e.relu = false;
    e.settle();
    return e;
  }
};

template <class T>
int64_t depth_of(int64_t k) {
  return ceil_div(k, ceil_div(k, kDepth<T>));
}

// Rows of a to a panel: as even as possible, since a tile of two rows takes nearly the time of
// four.
int64_t panel_height(int64_t m) { return ceil_div(m, ceil_div(m, kRows)); }

// No packing: a is broadcast and b is read where they lie. For small products, and for few rows (b
// is used too rarely to be worth a copy).
template <class T>
void multiply_direct(const Product<T>& g, const Target<T>& target) {
  const bool wide = g.m <= kWideRows && g.n > kColumns<T>;
  const int64_t columns = wide ? kWideVectors * kLanes<T> : kColumns<T>;
  const int64_t height = panel_height(g.m);
  const int64_t panels = ceil_div(g.m, height), strips = ceil_div(g.n, columns);
  const auto& tiles = kTiles<T, A::Strided, B::Strided>;
  auto body = [&](int64_t begin, int64_t end) {
    Tile<T> t;
    t.a_row = g.a_row, t.a_col = g.a_col, t.b_row = g.b_row, t.c_row = target.c_row;
    t.k = g.k;
    t.end = target.part(true, true);
    for (int64_t item = begin; item < end; item++) {
      const int64_t i = item % panels * height, j = item / panels * columns;
      t.a = g.a + i * g.a_row;
      t.b = g.b + j;
      t.c = target.c + i * target.c_row + j;
      t.columns = least(columns, g.n - j);
      if (target.end.bias) t.end.bias = target.end.bias + j;
      const int64_t rows = least(height, g.m - i);
      if (wide && t.columns > kColumns<T>) {
        tiles.wide[rows - 1](t);
      } else {
        run<A::Strided, B::Strided>(t, rows);
      }
    }
  };
  const int64_t items = panels * strips;
  // 0.5 us of hand-over against work below 15 us: not worth it.
  if (g.work() <= 1 << 19) return body(0, items);
  parallel_for(items, grain_of(height * columns * g.k), body);
}

// Rows [i, i + rows) of a panel by columns [j0, stop) of packed b, which begins at column j0.
template <A kA, class T>
void multiply_panel(Tile<T>& t, const Epilogue<T>& end, T* c, int64_t j0, int64_t stop,
                    const T* packed_b, int64_t rows) {
  for (int64_t j = j0; j < stop; j += kColumns<T>) {
    t.b = packed_b + (j - j0) * t.k;
    t.c = c + j;
    t.columns = least(kColumns<T>, stop - j);
    if (end.bias) t.end.bias = end.bias + j;
    run<kA, B::Packed>(t, rows);
  }
}

// Packs in parallel, whole panels of `width` lines to a chunk.
template <class F>
void pack_panels(int64_t count, int64_t width, int64_t k, const F& pack) {
  const int64_t panels = ceil_div(count, width);
  const int64_t grain = most(1, 32768 / (width * k));
  parallel_for(panels, grain,
               [&](int64_t begin, int64_t end) { pack(begin * width, least(count, end * width)); });
}

// One depth of the product: rows of a (packed already, if kA says so) by all of b. The threads
// share a and each packs the columns of b that it uses, so b does not travel between their caches.
template <A kA, class S, class T>
void share_columns(const Product<S>& g, const Tile<T>& shape, const Epilogue<T>& end, const S* b,
                   int64_t m, int64_t n, int64_t block) {
  const int64_t height = panel_height(m);
  parallel_for(ceil_div(n, block), 1, [&](int64_t begin, int64_t stop) {
    Tile<T> t = shape;
    T* packed =
        static_cast<T*>(scratch(Scratch::GemmB, sizeof(T) * size_t((block + kColumns<T>)*t.k)));
    for (int64_t j0 = begin * block; j0 < least(n, stop * block); j0 += block) {
      const int64_t width = least(block, n - j0);
      pack_b(b + j0 * g.b_col, g.b_row, g.b_col, width, t.k, packed);
      for (int64_t i = 0; i < m; i += height) {
        t.a = shape.a + (kA == A::Packed ? i / height * kRows * t.k : i * t.a_row);
        multiply_panel<kA>(t, end, shape.c + i * t.c_row, j0, j0 + width, packed,
                           least(height, m - i));
      }
    }
  });
}

// The same where columns are too few to share: b is packed once, the threads share its rows.
template <A kA, class S, class T>
void share_rows(const Product<S>& g, const Tile<T>& shape, const Epilogue<T>& end, const S* b,
                int64_t m, int64_t n) {
  const int64_t height = panel_height(m), block = kBlockColumns<T>;
  T* packed =
      static_cast<T*>(scratch(Scratch::GemmB, sizeof(T) * size_t((block + kColumns<T>)*shape.k)));
  for (int64_t j0 = 0; j0 < n; j0 += block) {
    const int64_t width = least(block, n - j0);
    pack_panels(width, kColumns<T>, shape.k, [&](int64_t j, int64_t stop) {
      pack_b(b + (j0 + j) * g.b_col, g.b_row, g.b_col, stop - j, shape.k, packed + j * shape.k);
    });
    parallel_for(ceil_div(m, height), grain_of(height * width * shape.k),
                 [&](int64_t begin, int64_t stop) {
                   Tile<T> t = shape;
                   for (int64_t i = begin * height; i < least(m, stop * height); i += height) {
                     t.a = shape.a + (kA == A::Packed ? i / height * kRows * t.k : i * t.a_row);
                     multiply_panel<kA>(t, end, shape.c + i * t.c_row, j0, j0 + width, packed,
                                        least(height, m - i));
                   }
                 });
  }
}

// Columns of b for one item of work, or 0 if the threads are to share rows. None of this changes a
// result.
template <class T>
int64_t columns_to_share(int64_t m, int64_t n) {
  if (num_threads() == 1) return kBlockColumns<T>;
  if (m >= 4 * n || n < 4 * kColumns<T>) return 0;
  const int64_t even = ceil_div(ceil_div(n, 8), kColumns<T>) * kColumns<T>;
  return least(kBlockColumns<T>, even);
}

// Rows i0.. by columns j0.. of c, all of k, in order of rising k.
template <A kA, class S, class T>
void multiply_block(const Product<S>& g, const Target<T>& target, int64_t i0, int64_t m, int64_t j0,
                    int64_t n) {
  const int64_t depth = depth_of<T>(g.k), block = columns_to_share<T>(m, n),
                height = panel_height(m);
  for (int64_t p = 0; p < g.k; p += depth) {
    Tile<T> t;
    t.k = least(depth, g.k - p);
    const S* a = g.a + i0 * g.a_row + p * g.a_col;
    const S* b = g.b + p * g.b_row + j0 * g.b_col;
    if constexpr (kA == A::Packed) {
      T* packed = static_cast<T*>(
          scratch(Scratch::GemmA, sizeof(T) * size_t(ceil_div(m, height) * kRows * depth)));
      pack_panels(m, height, t.k, [&](int64_t i, int64_t stop) {
        pack_a(a + i * g.a_row, g.a_row, g.a_col, stop - i, height, t.k,
               packed + i / height * kRows * t.k);
      });
      t.a = packed;
    } else {
      t.a = a, t.a_row = g.a_row, t.a_col = g.a_col;
    }
    t.c = target.c + i0 * target.c_row + j0;
    t.c_row = target.c_row;
    t.end = target.part(p == 0, p + depth >= g.k);
    Epilogue<T> end = t.end;
    if (end.bias) end.bias += j0;
    if (block) {
      share_columns<kA>(g, t, end, b, m, n, block);
    } else {
      share_rows<kA>(g, t, end, b, m, n);
    }
  }
}

template <A kA, class T>
void multiply_blocked(const Product<T>& g, const Target<T>& target) {
  for (int64_t i = 0; i < g.m; i += kSuper) {
    multiply_block<kA>(g, target, i, least(kSuper, g.m - i), 0, g.n);
  }
}

template <class T>
void multiply(const Product<T>& g) {
  Target<T> target{g.c, g.c_row, {T(g.alpha), T(g.beta), g.bias, nullptr, g.relu}};
  const bool small = g.work() <= 96 * 96 * 96;
  // Past L2 a walk down the rows of b costs more than the copy that makes it a straight line; the
  // more rows of a walk there, the sooner.
  const int64_t walk = g.n * g.k;
  const bool cached = walk <= 1 << 20 && g.m <= (walk <= 1 << 18 ? 4 * kRows : kRows);
  if (g.b_col == 1 && (small || cached)) return multiply_direct(g, target);
  // Rows of a are read where they lie: a copy gains nothing, and threads would fetch it from each
  // other's caches. Unless they stand whole pages apart, where a tile's rows would push each other
  // out of L1.
  const bool apart = g.a_row * int64_t(sizeof(T)) % 4096 == 0 && kRows > 8;
  const bool few = small || g.m <= kRows || g.n <= 4 * kColumns<T>;
  if ((g.a_col == 1 && (few || !apart)) || (g.a_row == 1 && small)) {
    return multiply_blocked<A::Strided>(g, target);
  }
  multiply_blocked<A::Packed>(g, target);
}

// Half types are summed in float, kept aside until the last part of k, and rounded once.
template <class S>
void multiply_half(const Product<S>& g) {
  constexpr int64_t kSide = 1024;
  for (int64_t i = 0; i < g.m; i += kSide) {
    for (int64_t j = 0; j < g.n; j += kSide) {
      const int64_t m = least(kSide, g.m - i), n = least(kSide, g.n - j);
      float* sums = static_cast<float*>(scratch(Scratch::GemmC, sizeof(float) * size_t(m * n)));
      Target<float> target{sums - (i * n + j), n, {}};
      multiply_block<A::Packed>(g, target, i, m, j, n);
      parallel_for(m, most(1, 65536 / n), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; r++) settle_row(g, i + r, j, n, sums + r * n);
      });
    }
  }
}
template <>
void multiply(const Product<Half>& g) {
  multiply_half(g);
}
template <>
void multiply(const Product<BFloat16>& g) {
  if (!multiply_pairs(g)) multiply_half(g);
}

template <class S>
void run_product(const GemmArgs& x) {
  const Product<S> g{x.m,
                     x.n,
                     x.k,
                     static_cast<const S*>(x.a),
                     x.a_row,
                     x.a_col,
                     static_cast<const S*>(x.b),
                     x.b_row,
                     x.b_col,
                     static_cast<S*>(x.c),
                     x.c_row,
                     1,
                     x.alpha,
                     x.beta,
                     static_cast<const S*>(x.bias),
                     0,
                     1,
                     x.activation == 1};
  if (g.k == 0) {
    for (int64_t i = 0; i < g.m; i++) {
      for (int64_t j = 0; j < g.n; j++) settle(g, i, j, widen_one(S{}));
    }
    return;
  }
  if constexpr (std::is_same_v<S, float>) {
    if (x.rounded && multiply_pairs(g)) return;
  }
  if ((g.m == 1 || (g.m <= 8 && g.b_row == 1)) && multiply_rows(g)) return;
  if (g.n == 1 && multiply_rows(turned(g))) return;
  multiply(g);
}

}  // namespace

void gemm(const GemmArgs& g) {
  if (g.m <= 0 || g.n <= 0) return;
  switch (g.dtype) {
    case DType::Float32:
      return run_product<float>(g);
    case DType::Float64:
      return run_product<double>(g);
    case DType::Float16:
      return run_product<Half>(g);
    case DType::BFloat16:
      return run_product<BFloat16>(g);
    case DType::Complex64:
    case DType::Complex128:
      return gemm_complex(g);
    default:
      return gemm_integer(g);
  }
}

void gemm_batched(const GemmArgs& first, int64_t batch, int64_t a_step, int64_t b_step,
                  int64_t c_step) {
  const int64_t size = itemsize(first.dtype);
  auto one = [&](int64_t begin, int64_t end) {
    GemmArgs g = first;
    for (int64_t i = begin; i < end; i++) {
      g.a = static_cast<const char*>(first.a) + i * a_step * size;
      g.b = static_cast<const char*>(first.b) + i * b_step * size;
      g.c = static_cast<char*>(first.c) + i * c_step * size;
      gemm(g);
    }
  };
  // A shared b and stacked rows are one taller product.
  if (b_step == 0 && a_step == first.m * first.a_row && c_step == first.m * first.c_row) {
    GemmArgs tall = first;
    tall.m *= batch;
    return gemm(tall);
  }
  const int64_t work = first.m * first.n * first.k;
  // Few large matrices: each is shared by the threads instead.
  if (batch < 8 && work > 1 << 22) return one(0, batch);
  parallel_for(batch, grain_of(work), one);
}

}  // namespace flambeau::FL_ISA
