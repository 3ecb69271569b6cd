// Matrix products of integers (which wrap) and complex numbers (one real product).
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_pack.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/lines.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace {

using tile::kVectorBytes;

// Arithmetic modulo 2^bits does not see signs, and the low bits of a wider product are those of the
// narrow one.
template <class U, class S>
struct Wrapping {
  typedef U V __attribute__((vector_size(kVectorBytes)));
  static constexpr int kLane = kVectorBytes / int(sizeof(U));

  static V load_vector(const U* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }

  // b with columns innermost, widened, rows padded to whole vectors.
  static U* widen_b(const GemmArgs& g, int64_t padded) {
    const S* b = static_cast<const S*>(g.b);
    U* wide = static_cast<U*>(scratch(Scratch::GemmB, sizeof(U) * size_t(g.k * padded)));
    for (int64_t p = 0; p < g.k; p++) {
      for (int64_t j = 0; j < padded; j++) {
        wide[p * padded + j] = j < g.n ? U(b[p * g.b_row + j * g.b_col]) : U(0);
      }
    }
    return wide;
  }

  static void settle(const GemmArgs& g, int64_t i, int64_t j, U sum) {
    S* c = static_cast<S*>(g.c) + i * g.c_row + j;
    U v = U(int64_t(g.alpha)) * sum;
    if (g.bias) v += U(static_cast<const S*>(g.bias)[j]);
    if (g.beta != 0) v += U(int64_t(g.beta)) * U(*c);
    *c = S(v);
    if (g.activation == 1 && *c < S(0)) *c = 0;
  }

  template <int R>
  static void rows(const GemmArgs& g, const U* b, int64_t padded, int64_t i) {
    const S* a = static_cast<const S*>(g.a) + i * g.a_row;
    for (int64_t j = 0; j < padded; j += 2 * kLane) {
      V sum[R][2] = {};
      for (int64_t p = 0; p < g.k; p++) {
        const V low = load_vector(b + p * padded + j),
                high = load_vector(b + p * padded + j + kLane);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
          const U factor = U(a[r * g.a_row + p * g.a_col]);
          sum[r][0] += factor * low, sum[r][1] += factor * high;
        }
      }
      for (int r = 0; r < R; r++) {
        for (int64_t s = j; s < least(g.n, j + 2 * kLane); s++) {
          settle(g, i + r, s, sum[r][(s - j) / kLane][(s - j) % kLane]);
        }
      }
    }
  }

  static void run(const GemmArgs& g) {
    const int64_t padded = ceil_div(g.n, 2 * kLane) * 2 * kLane;
    const U* b = widen_b(g, padded);
    parallel_for(ceil_div(g.m, 4), grain_of(4 * padded * g.k), [&](int64_t begin, int64_t end) {
      int64_t i = begin * 4;
      const int64_t stop = least(g.m, end * 4);
      for (; i + 4 <= stop; i += 4) rows<4>(g, b, padded, i);
      for (; i < stop; i++) rows<1>(g, b, padded, i);
    });
  }
};

// b (k x n) as real numbers that pairs of a's real ones multiply: re, im and below it -im, re.
template <class R>
void expand(const Cplx<R>* b, int64_t row, int64_t col, int64_t k, int64_t n, R* out) {
  parallel_for(k, most(1, 16384 / n), [=](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++) {
      const Cplx<R>* from = b + p * row;
      R *top = out + 4 * p * n, *bottom = top + 2 * n;
      for (int64_t j = 0; j < n; j++, from += col) {
        top[2 * j] = bottom[2 * j + 1] = from->re;
        top[2 * j + 1] = from->im;
        bottom[2 * j] = -from->im;
      }
    }
  });
}

template <class R>
Cplx<R> settled(const GemmArgs& g, int64_t i, int64_t j, Cplx<R> sum) {
  Cplx<R> v = sum * Cplx<R>(R(g.alpha));
  if (g.bias) v += static_cast<const Cplx<R>*>(g.bias)[j];
  if (g.beta != 0) v += static_cast<const Cplx<R>*>(g.c)[i * g.c_row + j] * Cplx<R>(R(g.beta));
  return v;
}

// One column: dot products along the rows of a.
template <class R>
void complex_column(const GemmArgs& g) {
  using T = Cplx<R>;
  const T *a = static_cast<const T*>(g.a), *b = static_cast<const T*>(g.b);
  T* c = static_cast<T*>(g.c);
  T* column = static_cast<T*>(scratch(Scratch::Split, sizeof(T) * size_t(g.k)));
  for (int64_t p = 0; p < g.k; p++) column[p] = conj(b[p * g.b_row]);
  parallel_for(ceil_div(g.m, 4), grain_of(8 * g.k), [=](int64_t begin, int64_t end) {
    for (int64_t i = 4 * begin; i < least(g.m, 4 * end); i += 4) {
      T dots[4];
      const int64_t rows = least(4, g.m - i);
      dot_rows(a + i * g.a_row, g.a_row, rows, column, g.k, dots);
      for (int64_t r = 0; r < rows; r++) c[(i + r) * g.c_row] = settled(g, i + r, 0, conj(dots[r]));
    }
  });
}

// Complex rows are real rows of twice the length: c is one real product of a and the expanded b.
template <class R>
void run_complex(const GemmArgs& g) {
  using T = Cplx<R>;
  if (g.n == 1 && g.a_col == 1) return complex_column<R>(g);
  const T *a = static_cast<const T*>(g.a), *b = static_cast<const T*>(g.b);
  const bool copied = g.a_col != 1;
  const int64_t columns = least(g.n, most(64, (1 << 21) / most(1, g.k)));
  const int64_t rows = copied ? least(g.m, most(64, (1 << 20) / most(1, g.k))) : g.m;
  R* expanded = static_cast<R*>(scratch(
      Scratch::Split, sizeof(R) * size_t(4 * g.k * columns + (copied ? 2 * rows * g.k : 0))));
  T* rows_of_a = reinterpret_cast<T*>(expanded + 4 * g.k * columns);
  for (int64_t j = 0; j < g.n; j += columns) {
    const int64_t width = least(columns, g.n - j);
    expand(b + j * g.b_col, g.b_row, g.b_col, g.k, width, expanded);
    for (int64_t i = 0; i < g.m; i += rows) {
      GemmArgs part = g;
      part.dtype = sizeof(R) == 4 ? DType::Float32 : DType::Float64;
      part.m = least(rows, g.m - i), part.n = 2 * width, part.k = 2 * g.k;
      part.a = a + i * g.a_row, part.a_row = 2 * g.a_row, part.a_col = 1;
      if (copied) {
        parallel_for(part.m, most(1, 16384 / most(1, g.k)), [=](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; r++)
            for (int64_t p = 0; p < g.k; p++)
              rows_of_a[r * g.k + p] = a[(i + r) * g.a_row + p * g.a_col];
        });
        part.a = rows_of_a, part.a_row = 2 * g.k;
      }
      part.b = expanded, part.b_row = 2 * width, part.b_col = 1;
      part.c = static_cast<T*>(g.c) + i * g.c_row + j, part.c_row = 2 * g.c_row;
      if (g.bias) part.bias = static_cast<const T*>(g.bias) + j;
      gemm(part);
    }
  }
}

}  // namespace

void gemm_integer(const GemmArgs& g) {
  switch (g.dtype) {
    case DType::Bool:
    case DType::UInt8:
      return Wrapping<uint32_t, uint8_t>::run(g);
    case DType::Int8:
      return Wrapping<uint32_t, int8_t>::run(g);
    case DType::Int16:
      return Wrapping<uint32_t, int16_t>::run(g);
    case DType::UInt16:
      return Wrapping<uint32_t, uint16_t>::run(g);
    case DType::Int32:
      return Wrapping<uint32_t, int32_t>::run(g);
    case DType::UInt32:
      return Wrapping<uint32_t, uint32_t>::run(g);
    case DType::Int64:
      return Wrapping<uint64_t, int64_t>::run(g);
    default:
      return Wrapping<uint64_t, uint64_t>::run(g);
  }
}

void gemm_complex(const GemmArgs& g) {
  if (g.dtype == DType::Complex64) return run_complex<float>(g);
  run_complex<double>(g);
}

}  // namespace flambeau::FL_ISA
