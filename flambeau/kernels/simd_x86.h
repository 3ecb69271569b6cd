// What GCC's vector extensions cannot say, on x86: roots, rounding, fused multiply-add, partial
// loads and stores. simd.h is the only reader; another architecture brings a file with the same
// functions.
#pragma once
// g++ 12 takes the undefined operands inside its own AVX-512 functions for mistakes of ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "flambeau/core/config.h"

namespace flambeau::FL_ISA {

#if defined(__AVX512F__)
inline constexpr int kVecBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVecBytes = 32;
#else
inline constexpr int kVecBytes = 16;
#endif

template <class T, int N>
struct RawType {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};
// N lanes of T as the compiler's own vector; by default as many as a register holds.
template <class T, int N = kVecBytes / int(sizeof(T))>
using Raw = typename RawType<T, N>::type;

template <int Size>
struct IntOfSize;
template <>
struct IntOfSize<4> {
  using type = int32_t;
  using unsigned_type = uint32_t;
};
template <>
struct IntOfSize<8> {
  using type = int64_t;
  using unsigned_type = uint64_t;
};

enum RoundMode {
  kNearestEven = 8,
  kFloor = 9,
  kCeil = 10,
  kTrunc = 11
};  // 8: raise no inexact flag

#if defined(__AVX512F__)
inline Raw<float> fma_raw(Raw<float> a, Raw<float> b, Raw<float> c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Raw<double> fma_raw(Raw<double> a, Raw<double> b, Raw<double> c) {
  return _mm512_fmadd_pd(a, b, c);
}
// The correctly rounded root from 1 / sqrt(x) to 14 bits, which each step doubles; last comes what
// the root's square lacks. Source: Markstein 1990.
template <int Steps, class V>
V refined_root(V x, V near) {
  constexpr auto kHalf = std::remove_cvref_t<decltype(x[0])>(0.5);
  V root = x * near, half = near * kHalf;
  for (int step = 0; step < Steps; step++) {
    V rest = fma_raw(-root, half, V{} + kHalf);
    root = fma_raw(root, rest, root);
    half = fma_raw(half, rest, half);
  }
  return fma_raw(fma_raw(-root, root, x), half, root);
}
// In a third of the time of the instruction, which serves the ends of the range, zeros and NaN.
inline Raw<float> sqrt_raw(Raw<float> x) {
  constexpr int32_t kLeast = (127 - 90) << 23, kRange = 216 << 23;
  __m512i above = _mm512_sub_epi32((__m512i)x, _mm512_set1_epi32(kLeast));
  if (_mm512_cmpge_epu32_mask(above, _mm512_set1_epi32(kRange))) return _mm512_sqrt_ps(x);
  return refined_root<1>(x, Raw<float>(_mm512_rsqrt14_ps(x)));
}
inline Raw<double> sqrt_raw(Raw<double> x) {
  constexpr int64_t kLeast = int64_t(1023 - 900) << 52, kRange = int64_t(1900) << 52;
  __m512i above = _mm512_sub_epi64((__m512i)x, _mm512_set1_epi64(kLeast));
  if (_mm512_cmpge_epu64_mask(above, _mm512_set1_epi64(kRange))) return _mm512_sqrt_pd(x);
  return refined_root<2>(x, Raw<double>(_mm512_rsqrt14_pd(x)));
}
template <int Mode>
Raw<float> round_raw(Raw<float> x) {
  return _mm512_roundscale_ps(x, Mode);
}
template <int Mode>
Raw<double> round_raw(Raw<double> x) {
  return _mm512_roundscale_pd(x, Mode);
}
// a < b ? a : b and a > b ? a : b: b where one of them is NaN.
inline Raw<float> lesser_raw(Raw<float> a, Raw<float> b) { return _mm512_min_ps(a, b); }
inline Raw<double> lesser_raw(Raw<double> a, Raw<double> b) { return _mm512_min_pd(a, b); }
inline Raw<float> greater_raw(Raw<float> a, Raw<float> b) { return _mm512_max_ps(a, b); }
inline Raw<double> greater_raw(Raw<double> a, Raw<double> b) { return _mm512_max_pd(a, b); }
inline bool any_raw(Raw<int32_t> m) { return _mm512_movepi32_mask((__m512i)m) != 0; }
inline bool any_raw(Raw<int64_t> m) { return _mm512_movepi64_mask((__m512i)m) != 0; }

// A register of floats as two of doubles and back; the vector extensions' own conversion splits
// these needlessly.
inline Raw<double> widen_low(Raw<float> x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
inline Raw<double> widen_high(Raw<float> x) {
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}
inline Raw<double> widen_low(Raw<int32_t> x) {
  return _mm512_cvtepi32_pd(_mm512_castsi512_si256((__m512i)x));
}
inline Raw<double> widen_high(Raw<int32_t> x) {
  return _mm512_cvtepi32_pd(_mm512_extracti32x8_epi32((__m512i)x, 1));
}
inline Raw<int32_t> truncate_raw(Raw<double> low, Raw<double> high) {
  return (Raw<int32_t>)_mm512_inserti32x8(_mm512_castsi256_si512(_mm512_cvttpd_epi32(low)),
                                          _mm512_cvttpd_epi32(high), 1);
}
inline Raw<float> narrow_raw(Raw<double> low, Raw<double> high) {
  return _mm512_insertf32x8(_mm512_zextps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

// Masks as bytes 0 and 1.
inline void store_mask(bool* p, Raw<int32_t> m) {
  _mm_storeu_si128((__m128i*)p, _mm_maskz_set1_epi8(_mm512_movepi32_mask((__m512i)m), 1));
}
inline void store_mask(bool* p, Raw<int64_t> m) {
  _mm_storel_epi64((__m128i*)p, _mm_maskz_set1_epi8(_mm512_movepi64_mask((__m512i)m), 1));
}
inline Raw<int8_t, 16> narrow_bytes(Raw<int32_t> x) {
  return (Raw<int8_t, 16>)_mm512_cvtepi32_epi8((__m512i)x);
}

// The first n lanes, 0 <= n <= lanes; the others read as zero and are not written.
template <class T>
Raw<T> load_first(const T* p, int64_t n) {
  if constexpr (sizeof(T) == 4) {
    return (Raw<T>)_mm512_maskz_loadu_epi32(__mmask16((1u << n) - 1), p);
  } else {
    return (Raw<T>)_mm512_maskz_loadu_epi64(__mmask8((1u << n) - 1), p);
  }
}
template <class T>
void store_first(T* p, Raw<T> x, int64_t n) {
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(p, __mmask16((1u << n) - 1), (__m512i)x);
  } else {
    _mm512_mask_storeu_epi64(p, __mmask8((1u << n) - 1), (__m512i)x);
  }
}

#elif defined(__AVX2__)
inline Raw<float> sqrt_raw(Raw<float> x) { return _mm256_sqrt_ps(x); }
inline Raw<double> sqrt_raw(Raw<double> x) { return _mm256_sqrt_pd(x); }
template <int Mode>
Raw<float> round_raw(Raw<float> x) {
  return _mm256_round_ps(x, Mode);
}
template <int Mode>
Raw<double> round_raw(Raw<double> x) {
  return _mm256_round_pd(x, Mode);
}
inline Raw<float> fma_raw(Raw<float> a, Raw<float> b, Raw<float> c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Raw<double> fma_raw(Raw<double> a, Raw<double> b, Raw<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
inline Raw<float> lesser_raw(Raw<float> a, Raw<float> b) { return _mm256_min_ps(a, b); }
inline Raw<double> lesser_raw(Raw<double> a, Raw<double> b) { return _mm256_min_pd(a, b); }
inline Raw<float> greater_raw(Raw<float> a, Raw<float> b) { return _mm256_max_ps(a, b); }
inline Raw<double> greater_raw(Raw<double> a, Raw<double> b) { return _mm256_max_pd(a, b); }
inline bool any_raw(Raw<int32_t> m) { return _mm256_movemask_epi8((__m256i)m) != 0; }
inline bool any_raw(Raw<int64_t> m) { return _mm256_movemask_epi8((__m256i)m) != 0; }
inline void store_mask(bool* p, Raw<int32_t> m) {
  __m256i x = (__m256i)m;
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64((__m128i*)p, _mm_abs_epi8(_mm_packs_epi16(words, words)));
}
// Bit i of the answers times 2^(7 i) lands in byte i.
inline void store_mask(bool* p, Raw<int64_t> m) {
  uint32_t bytes = uint32_t(_mm256_movemask_pd((__m256d)m)) * 0x00204081 & 0x01010101;
  __builtin_memcpy(p, &bytes, 4);
}
inline Raw<double> widen_low(Raw<float> x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
inline Raw<double> widen_high(Raw<float> x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
inline Raw<double> widen_low(Raw<int32_t> x) {
  return _mm256_cvtepi32_pd(_mm256_castsi256_si128((__m256i)x));
}
inline Raw<double> widen_high(Raw<int32_t> x) {
  return _mm256_cvtepi32_pd(_mm256_extracti128_si256((__m256i)x, 1));
}
inline Raw<int32_t> truncate_raw(Raw<double> low, Raw<double> high) {
  return (Raw<int32_t>)_mm256_set_m128i(_mm256_cvttpd_epi32(high), _mm256_cvttpd_epi32(low));
}
inline Raw<float> narrow_raw(Raw<double> low, Raw<double> high) {
  return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}

template <class T>
__m256i first_lanes(int64_t n) {
  if constexpr (sizeof(T) == 4) {
    return (__m256i)(Raw<int32_t>{0, 1, 2, 3, 4, 5, 6, 7} < int32_t(n));
  } else {
    return (__m256i)(Raw<int64_t>{0, 1, 2, 3} < n);
  }
}
template <class T>
Raw<T> load_first(const T* p, int64_t n) {
  if constexpr (sizeof(T) == 4) {
    return (Raw<T>)_mm256_maskload_epi32((const int*)p, first_lanes<T>(n));
  } else {
    return (Raw<T>)_mm256_maskload_epi64((const long long*)p, first_lanes<T>(n));
  }
}
template <class T>
void store_first(T* p, Raw<T> x, int64_t n) {
  if constexpr (sizeof(T) == 4) {
    _mm256_maskstore_epi32((int*)p, first_lanes<T>(n), (__m256i)x);
  } else {
    _mm256_maskstore_epi64((long long*)p, first_lanes<T>(n), (__m256i)x);
  }
}

#else
inline Raw<float> sqrt_raw(Raw<float> x) { return _mm_sqrt_ps(x); }
inline Raw<double> sqrt_raw(Raw<double> x) { return _mm_sqrt_pd(x); }
template <int Mode>
Raw<float> round_raw(Raw<float> x) {
  return _mm_round_ps(x, Mode);
}
template <int Mode>
Raw<double> round_raw(Raw<double> x) {
  return _mm_round_pd(x, Mode);
}
// SSE has no fused form: two roundings. Code that needs the exact product error asks kFused first.
inline Raw<float> fma_raw(Raw<float> a, Raw<float> b, Raw<float> c) { return a * b + c; }
inline Raw<double> fma_raw(Raw<double> a, Raw<double> b, Raw<double> c) { return a * b + c; }
inline Raw<float> lesser_raw(Raw<float> a, Raw<float> b) { return _mm_min_ps(a, b); }
inline Raw<double> lesser_raw(Raw<double> a, Raw<double> b) { return _mm_min_pd(a, b); }
inline Raw<float> greater_raw(Raw<float> a, Raw<float> b) { return _mm_max_ps(a, b); }
inline Raw<double> greater_raw(Raw<double> a, Raw<double> b) { return _mm_max_pd(a, b); }
inline bool any_raw(Raw<int32_t> m) { return _mm_movemask_epi8((__m128i)m) != 0; }
inline bool any_raw(Raw<int64_t> m) { return _mm_movemask_epi8((__m128i)m) != 0; }
// Bit i of the answers times 2^(7 i) lands in byte i.
inline void store_mask(bool* p, Raw<int32_t> m) {
  uint32_t bytes = uint32_t(_mm_movemask_ps((__m128)m)) * 0x00204081 & 0x01010101;
  __builtin_memcpy(p, &bytes, 4);
}
inline void store_mask(bool* p, Raw<int64_t> m) {
  uint16_t bytes = uint16_t(_mm_movemask_pd((__m128d)m) * 0x81 & 0x0101);
  __builtin_memcpy(p, &bytes, 2);
}
inline Raw<double> widen_low(Raw<float> x) { return _mm_cvtps_pd(x); }
inline Raw<double> widen_high(Raw<float> x) { return _mm_cvtps_pd(_mm_movehl_ps(x, x)); }
inline Raw<double> widen_low(Raw<int32_t> x) { return _mm_cvtepi32_pd((__m128i)x); }
inline Raw<double> widen_high(Raw<int32_t> x) {
  return _mm_cvtepi32_pd(_mm_srli_si128((__m128i)x, 8));
}
inline Raw<int32_t> truncate_raw(Raw<double> low, Raw<double> high) {
  return (Raw<int32_t>)_mm_unpacklo_epi64(_mm_cvttpd_epi32(low), _mm_cvttpd_epi32(high));
}
inline Raw<float> narrow_raw(Raw<double> low, Raw<double> high) {
  return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}

// A copy of constant size per case: a call of memcpy costs more than the arithmetic of a short
// tail.
template <class T>
Raw<T> load_first(const T* p, int64_t n) {
  Raw<T> x{};
  constexpr int lanes = 16 / sizeof(T);
  if (n >= lanes) {
    __builtin_memcpy(&x, p, 16);
  } else if (n == 1) {
    x[0] = p[0];
  } else if (lanes == 4 && n >= 2) {
    __builtin_memcpy(&x, p, 8);
    if (n == 3) x[2 % lanes] = p[2];
  }
  return x;
}
template <class T>
void store_first(T* p, Raw<T> x, int64_t n) {
  constexpr int lanes = 16 / sizeof(T);
  if (n >= lanes) {
    __builtin_memcpy(p, &x, 16);
  } else if (n == 1) {
    p[0] = x[0];
  } else if (lanes == 4 && n >= 2) {
    __builtin_memcpy(p, &x, 8);
    if (n == 3) p[2] = x[2 % lanes];
  }
}
#endif

#if defined(__FMA__)
inline constexpr bool kFused = true;
#else
inline constexpr bool kFused = false;
#endif

}  // namespace flambeau::FL_ISA
