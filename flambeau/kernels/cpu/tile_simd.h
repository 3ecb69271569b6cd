// Whole vectors with masked edges, for the register tiles of the matrix product and the
// convolution. A mask here is made once and used for many loads, where load_partial of simd.h makes
// one per call.
#pragma once
#include "flambeau/kernels/halves.h"

namespace flambeau::FL_ISA::tile {

inline constexpr int kVectorBytes = kVecBytes;
template <class T>
inline constexpr int kLanes = kVectorBytes / int(sizeof(T));
template <class T>
using Vector = Raw<T>;

constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return fma_raw(a, b, c);
}
inline Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return fma_raw(a, b, c);
}
// x - 0 keeps the sign of -0, x + 0 would not.
inline Vector<float> broadcast(float x) { return x - Vector<float>{}; }
inline Vector<double> broadcast(double x) { return x - Vector<double>{}; }

template <class S>
inline Vector<ComputeOf<S>> load(const S* p) {
  return load_wide(p).v;
}
template <class S>
inline void store(S* p, Vector<ComputeOf<S>> v) {
  store_narrow(p, Vec<ComputeOf<S>>(v));
}

// Which of the first lanes take part. The count may exceed the lanes or be negative.
#if defined(__AVX512F__)
template <class T>
struct EdgeMask {
  __mmask16 bits;
  explicit EdgeMask(int64_t count)
      : bits(count >= kLanes<T> ? (1u << kLanes<T>)-1
             : count <= 0       ? 0
                                : (1u << count) - 1) {}
};
inline Vector<float> load(const float* p, EdgeMask<float> m) {
  return _mm512_maskz_loadu_ps(m.bits, p);
}
inline Vector<double> load(const double* p, EdgeMask<double> m) {
  return _mm512_maskz_loadu_pd(__mmask8(m.bits), p);
}
inline void store(float* p, Vector<float> v, EdgeMask<float> m) {
  _mm512_mask_storeu_ps(p, m.bits, v);
}
inline void store(double* p, Vector<double> v, EdgeMask<double> m) {
  _mm512_mask_storeu_pd(p, __mmask8(m.bits), v);
}
#elif defined(__AVX2__)
template <class T>
struct EdgeMask {
  __m256i bits;
  explicit EdgeMask(int64_t count) {
    static constexpr int32_t kOnes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    int64_t words = most(0, least(count, kLanes<T>)) * int64_t(sizeof(T) / 4);
    bits = _mm256_loadu_si256((const __m256i*)(kOnes + 8 - words));
  }
};
inline Vector<float> load(const float* p, EdgeMask<float> m) {
  return _mm256_maskload_ps(p, m.bits);
}
inline Vector<double> load(const double* p, EdgeMask<double> m) {
  return _mm256_maskload_pd(p, m.bits);
}
inline void store(float* p, Vector<float> v, EdgeMask<float> m) {
  _mm256_maskstore_ps(p, m.bits, v);
}
inline void store(double* p, Vector<double> v, EdgeMask<double> m) {
  _mm256_maskstore_pd(p, m.bits, v);
}
#else
template <class T>
struct EdgeMask {
  int count;
  explicit EdgeMask(int64_t lanes) : count(int(most(0, least(lanes, kLanes<T>)))) {}
};
template <class T>
inline Vector<T> load(const T* p, EdgeMask<T> m) {
  if (m.count == kLanes<T>) return load(p);
  Vector<T> v = {};
  for (int i = 0; i < m.count; i++) v[i] = p[i];
  return v;
}
inline void store(float* p, Vector<float> v, EdgeMask<float> m) {
  store_narrow(p, Vec<float>(v), m.count);
}
inline void store(double* p, Vector<double> v, EdgeMask<double> m) {
  store_narrow(p, Vec<double>(v), m.count);
}
#endif

// Edges of any storage type; a half type reads them through the stack.
inline Vector<float> load(const float* p, EdgeMask<float> m, int64_t) { return load(p, m); }
inline Vector<double> load(const double* p, EdgeMask<double> m, int64_t) { return load(p, m); }
template <class S>
inline Vector<float> load(const S* p, EdgeMask<float>, int64_t count) {
  return count >= kLanes<float> ? load(p) : load_wide(p, count).v;
}

}  // namespace flambeau::FL_ISA::tile
