// Half and BFloat16 in registers: widened to float on load, rounded to nearest even on store.
// load_wide and store_narrow take every element type, so that a kernel is written once over its
// storage type.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/simd.h"

namespace flambeau::FL_ISA {

template <class S>
inline constexpr bool kIsHalf = std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>;
// The type that arithmetic on elements of type S is done in.
template <class S>
using ComputeOf = std::conditional_t<kIsHalf<S>, float, S>;
// The bits of as many halves as a register holds floats.
using HalfBits = Raw<uint16_t, Vec<float>::kLanes>;

#if defined(__AVX512F__)
// The compiler's own conversion goes by quarters of a register.
inline Vec<float> widen_bfloat16(HalfBits x) {
  return from_bits(Vec<int32_t>((Raw<int32_t>)_mm512_cvtepu16_epi32((__m256i)x) << 16));
}
#elif defined(__AVX2__)
inline Vec<float> widen_bfloat16(HalfBits x) {
  return from_bits(Vec<int32_t>((Raw<int32_t>)_mm256_cvtepu16_epi32((__m128i)x) << 16));
}
#else
inline Vec<float> widen_bfloat16(HalfBits x) {
  return from_bits(__builtin_convertvector(x, Raw<int32_t>) << 16);
}
#endif

// Adds half a unit, less one bit if the last bit kept is even. A NaN must not round to infinity.
#if defined(__AVX512F__)
inline HalfBits narrow_bfloat16(Vec<float> x) {
  __m512i u = (__m512i)x.v;
  __m512i rounded = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
  __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
  rounded = _mm512_mask_add_epi32(rounded, odd, u, _mm512_set1_epi32(0x8000));
  __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  constexpr Raw<int32_t> quiet = Raw<int32_t>{} + 0x7fc00000;
  rounded = _mm512_mask_mov_epi32(rounded, nan, (__m512i)quiet);
  // The upper half of every lane.
  constexpr Raw<int16_t> upper = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                  33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return (HalfBits)_mm512_castsi512_si256(_mm512_permutexvar_epi16((__m512i)upper, rounded));
}
#elif defined(__AVX2__)
inline HalfBits narrow_bfloat16(Vec<float> x) {
  __m256i u = (__m256i)x.v, upper = _mm256_srli_epi32(u, 16);
  __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256 nan = _mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q);
  __m256 quiet = (__m256)_mm256_set1_epi32(0x7fc00000);
  __m256i h = _mm256_srli_epi32((__m256i)_mm256_blendv_ps((__m256)rounded, quiet, nan), 16);
  // The compiler's own conversion goes by bytes.
  return (HalfBits)_mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}
#else
inline HalfBits narrow_bfloat16(Vec<float> x) {
  Raw<uint32_t> u = Raw<uint32_t>(x.v);
  Raw<uint32_t> rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return __builtin_convertvector(x.v == x.v ? rounded : Raw<uint32_t>{} + 0x7fc0, HalfBits);
}
#endif

#if defined(__AVX512F__)
inline Vec<float> widen_half(HalfBits x) { return Raw<float>(_mm512_cvtph_ps((__m256i)x)); }
inline HalfBits narrow_half(Vec<float> x) { return (HalfBits)_mm512_cvtps_ph(x.v, 8); }
#elif defined(__F16C__)
inline Vec<float> widen_half(HalfBits x) { return Raw<float>(_mm256_cvtph_ps((__m128i)x)); }
inline HalfBits narrow_half(Vec<float> x) { return (HalfBits)_mm256_cvtps_ph(x.v, 8); }
#else
// Half to float and back without instructions for it, after Fabian Giesen 2012: a float
// multiplication and a float addition do the work for subnormal numbers.
inline Vec<float> widen_half(HalfBits x) {
  Vec<int32_t> h = __builtin_convertvector(x, Raw<int32_t>);
  Vec<int32_t> magnitude = (h & 0x7fff) << 13;
  Vec<int32_t> finite = bits(from_bits(magnitude) * 0x1p112f);
  Vec<int32_t> special = magnitude | 0x7f800000;
  return from_bits(select((h & 0x7fff) >= 0x7c00, special, finite) | ((h & 0x8000) << 16));
}
inline HalfBits narrow_half(Vec<float> x) {
  Vec<int32_t> u = bits(x), a = u & 0x7fffffff;
  Vec<int32_t> small = bits(from_bits(a) + 0.5f) - 0x3f000000;
  Vec<int32_t> normal = (a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13;
  Vec<int32_t> nan = ((a >> 13) & 0x1ff) | 0x7e00;
  Vec<int32_t> large = select(a > 0x7f800000, nan, 0x7c00);
  Vec<int32_t> h = select(a < 0x38800000, small, select(a >= 0x47800000, large, normal));
  return __builtin_convertvector((h | ((u >> 16) & 0x8000)).v, HalfBits);
}
#endif

template <class S>
Vec<ComputeOf<S>> load_wide(const S* p) {
  if constexpr (kIsHalf<S>) {
    HalfBits x;
    __builtin_memcpy(&x, p, sizeof x);
    if constexpr (std::is_same_v<S, Half>) return widen_half(x);
    return widen_bfloat16(x);
  } else {
    return Vec<S>::load(p);
  }
}

// The first n lanes; the others are zero.
template <class S>
Vec<ComputeOf<S>> load_wide(const S* p, int64_t n) {
  if constexpr (kIsHalf<S>) {
    S padded[Vec<float>::kLanes] = {};
    for (int64_t i = 0; i < n; ++i) padded[i] = p[i];
    return load_wide(padded);
  } else {
    return Vec<S>::load_partial(p, n);
  }
}

template <class S>
void store_narrow(S* p, Vec<ComputeOf<S>> x) {
  if constexpr (kIsHalf<S>) {
    HalfBits h;
    if constexpr (std::is_same_v<S, Half>) {
      h = narrow_half(x);
    } else {
      h = narrow_bfloat16(x);
    }
    __builtin_memcpy(p, &h, sizeof h);
  } else {
    x.store(p);
  }
}

template <class S>
void store_narrow(S* p, Vec<ComputeOf<S>> x, int64_t n) {
  if constexpr (kIsHalf<S>) {
    S padded[Vec<float>::kLanes];
    store_narrow(padded, x);
    for (int64_t i = 0; i < n; ++i) p[i] = padded[i];
  } else {
    x.store_partial(p, n);
  }
}

// One element. Unlike to_float and its kin in dtype.h these have a name per instruction set.
inline float widen_one(float x) { return x; }
inline double widen_one(double x) { return x; }
// Not by a cast: of a half to float to double GCC makes a call that is fifty times slower.
inline float widen_one(Half x) {
#if defined(__F16C__)
  return _cvtsh_ss(x.bits);
#else
  uint32_t magnitude = uint32_t(x.bits & 0x7fff) << 13, sign = uint32_t(x.bits & 0x8000) << 16;
  uint32_t finite = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) * 0x1p112f);
  bool special = (x.bits & 0x7fff) >= 0x7c00;
  return __builtin_bit_cast(float, sign | (special ? magnitude | 0x7f800000 : finite));
#endif
}
inline float widen_one(BFloat16 x) { return __builtin_bit_cast(float, uint32_t(x.bits) << 16); }
template <class S>
S narrow_one(ComputeOf<S> x) {
  if constexpr (std::is_same_v<S, Half>) {
    return __builtin_bit_cast(Half, _Float16(x));
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    if (x != x) return {0x7fc0};
    uint32_t u = __builtin_bit_cast(uint32_t, x);
    return {uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
  } else {
    return x;
  }
}

}  // namespace flambeau::FL_ISA
