// The register tile at the heart of matrix product and convolution: R rows by S vectors of c,
// summed over k. Every element is one chain of fused multiply-adds in rising k, whatever tile it
// falls in: cutting the work differently does not change a bit.
#pragma once
#include "flambeau/kernels/cpu/tile_simd.h"

namespace flambeau::FL_ISA::tile {

// Accumulators fill the registers but for S vectors of b and one broadcast of a.
#if defined(__AVX512F__)
inline constexpr int kRows = 14, kWideRows = 6;
#elif defined(__AVX2__)
inline constexpr int kRows = 6, kWideRows = 2;
#else
inline constexpr int kRows = 4, kWideRows = 2;
#endif
inline constexpr int kVectors = 2;  // per tile, for any number of rows
inline constexpr int kWideVectors =
    4;  // with at most kWideRows rows, where two would leave the units waiting
template <class T>
inline constexpr int kColumns = kVectors* kLanes<T>;

// How an operand lies in memory. Packed panels hold kRows of a or kColumns of b side by side for
// each k.
enum class A { Packed, Strided, Offset };
enum class B { Packed, Strided, Offset };

// What happens to a finished sum: c = act(alpha * sum + beta * c + bias).
template <class T>
struct Epilogue {
  T alpha = 1, beta = 0;
  const T* bias = nullptr;      // per column
  const T* row_bias = nullptr;  // per row
  bool relu = false;
  bool plain = true;  // c = sum, or c += sum if beta is 1

  void settle() {
    plain = alpha == T(1) && (beta == T(0) || beta == T(1)) && !bias && !row_bias && !relu;
  }
};

template <class T>
struct Tile {
  int64_t k;
  const T* a;
  int64_t a_row = 0, a_col = 0;  // Strided; Offset: a_row
  const int64_t* a_offset;       // Offset: where the column of each k begins
  const T* b;
  int64_t b_row;            // Strided
  const int64_t* b_offset;  // Offset: where the row of each k begins
  T* c;
  int64_t c_row;
  int64_t columns;  // valid columns, unless Offset
  int64_t
      vector_b[kWideVectors];  // Offset: where each vector begins in b and c, and its valid lanes
  int64_t vector_c[kWideVectors];
  int64_t vector_lanes[kWideVectors];
  Epilogue<T> end;
};

template <class T, B kB>
inline int64_t lanes_of(const Tile<T>& t, int s) {
  return kB == B::Offset ? t.vector_lanes[s] : t.columns - s * kLanes<T>;
}

// Everything but a plain store, once for all tile shapes: sum holds `rows` times S vectors.
template <class T, int S, B kB>
__attribute__((noinline)) void finish_tile(const Tile<T>& t, const Vector<T>* sum, int rows) {
  const Epilogue<T>& e = t.end;
  for (int s = 0; s < S; s++) {
    const EdgeMask<T> mask(lanes_of<T, kB>(t, s));
    T* c = t.c + (kB == B::Offset ? t.vector_c[s] : s * kLanes<T>);
    const Vector<T> bias = e.bias ? load(e.bias + s * kLanes<T>, mask) : Vector<T>{};
    for (int r = 0; r < rows; r++, c += t.c_row) {
      Vector<T> v = e.alpha * sum[r * S + s] + bias;
      if (e.row_bias) v += e.row_bias[r];
      if (e.beta != T(0)) v += e.beta * load(c, mask);
      if (e.relu) v = v < T(0) ? Vector<T>{} : v;  // keeps NaN
      store(c, v, mask);
    }
  }
}

template <class T, int R, int S, B kB>
inline void store_tile(const Tile<T>& t, const Vector<T> (&sum)[R][S]) {
  if (!t.end.plain) {
    Vector<T> spilled[R][S];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
#pragma GCC unroll 4
      for (int s = 0; s < S; s++) spilled[r][s] = sum[r][s];
    }
    return finish_tile<T, S, kB>(t, spilled[0], R);
  }
  const bool keep = t.end.beta != T(0);
#pragma GCC unroll 4
  for (int s = 0; s < S; s++) {
    const EdgeMask<T> mask(lanes_of<T, kB>(t, s));
    T* c = t.c + (kB == B::Offset ? t.vector_c[s] : s * kLanes<T>);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++, c += t.c_row) {
      store(c, keep ? sum[r][s] + load(c, mask) : sum[r][s], mask);
    }
  }
}

// Arrays of accumulators stay in registers because every loop over them unrolls completely.
template <class T, int R, int S, A kA, B kB>
void run_tile(const Tile<T>& t) {
  constexpr int kLane = kLanes<T>;
  Vector<T> sum[R][S] = {};
  const T* a = t.a;
  const T* b = t.b;
  const int64_t a_row = t.a_row, a_col = t.a_col, b_row = t.b_row;
  const int64_t a_three =
      3 * a_row;  // four rows share a pointer: row 3 is the one x86 addressing lacks
  const T *a4 = a + 4 * a_row, *a8 = a + 8 * a_row, *a12 = a + 12 * a_row;
  for (int64_t p = 0; p < t.k; p++) {
    if constexpr (kA == A::Offset) {
      a = t.a + t.a_offset[p];
      a4 = a + 4 * a_row, a8 = a4 + 4 * a_row, a12 = a8 + 4 * a_row;
    }
    Vector<T> row[S];
#pragma GCC unroll 4
    for (int s = 0; s < S; s++) {
      if constexpr (kB == B::Packed) row[s] = load(b + s * kLane);
      if constexpr (kB == B::Strided)
        row[s] = load(b + s * kLane, EdgeMask<T>(lanes_of<T, kB>(t, s)));
      if constexpr (kB == B::Offset) row[s] = load(b + t.b_offset[p] + t.vector_b[s]);
    }
    if constexpr (kB == B::Packed) {
      __builtin_prefetch(b + 9 * kColumns<T>);
      if (S * kVectorBytes > 64) __builtin_prefetch(b + 9 * kColumns<T> + 64 / sizeof(T));
      b += kColumns<T>;
    }
    if constexpr (kB == B::Strided) b += b_row;
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const T* group = r < 4 ? a : r < 8 ? a4 : r < 12 ? a8 : a12;
      const int64_t step = r % 4 == 3 ? a_three : (r % 4) * a_row;
      const Vector<T> factor = broadcast(kA == A::Packed ? a[r] : group[step]);
#pragma GCC unroll 4
      for (int s = 0; s < S; s++) sum[r][s] = fma(factor, row[s], sum[r][s]);
    }
    if constexpr (kA == A::Packed) a += kRows;
    if constexpr (kA == A::Strided) {
      a += a_col, a4 += a_col, a8 += a_col, a12 += a_col;
    }
  }
  store_tile<T, R, S, kB>(t, sum);
}

template <class T>
using TileFn = void (*)(const Tile<T>&);

// narrow[r - 1]: r rows by one vector, full: by kVectors, wide (few rows): by kWideVectors.
template <class T, A kA, B kB>
struct TileTable {
  TileFn<T> narrow[kRows], full[kRows], wide[kWideRows];

  template <int R = 1>
  constexpr void fill() {
    narrow[R - 1] = run_tile<T, R, 1, kA, kB>;
    full[R - 1] = run_tile<T, R, kVectors, kA, kB>;
    // A packed panel of b is kVectors wide.
    if constexpr (R <= kWideRows && kB != B::Packed)
      wide[R - 1] = run_tile<T, R, kWideVectors, kA, kB>;
    if constexpr (R < kRows) fill<R + 1>();
  }
  constexpr TileTable() : narrow{}, full{}, wide{} { fill(); }
};
template <class T, A kA, B kB>
inline constexpr TileTable<T, kA, kB> kTiles;

// Runs one tile of at most kRows rows and kColumns columns.
template <A kA, B kB, class T>
inline void run(const Tile<T>& t, int64_t rows) {
  const TileTable<T, kA, kB>& tiles = kTiles<T, kA, kB>;
  (t.columns > kLanes<T> ? tiles.full : tiles.narrow)[rows - 1](t);
}

}  // namespace flambeau::FL_ISA::tile
