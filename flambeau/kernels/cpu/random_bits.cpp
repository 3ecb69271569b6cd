// Registers of 64 bytes on every instruction set: the compiler splits them, and the arithmetic
// stays the same everywhere.
#include "flambeau/kernels/cpu/random_bits.h"

namespace flambeau::FL_ISA {
namespace {

typedef uint64_t U64x8 __attribute__((vector_size(64)));
typedef double F64x8 __attribute__((vector_size(64)));
typedef uint32_t U32x16 __attribute__((vector_size(64)));
typedef int32_t I32x16 __attribute__((vector_size(64)));
typedef float F32x16 __attribute__((vector_size(64)));
typedef int64_t I64x8 __attribute__((vector_size(64)));
typedef int32_t I32x8 __attribute__((vector_size(32)));
typedef float F32x8 __attribute__((vector_size(32)));

template <class V>
V load(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class V, class W>
V bits(W w) {
  static_assert(sizeof(V) == sizeof(W));
  V v;
  __builtin_memcpy(&v, &w, sizeof v);
  return v;
}

// 53 bits of each pair of words, the first word high.
U64x8 pairs(const uint32_t* words) {
  U64x8 x = load<U64x8>(words);
  x = (x << 32) | (x >> 32);
  return x & ((uint64_t(1) << 53) - 1);
}

// Exact: the high 21 and the low 32 bits each become the mantissa of a power of two that is then
// taken off.
F64x8 to_double(U64x8 x) {
  F64x8 high = bits<F64x8>((x >> 32) | 0x4530000000000000) - 0x1p84;
  F64x8 low = bits<F64x8>((x & 0xffffffff) | 0x4330000000000000) - 0x1p52;
  return high + low;
}

double pair_to_double(const uint32_t* words) {
  uint64_t x = (uint64_t(words[0]) << 32 | words[1]) & ((uint64_t(1) << 53) - 1);
  return double(int64_t(x)) * 0x1p-53;
}

// The interval is open at its end: what was rounded up to `to` becomes `from`.
template <class T>
T below(T x, T from, T to) {
  return x == to ? from : x;
}

template <class T>
void bernoulli_as(const uint32_t* words, T* out, int64_t n, int64_t threshold, T one) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = (uint64_t(words[2 * i]) << 32 | words[2 * i + 1]) & ((uint64_t(1) << 53) - 1);
    out[i] = int64_t(x) < threshold ? one : T(0);
  }
}

#if defined(__FMA__)
F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  for (int i = 0; i < 8; i++) a[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return a;
}
#else
// The product is exact in double. The sum is rounded to odd, after Boldo & Melquiond 2008, so that
// rounding it again to float gives what one rounding would.
F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  F64x8 product = __builtin_convertvector(a, F64x8) * __builtin_convertvector(b, F64x8);
  F64x8 addend = __builtin_convertvector(c, F64x8);
  F64x8 sum = product + addend;
  F64x8 part = sum - product;
  F64x8 error = (product - (sum - part)) + (addend - part);
  // The last bit stands for everything below it: set when inexact, on the side of the error.
  I64x8 inexact = error != 0;
  I64x8 toward_zero =
      bits<I64x8>(error) ^ bits<I64x8>(sum);  // negative: the sum is too large in magnitude
  I64x8 raw = bits<I64x8>(sum);
  I64x8 truncated = raw - ((toward_zero >> 63) & inexact & 1);
  return __builtin_convertvector(bits<F64x8>(inexact ? truncated | 1 : raw), F32x8);
}
#endif

F32x8 all(float x) { return F32x8{} + x; }

// Logarithm, sine and cosine of Moshier's Cephes in single precision, fused as torch's compiler
// fuses them. The argument of the logarithm is in (0, 1], that of sine and cosine in [0, 2 pi).
F32x8 log(F32x8 x) {
  I32x8 raw = bits<I32x8>(x);
  F32x8 e = __builtin_convertvector((raw >> 23) - 126, F32x8);
  x = bits<F32x8>((raw & 0x007fffff) | 0x3f000000);  // [0.5, 1)
  I32x8 below = x < 0.707106781186547524f;
  x = x - 1 + bits<F32x8>(bits<I32x8>(x) & below);
  e = e - bits<F32x8>(bits<I32x8>(all(1)) & below);
  F32x8 z = x * x;
  F32x8 y = all(7.0376836292e-2f);
  y = fma(y, x, all(-1.1514610310e-1f));
  y = fma(y, x, all(1.1676998740e-1f));
  y = fma(y, x, all(-1.2420140846e-1f));
  y = fma(y, x, all(1.4249322787e-1f));
  y = fma(y, x, all(-1.6668057665e-1f));
  y = fma(y, x, all(2.0000714765e-1f));
  y = fma(y, x, all(-2.4999993993e-1f));
  y = fma(y, x, all(3.3333331174e-1f));
  y = fma(y * x, z, e * -2.12194440e-4f);
  y = y - z * 0.5f;
  return fma(e, all(0.693359375f), x + y);
}

void sin_cos(F32x8 x, F32x8& sin, F32x8& cos) {
  I32x8 octant = (__builtin_convertvector(x * 1.27323954473516f, I32x8) + 1) & ~1;
  F32x8 turns = __builtin_convertvector(octant, F32x8);
  x = fma(turns, all(-0.78515625f), x);
  x = fma(turns, all(-2.4187564849853515625e-4f), x);
  x = fma(turns, all(-3.77489497744594108e-8f), x);
  F32x8 z = x * x;
  F32x8 c = fma(all(2.443315711809948e-5f), z, all(-1.388731625493765e-3f));
  c = fma(c, z, all(4.166664568298827e-2f)) * z;
  c = fma(c, z, z * -0.5f) + 1;
  F32x8 s = fma(all(-1.9515295891e-4f), z, all(8.3321608736e-3f));
  s = fma(s, z, all(-1.6666654611e-1f)) * z;
  s = fma(s, x, x);
  I32x8 swapped = (octant & 2) != 0;
  I32x8 sin_sign = (octant & 4) << 29;
  I32x8 cos_sign = ((octant + 2) & 4) << 29;
  sin = bits<F32x8>(bits<I32x8>(swapped ? c : s) ^ sin_sign);
  cos = bits<F32x8>(bits<I32x8>(swapped ? s : c) ^ cos_sign);
}

F32x8 sqrt(F32x8 x) {
  for (int i = 0; i < 8; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
}

}  // namespace

void uniform_floats(const uint32_t* words, float* out, int64_t n, float from, float to) {
  bool scaled = from != 0 || to != 1;
  float range = to - from;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    I32x16 x = bits<I32x16>(load<U32x16>(words + i) & 0xffffff);
    F32x16 u = __builtin_convertvector(x, F32x16) * 0x1p-24f;
    for (int j = 0; scaled && j < 16; j++)
      u[j] = below(__builtin_fmaf(u[j], range, from), from, to);
    __builtin_memcpy(out + i, &u, sizeof u);
  }
  for (; i < n; i++) {
    float u = float(int32_t(words[i] & 0xffffff)) * 0x1p-24f;
    out[i] = below(__builtin_fmaf(u, range, from), from, to);
  }
}

void uniform_doubles(const uint32_t* words, double* out, int64_t n, double from, double to) {
  bool scaled = from != 0 || to != 1;
  double range = to - from;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    F64x8 u = to_double(pairs(words + 2 * i)) * 0x1p-53;
    for (int j = 0; scaled && j < 8; j++) u[j] = below(__builtin_fma(u[j], range, from), from, to);
    __builtin_memcpy(out + i, &u, sizeof u);
  }
  for (; i < n; i++) {
    out[i] = below(__builtin_fma(pair_to_double(words + 2 * i), range, from), from, to);
  }
}

void bernoulli_words(const uint32_t* words, void* out, int64_t n, int64_t threshold, uint64_t one,
                     int bytes) {
  if (bytes == 1)
    return bernoulli_as(words, static_cast<uint8_t*>(out), n, threshold, uint8_t(one));
  if (bytes == 2) {
    return bernoulli_as(words, static_cast<uint16_t*>(out), n, threshold, uint16_t(one));
  }
  if (bytes == 4) {
    return bernoulli_as(words, static_cast<uint32_t*>(out), n, threshold, uint32_t(one));
  }
  bernoulli_as(words, static_cast<uint64_t*>(out), n, threshold, one);
}

void normal_blocks(float* data, int64_t blocks, float mean, float std) {
  for (int64_t b = 0; b < blocks; b++, data += 16) {
    F32x8 radius = sqrt(-2 * log(1 - load<F32x8>(data)));
    F32x8 angle = load<F32x8>(data + 8) * 6.283185307179586f;
    F32x8 sin, cos;
    sin_cos(angle, sin, cos);
    F32x8 first = fma(radius * cos, all(std), all(mean));
    F32x8 second = fma(radius * sin, all(std), all(mean));
    __builtin_memcpy(data, &first, sizeof first);
    __builtin_memcpy(data + 8, &second, sizeof second);
  }
}

}  // namespace flambeau::FL_ISA
