// Few rows times a matrix. Memory sets the pace: the matrix is read once, in order, whichever way
// it lies.
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_pack.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

// Registers for a block of dot products: kDotRows of a by kDotColumns of b.
inline constexpr int kDotRows = kVectorBytes == 64 ? 4 : 2, kDotColumns = 4;

// b lies with k innermost (the weight of a linear layer): R x 4 dot products at a time.
template <class S, class T, int R>
void dot_block(const Product<S>& g, const T* a, int64_t a_row, int64_t i, int64_t j,
               int64_t columns) {
  Vector<T> sum[R][kDotColumns] = {};
  const S* b[kDotColumns];
#pragma GCC unroll 4
  for (int c = 0; c < kDotColumns; c++) b[c] = g.b + (j + (c < columns ? c : 0)) * g.b_col;
  int64_t p = 0;
  for (; p + kLanes<T> <= g.k; p += kLanes<T>) {
    Vector<T> column[kDotColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kDotColumns; c++) column[c] = load(b[c] + p);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
      const Vector<T> row = load(a + r * a_row + p);
#pragma GCC unroll 4
      for (int c = 0; c < kDotColumns; c++) sum[r][c] = fma(row, column[c], sum[r][c]);
    }
  }
  if (p < g.k) {
    const EdgeMask<T> mask(g.k - p);
#pragma GCC unroll 4
    for (int c = 0; c < kDotColumns; c++) {
      const Vector<T> column = load(b[c] + p, mask, g.k - p);
#pragma GCC unroll 4
      for (int r = 0; r < R; r++) sum[r][c] = fma(load(a + r * a_row + p, mask), column, sum[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 4
    for (int c = 0; c < kDotColumns; c++) {
      const T total = sum_lanes(Vec<T>(sum[r][c]));
      if (c < columns) settle(g, i + r, j + c, total);
    }
  }
}

// One dot product: sums of 64 bytes, four in turn, then two, then one, whatever the registers hold.
// So AVX2 and AVX-512 give the same bits, which are those of common BLAS libraries for products
// that one thread computes: line searches magnify a last bit.
inline constexpr int kSumBytes = 64, kSums = 4;
template <class T>
struct WideSum {
  static constexpr int kCount = kSumBytes / int(sizeof(T)), kParts = kCount / kLanes<T>;
  Vector<T> part[kParts] = {};

  template <class S>
  void add(const T* a, const S* b) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; i++)
      part[i] = fma(load(a + i * kLanes<T>), load(b + i * kLanes<T>), part[i]);
  }
  template <class S>
  void add(const T* a, const S* b, int64_t count) {
    for (int i = 0; count > 0; i++, count -= kLanes<T>, a += kLanes<T>, b += kLanes<T>) {
      const EdgeMask<T> mask(count);
      part[i] = fma(load(a, mask), load(b, mask, count), part[i]);
    }
  }
  void add(const WideSum& other) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; i++) part[i] += other.part[i];
  }
  // Half onto half, and neighbour onto neighbour in the last 16 bytes.
  T total() const {
    T lanes[kCount];
    for (int i = 0; i < kParts; i++) store(lanes + i * kLanes<T>, part[i]);
    int count = kCount;
    for (; count * int(sizeof(T)) > 16; count /= 2)
      for (int i = 0; i < count / 2; i++) lanes[i] += lanes[i + count / 2];
    for (; count > 1; count /= 2)
      for (int i = 0; i < count / 2; i++) lanes[i] = lanes[2 * i] + lanes[2 * i + 1];
    return lanes[0];
  }
};

template <class S, class T>
T dot_one(const T* a, const S* b, int64_t n) {
  constexpr int step = WideSum<T>::kCount;
  WideSum<T> sum[kSums];
  int64_t p = 0;
  for (; p + kSums * step <= n; p += kSums * step) {
#pragma GCC unroll 4
    for (int i = 0; i < kSums; i++) sum[i].add(a + p + i * step, b + p + i * step);
  }
  for (; p + 2 * step <= n; p += 2 * step) {
    sum[0].add(a + p, b + p);
    sum[1].add(a + p + step, b + p + step);
  }
  for (; p < n; p += step) sum[0].add(a + p, b + p, least(n - p, step));
  sum[0].add(sum[1]);
  sum[2].add(sum[3]);
  sum[0].add(sum[2]);
  return sum[0].total();
}

template <class S, class T>
void dot_rows(const Product<S>& g, const T* a, int64_t a_row) {
  if (g.m == 1 && g.n == 1) return settle(g, 0, 0, dot_one<S, T>(a, g.b, g.k));
  const int64_t blocks = ceil_div(g.n, kDotColumns);
  parallel_for(blocks, grain_of(4 * kDotColumns * g.k), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin * kDotColumns; j < least(g.n, end * kDotColumns); j += kDotColumns) {
      for (int64_t i = 0; i < g.m; i += kDotRows) {
        const T* rows = a + i * a_row;
        const int64_t columns = g.n - j;
        switch (least(kDotRows, g.m - i)) {
          case 1:
            dot_block<S, T, 1>(g, rows, a_row, i, j, columns);
            break;
          case 2:
            dot_block<S, T, 2>(g, rows, a_row, i, j, columns);
            break;
          case 3:
            dot_block<S, T, 3>(g, rows, a_row, i, j, columns);
            break;
          default:
            dot_block<S, T, 4>(g, rows, a_row, i, j, columns);
            break;
        }
      }
    }
  });
}

// Columns whose sums stay in L1 while b passes by, and the rows of b that pass together.
inline constexpr int64_t kStrip = 2048, kTogether = 8;

// sums[j] += sum over p < P of a[p] * b[p][j].
template <class S, class T, int P>
void add_steps(const T* a, const S* b, int64_t b_row, T* sums, int64_t width) {
  Vector<T> factor[P];
#pragma GCC unroll 8
  for (int p = 0; p < P; p++) factor[p] = broadcast(a[p]);
  int64_t j = 0;
  for (; j + kLanes<T> <= width; j += kLanes<T>) {
    Vector<T> sum = load(sums + j);
#pragma GCC unroll 8
    for (int p = 0; p < P; p++) sum = fma(factor[p], load(b + p * b_row + j), sum);
    store(sums + j, sum);
  }
  if (j == width) return;
  const EdgeMask<T> mask(width - j);
  Vector<T> sum = load(sums + j);
  for (int p = 0; p < P; p++) sum = fma(factor[p], load(b + p * b_row + j, mask, width - j), sum);
  store(sums + j, sum);
}

// b lies with its columns innermost: its rows are read in long runs.
template <class S, class T>
void add_strip(const Product<S>& g, const T* a, int64_t j0) {
  T sums[kStrip + kLanes<T>];
  const int64_t width = least(kStrip, g.n - j0);
  for (int64_t j = 0; j < width; j += kLanes<T>) store(sums + j, Vector<T>{});
  const S* b = g.b + j0;
  int64_t p = 0;
  for (; p + kTogether <= g.k; p += kTogether) {
    add_steps<S, T, kTogether>(a + p, b + p * g.b_row, g.b_row, sums, width);
  }
  for (; p < g.k; p++) add_steps<S, T, 1>(a + p, b + p * g.b_row, g.b_row, sums, width);
  if (g.c_col == 1 && (g.bias_col == 1 || !g.bias)) return settle_row(g, 0, j0, width, sums);
  for (int64_t j = 0; j < width; j++) settle(g, 0, j0 + j, sums[j]);
}

template <class S, class T>
void add_strips(const Product<S>& g, const T* a) {
  parallel_for(ceil_div(g.n, kStrip), 1, [&](int64_t begin, int64_t end) {
    for (int64_t strip = begin; strip < end; strip++) add_strip(g, a, strip * kStrip);
  });
}

template <class S, class T>
bool rows_times(const Product<S>& g) {
  // Folding the lanes of a dot product must be little beside the product itself, or beside packing.
  const bool dot = g.b_row == 1 && (g.m == 1 || g.m * g.n <= 16 || g.k >= 32 * g.m);
  // A small b is better read through register tiles.
  const bool add =
      g.m == 1 && g.b_col == 1 && (g.n * g.k > 65536 || g.c_col != 1 || sizeof(S) == 2);
  if (!dot && !add) return false;
  const T* a;
  int64_t a_row = g.a_row;
  if (g.a_col == 1 && sizeof(S) == sizeof(T)) {
    a = reinterpret_cast<const T*>(g.a);
  } else {
    T* copy = static_cast<T*>(scratch(Scratch::GemmA, sizeof(T) * size_t(g.m * g.k)));
    for (int64_t i = 0; i < g.m; i++) {
      for (int64_t p = 0; p < g.k; p++)
        copy[i * g.k + p] = widen_one(g.a[i * g.a_row + p * g.a_col]);
    }
    a = copy, a_row = g.k;
  }
  if (dot) {
    dot_rows(g, a, a_row);
  } else {
    add_strips(g, a);
  }
  return true;
}

}  // namespace

bool multiply_rows(const Product<float>& g) { return rows_times<float, float>(g); }
bool multiply_rows(const Product<double>& g) { return rows_times<double, double>(g); }
bool multiply_rows(const Product<Half>& g) { return rows_times<Half, float>(g); }
bool multiply_rows(const Product<BFloat16>& g) { return rows_times<BFloat16, float>(g); }

}  // namespace flambeau::FL_ISA
