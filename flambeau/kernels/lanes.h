// Registers filled from memory of any element type: small integers widen to int32 lanes, half types
// to float, complex numbers are a register of one lane. For kernels that accumulate (reductions,
// scans).
#pragma once
#include "flambeau/kernels/cplx.h"
#include "flambeau/kernels/halves.h"

namespace flambeau::FL_ISA {

constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Sums and products; those of integers wrap around.
template <class V>
constexpr V wrap_add(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return V(std::make_unsigned_t<V>(a) + std::make_unsigned_t<V>(b));
  else
    return a + b;
}
template <class V>
constexpr V wrap_mul(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return V(std::make_unsigned_t<V>(a) * std::make_unsigned_t<V>(b));
  else
    return a * b;
}

template <class T>
inline constexpr bool kIsCplx = false;
template <class T>
inline constexpr bool kIsCplx<Cplx<T>> = true;

// What a lane computes in.
template <class T>
using LaneOf = std::conditional_t<kIsHalf<T> || (sizeof(T) >= 4), ComputeOf<T>, int32_t>;

template <class L>
struct VecOfType {
  using type = Vec<L>;
};
template <class T>
struct VecOfType<Cplx<T>> {
  using type = Cplx<T>;
};
template <class L>
using VecOf = typename VecOfType<L>::type;

// One element as its lane, and back; a real element takes the real part of a complex lane.
template <class L, class T>
L lane_of(T x) {
  if constexpr (kIsHalf<T>) {
    return L(widen_one(x));
  } else {
    return L(x);
  }
}
template <class T, class L>
T element_of(L x) {
  if constexpr (kIsHalf<T>) {
    return narrow_one<T>(float(x));
  } else if constexpr (kIsCplx<L> && kIsCplx<T>) {
    return T(decltype(T::re)(x.re), decltype(T::re)(x.im));
  } else if constexpr (kIsCplx<L>) {
    return T(x.re);
  } else {
    return T(x);
  }
}

// Integers in lanes of twice or four times their size. GCC 12 converts bytes one by one, so
// intrinsics it is.
#if defined(__AVX512F__)
inline auto half_bytes(const void* p) { return _mm256_loadu_si256((const __m256i*)p); }
inline auto quarter_bytes(const void* p) { return _mm_loadu_si128((const __m128i*)p); }
#define FL_EXTEND(to) _mm512_##to
#elif defined(__AVX2__)
inline auto half_bytes(const void* p) { return _mm_loadu_si128((const __m128i*)p); }
inline auto quarter_bytes(const void* p) { return _mm_loadl_epi64((const __m128i*)p); }
#define FL_EXTEND(to) _mm256_##to
#else
inline auto half_bytes(const void* p) { return _mm_loadl_epi64((const __m128i*)p); }
inline auto quarter_bytes(const void* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return _mm_cvtsi32_si128(four);
}
#define FL_EXTEND(to) _mm_##to
#endif
inline Raw<int32_t> extend(const uint16_t* p) {
  return (Raw<int32_t>)FL_EXTEND(cvtepu16_epi32)(half_bytes(p));
}
inline Raw<int32_t> extend(const int16_t* p) {
  return (Raw<int32_t>)FL_EXTEND(cvtepi16_epi32)(half_bytes(p));
}
inline Raw<int32_t> extend(const uint8_t* p) {
  return (Raw<int32_t>)FL_EXTEND(cvtepu8_epi32)(quarter_bytes(p));
}
inline Raw<int32_t> extend(const int8_t* p) {
  return (Raw<int32_t>)FL_EXTEND(cvtepi8_epi32)(quarter_bytes(p));
}
inline Raw<int64_t> extend(const int32_t* p) {
  return (Raw<int64_t>)FL_EXTEND(cvtepi32_epi64)(half_bytes(p));
}
inline Raw<int64_t> extend(const uint32_t* p) {
  return (Raw<int64_t>)FL_EXTEND(cvtepu32_epi64)(half_bytes(p));
}
#undef FL_EXTEND

// A register of lanes L from elements T.
template <class L, class T>
VecOf<L> load_lanes(const T* p) {
  if constexpr (kIsCplx<L> || std::is_same_v<L, T>) {
    return VecOf<L>::load(p);
  } else if constexpr (kIsHalf<T>) {
    return load_wide(p);
  } else if constexpr (std::is_same_v<T, bool>) {
    return load_lanes<L>((const uint8_t*)p);
  } else if constexpr (sizeof(L) == sizeof(T)) {
    return load_lanes<L>((const L*)p);
  } else if constexpr (sizeof(L) == 4 || sizeof(T) == 4) {
    return extend(p);
  } else {
    // Small integers in 64-bit lanes are rare: products only.
    VecOf<L> x(0);
    for (int i = 0; i < VecOf<L>::kLanes; ++i) x.v[i] = L(p[i]);
    return x;
  }
}

// The first n lanes, the others zero.
template <class L, class T>
VecOf<L> load_lanes(const T* p, int64_t n) {
  if constexpr (kIsCplx<L> || std::is_same_v<L, T>) {
    return VecOf<L>::load_partial(p, n);
  } else {
    T copy[VecOf<L>::kLanes] = {};
    for (int64_t i = 0; i < n; ++i) copy[i] = p[i];
    return load_lanes<L>(copy);
  }
}

}  // namespace flambeau::FL_ISA
