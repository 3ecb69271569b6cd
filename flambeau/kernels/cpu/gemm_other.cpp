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

  static void row(const GemmArgs& g, const U* b, int64_t padded, int64_t i) {
    const S* a = static_cast<const S*>(g.a) + i * g.a_row;
    const S* bias = static_cast<const S*>(g.bias);
    S* c = static_cast<S*>(g.c) + i * g.c_row;
    const U alpha = U(int64_t(g.alpha)), beta = U(int64_t(g.beta));
    for (int64_t j = 0; j < padded; j += 2 * kLane) {
      V sum[2] = {};
      for (int64_t p = 0; p < g.k; p++) {
        const U factor = U(a[p * g.a_col]);
        sum[0] += factor * load_vector(b + p * padded + j);
        sum[1] += factor * load_vector(b + p * padded + j + kLane);
      }
      for (int64_t s = j; s < least(g.n, j + 2 * kLane); s++) {
        U v = alpha * sum[(s - j) / kLane][(s - j) % kLane];
        if (bias) v += U(bias[s]);
        if (beta != 0) v += beta * U(c[s]);
        c[s] = S(v);
        if (g.activation == 1 && c[s] < S(0)) c[s] = 0;
      }
    }
  }

  static void run(const GemmArgs& g) {
    const int64_t padded = ceil_div(g.n, 2 * kLane) * 2 * kLane;
    const U* b = widen_b(g, padded);
    parallel_for(g.m, grain_of(padded * g.k), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) row(g, b, padded, i);
    });
  }
};

// A rows x columns piece of a complex result; its real and imaginary parts are products of strided
// views.
template <class T>
void complex_rows(const GemmArgs& g, const T* a, T* c, int64_t rows, T* parts) {
  GemmArgs part{sizeof(T) == 4 ? DType::Float32 : DType::Float64,
                rows,
                g.n,
                g.k,
                a,
                2 * g.a_row,
                2 * g.a_col,
                g.b,
                2 * g.b_row,
                2 * g.b_col,
                parts,
                g.n};
  const T* b = static_cast<const T*>(g.b);
  T* imaginary = parts + rows * g.n;
  auto product = [&](int a_part, int b_part, T* out, double sign, double keep) {
    part.a = a + a_part, part.b = b + b_part, part.c = out;
    part.alpha = sign, part.beta = keep;
    gemm(part);
  };
  product(0, 0, parts, 1, 0);
  product(1, 1, parts, -1, 1);
  product(0, 1, imaginary, 1, 0);
  product(1, 0, imaginary, 1, 1);
  const T* bias = static_cast<const T*>(g.bias);
  const T alpha = T(g.alpha), beta = T(g.beta);
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < g.n; j++) {
      for (int part_of = 0; part_of < 2; part_of++) {
        T* out = c + 2 * (i * g.c_row + j) + part_of;
        T v = alpha * parts[part_of * rows * g.n + i * g.n + j];
        if (bias) v += bias[2 * j + part_of];
        if (beta != 0) v += beta * *out;
        *out = v;
      }
    }
  }
}

template <class T>
void run_complex(const GemmArgs& g) {
  const int64_t rows = g.n * g.m <= 1 << 18 ? g.m : most(1, (1 << 18) / g.n);
  T* parts = static_cast<T*>(scratch(Scratch::Split, sizeof(T) * size_t(2 * rows * g.n)));
  for (int64_t i = 0; i < g.m; i += rows) {
    complex_rows(g, static_cast<const T*>(g.a) + 2 * i * g.a_row,
                 static_cast<T*>(g.c) + 2 * i * g.c_row, least(rows, g.m - i), parts);
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
