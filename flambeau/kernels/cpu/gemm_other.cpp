// Matrix products of integers (which wrap) and complex numbers (four real products).
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_pack.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

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

// Real and imaginary parts of a complex matrix, dense, one after the other.
template <class T>
void split(const T* x, int64_t row, int64_t col, int64_t rows, int64_t cols, T* out) {
  parallel_for(rows, most(1, 32768 / most(1, cols)), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const T* from = x + 2 * i * row;
      T *real = out + i * cols, *imaginary = real + rows * cols;
      for (int64_t j = 0; j < cols; j++, from += 2 * col) real[j] = from[0], imaginary[j] = from[1];
    }
  });
}

template <class T>
struct Parts {
  T *real, *imaginary;
};

// Rows i .. i + rows of the result, from four real products.
template <class T>
void complex_rows(const GemmArgs& g, int64_t i, int64_t rows, Parts<T> a, Parts<T> b, Parts<T> c) {
  GemmArgs part{sizeof(T) == 4 ? DType::Float32 : DType::Float64, rows, g.n, g.k};
  part.a_row = g.k, part.b_row = g.n, part.c_row = g.n;
  auto multiply = [&](const T* x, const T* y, T* out, double sign, double keep) {
    part.a = x, part.b = y, part.c = out;
    part.alpha = sign, part.beta = keep;
    gemm(part);
  };
  multiply(a.real, b.real, c.real, 1, 0);
  multiply(a.imaginary, b.imaginary, c.real, -1, 1);
  multiply(a.real, b.imaginary, c.imaginary, 1, 0);
  multiply(a.imaginary, b.real, c.imaginary, 1, 1);
  const T* bias = static_cast<const T*>(g.bias);
  const T alpha = T(g.alpha), beta = T(g.beta);
  for (int64_t r = 0; r < rows; r++) {
    T* out = static_cast<T*>(g.c) + 2 * (i + r) * g.c_row;
    for (int64_t j = 0; j < g.n; j++, out += 2) {
      T re = alpha * c.real[r * g.n + j], im = alpha * c.imaginary[r * g.n + j];
      if (bias) re += bias[2 * j], im += bias[2 * j + 1];
      if (beta != 0) re += beta * out[0], im += beta * out[1];
      out[0] = re, out[1] = im;
    }
  }
}

template <class T>
void run_complex(const GemmArgs& g) {
  const int64_t rows = most(1, least(g.m, (1 << 18) / g.n));
  const int64_t of_a = rows * g.k, of_b = g.k * g.n, of_c = rows * g.n;
  T* room = static_cast<T*>(scratch(Scratch::Split, sizeof(T) * size_t(2 * (of_a + of_b + of_c))));
  const Parts<T> b{room, room + of_b}, c{b.imaginary + of_b, b.imaginary + of_b + of_c};
  T* split_a = c.imaginary + of_c;
  split(static_cast<const T*>(g.b), g.b_row, g.b_col, g.k, g.n, b.real);
  for (int64_t i = 0; i < g.m; i += rows) {
    const int64_t count = least(rows, g.m - i);
    split(static_cast<const T*>(g.a) + 2 * i * g.a_row, g.a_row, g.a_col, count, g.k, split_a);
    complex_rows(g, i, count, {split_a, split_a + count * g.k}, b, c);
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
