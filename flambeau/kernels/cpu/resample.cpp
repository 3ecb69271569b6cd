// Sums along a dim that other dims follow go by whole vectors; along the last dim elements are
// gathered, as many results at a time as a register holds.
#include "flambeau/kernels/cpu/resample.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/cpu/tile_simd.h"

namespace flambeau::FL_ISA {
namespace {

using tile::EdgeMask, tile::fma, tile::kLanes, tile::least, tile::load, tile::most, tile::store,
    tile::Vector;

constexpr int64_t kChunk = 1 << 15;  // elements that a thread should get at least

template <class T>
struct Source {
  const ResampleArgs& a;
  const T* x;
  const T* weights;
  T weight(int64_t e) const { return weights ? weights[e] : T(1); }
};

// One line of `inner` elements: a few vectors stay in registers while the sources pass.
template <class T>
void sum_lines(const Source<T>& s, const T* x, int64_t begin, int64_t end, T* y) {
  constexpr int kTogether = 4;
  const int64_t inner = s.a.inner;
  int64_t c = 0;
  for (; c + kTogether * kLanes<T> <= inner; c += kTogether * kLanes<T>) {
    Vector<T> sums[kTogether] = {};
    for (int64_t e = begin; e < end; e++) {
      const T* line = x + s.a.places[e] * inner + c;
      const Vector<T> w = tile::broadcast(s.weight(e));
#pragma GCC unroll 4
      for (int k = 0; k < kTogether; k++) sums[k] = fma(w, load(line + k * kLanes<T>), sums[k]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kTogether; k++) store(y + c + k * kLanes<T>, sums[k]);
  }
  for (; c < inner; c += kLanes<T>) {
    const EdgeMask<T> mask(inner - c);
    Vector<T> sum = {};
    for (int64_t e = begin; e < end; e++) {
      sum = fma(tile::broadcast(s.weight(e)), load(x + s.a.places[e] * inner + c, mask), sum);
    }
    store(y + c, sum, mask);
  }
}

// The table turned: for each tap the place and weight of every result; -1 where it has no such tap.
template <class T>
struct Taps {
  int64_t count = 0, width;  // of taps; results, up to a whole register
  T* weights;
  int32_t* places;

  explicit Taps(const Source<T>& s) {
    const ResampleArgs& a = s.a;
    for (int64_t i = 0; i < a.out; i++) count = most(count, a.starts[i + 1] - a.starts[i]);
    width = tile::ceil_div(a.out, kLanes<T>) * kLanes<T>;
    // Tables that a few results would make long are not worth turning.
    if (count * a.out > 4 * (a.starts[a.out] - a.starts[0]) + 64 || a.in > 1 << 30) count = -1;
    if (count < 0) return;
    const auto size = size_t(count * width);
    weights = static_cast<T*>(scratch(Scratch::Columns, size * (sizeof(T) + sizeof(int32_t))));
    places = reinterpret_cast<int32_t*>(weights + size);
    for (size_t t = 0; t < size; t++) weights[t] = T(0), places[t] = -1;
    for (int64_t i = 0; i < a.out; i++) {
      for (int64_t e = a.starts[i], t = i; e < a.starts[i + 1]; e++, t += width) {
        places[t] = int32_t(a.places[e]);
        weights[t] = s.weight(e);
      }
    }
  }
};

// x at each place, zero at those below 0.
#if defined(__AVX512F__)
inline Vector<float> gather(const float* x, const int32_t* places) {
  const __m512i at = _mm512_loadu_si512(places);
  const __mmask16 used = _mm512_cmpge_epi32_mask(at, _mm512_setzero_si512());
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), used, at, x, 4);
}
inline Vector<double> gather(const double* x, const int32_t* places) {
  const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places));
  const __mmask8 used = _mm256_cmpge_epi32_mask(at, _mm256_setzero_si256());
  return _mm512_mask_i32gather_pd(_mm512_setzero_pd(), used, at, x, 8);
}
#else
template <class T>
Vector<T> gather(const T* x, const int32_t* places) {
  Vector<T> v;
  for (int i = 0; i < kLanes<T>; i++) v[i] = places[i] < 0 ? T(0) : x[places[i]];
  return v;
}
#endif

template <class T>
void sum_taps(const Taps<T>& taps, const T* x, int64_t out, T* y) {
  for (int64_t i = 0; i < out; i += kLanes<T>) {
    Vector<T> sum = {};
    for (int64_t t = i; t < taps.count * taps.width; t += taps.width)
      sum = fma(load(taps.weights + t), gather(x, taps.places + t), sum);
    if (i + kLanes<T> <= out) {
      store(y + i, sum);
    } else {
      store(y + i, sum, EdgeMask<T>(out - i));
    }
  }
}

template <class T>
void run(const ResampleArgs& a) {
  const Source<T> s{a, static_cast<const T*>(a.x), static_cast<const T*>(a.weights)};
  T* y = static_cast<T*>(a.y);
  const int64_t entries = a.starts[a.out] - a.starts[0];
  if (a.inner == 1 && a.outer > 1) {
    if (const Taps<T> taps(s); taps.count >= 0) {
      const int64_t work = most(1, taps.count * a.out);
      return parallel_for(a.outer, most(1, kChunk / work), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; o++) sum_taps(taps, s.x + o * a.in, a.out, y + o * a.out);
      });
    }
  }
  const int64_t work = most(1, most(entries, a.out) / a.out * a.inner);
  parallel_for(a.outer * a.out, most(1, kChunk / work), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; line++) {
      const int64_t o = line / a.out, i = line % a.out;
      sum_lines(s, s.x + o * a.in * a.inner, a.starts[i], a.starts[i + 1], y + line * a.inner);
    }
  });
}

}  // namespace

void resample(const ResampleArgs& a) {
  if (a.outer * a.out * a.inner == 0) return;
  a.dtype == DType::Float32 ? run<float>(a) : run<double>(a);
}

}  // namespace flambeau::FL_ISA
