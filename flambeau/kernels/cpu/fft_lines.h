// Between lines of memory and the buffers of fft_passes.h, where every lane holds a line; the folds
// of half as many complex numbers into the spectrum of real ones and back.
#pragma once
#include "flambeau/kernels/cpu/fft_passes.h"
#include "flambeau/kernels/cpu/gemm_pack.h"

namespace flambeau::FL_ISA::fft {

// Some lines of a batch, at most one for each lane; the pointers beyond `live` repeat the first. A
// line has elements of `parts` numbers, `step` elements apart.
template <class T, class P>
struct Lines {
  P* at[kLanes<T>];
  int64_t live, step;
  int parts;
  bool adjacent;  // the lines stand side by side

  P* number(int lane, int64_t i) const {
    return at[lane] + (parts == 2 ? (i >> 1) * 2 * step + (i & 1) : i * step);
  }
};

// ---- turning a block of as many lines and numbers as there are lanes ----

// Numbers in 128 bits. Shuffles within these are cheap, and loads and stores of these need no
// shuffle: so half of the steps of a transposition go away. (Stores of quads take longer than the
// shuffles that they would spare.)
template <class T>
inline constexpr int kQuad = 16 / int(sizeof(T));
template <class T>
inline constexpr int kQuads = kLanes<T> / kQuad<T>;

// From each quad in turn `Unit` numbers of a, then of b, from its low or its high half.
template <class T, int Unit, bool kHigh, int... I>
Raw<T> unpack(Raw<T> a, Raw<T> b, std::integer_sequence<int, I...>) {
  constexpr int quad = kQuad<T>;
  return __builtin_shufflevector(
      a, b,
      (I / quad * quad + kHigh * quad / 2 + I % quad / (2 * Unit) * Unit + I % Unit +
       I / Unit % 2 * kLanes<T>)...);
}

// Within each quad of kQuad vectors number i of vector j changes places with number j of vector i.
template <class T>
[[gnu::always_inline]] inline void turn_quads(Raw<T>* x) {
  constexpr std::make_integer_sequence<int, kLanes<T>> lanes;
  if constexpr (kQuad<T> == 2) {
    Raw<T> a = x[0], b = x[1];
    x[0] = unpack<T, 1, false>(a, b, lanes), x[1] = unpack<T, 1, true>(a, b, lanes);
  } else {
    Raw<T> a = unpack<T, 1, false>(x[0], x[1], lanes), b = unpack<T, 1, true>(x[0], x[1], lanes);
    Raw<T> c = unpack<T, 1, false>(x[2], x[3], lanes), d = unpack<T, 1, true>(x[2], x[3], lanes);
    x[0] = unpack<T, 2, false>(a, c, lanes), x[1] = unpack<T, 2, true>(a, c, lanes);
    x[2] = unpack<T, 2, false>(b, d, lanes), x[3] = unpack<T, 2, true>(b, d, lanes);
  }
}

// Quad i of the vector is what stands at at(i).
template <class T, class At>
[[gnu::always_inline]] inline Raw<T> load_quads(const At& at) {
  auto quad = [&](int i) { return _mm_loadu_ps(reinterpret_cast<const float*>(at(i))); };
#if defined(__AVX512F__)
  __m512 x = _mm512_insertf32x4(_mm512_castps128_ps512(quad(0)), quad(1), 1);
  return (Raw<T>)_mm512_insertf32x4(_mm512_insertf32x4(x, quad(2), 2), quad(3), 3);
#elif defined(__AVX2__)
  return (Raw<T>)_mm256_insertf128_ps(_mm256_castps128_ps256(quad(0)), quad(1), 1);
#else
  return (Raw<T>)quad(0);
#endif
}

// Number i of line l, which begins at at(l), becomes lane l of the vector at to + i * pitch.
template <class T, class At>
[[gnu::always_inline]] inline void turn_in(const At& at, T* to, int64_t pitch) {
  each<kQuads<T>>([&](auto q) __attribute__((always_inline)) {
    Raw<T> x[kQuad<T>];
    each<kQuad<T>>([&](auto r) __attribute__((always_inline)) {
      x[r] = load_quads<T>([&](int i) { return at(i * kQuad<T> + r) + q * kQuad<T>; });
    });
    turn_quads<T>(x);
    each<kQuad<T>>([&](auto r) __attribute__((always_inline)) {
      Vec<T>(x[r]).store(to + (q * kQuad<T> + r) * pitch);
    });
  });
}

// The way back, vectors one after another, those of even number times `even`, others times `odd`.
template <class T, class At>
[[gnu::always_inline]] inline void turn_out(const T* from, Vec<T> even, Vec<T> odd, const At& at) {
  constexpr int kLane = kLanes<T>;
  tile::Vector<T> block[kLane];
  each<kLane>(
      [&](auto l) { block[l] = (Vec<T>::load(from + l * kLane) * (l % 2 ? odd : even)).v; });
  tile::transpose<T>(block);
  each<kLane>([&](auto l) { Vec<T>(block[l]).store(at(l)); });
}

// ---- loading: number i of all lines becomes vector i of the buffer ----

template <class T>
void load_turned(const Lines<T, const T>& lines, int64_t count, T* buffer) {
  constexpr int kLane = kLanes<T>;
  int64_t i = 0;
  for (; i + kLane <= count; i += kLane, buffer += kLane * kLane) {
    turn_in([&](int l) { return lines.at[l] + i; }, buffer, kLane);
  }
  if (i == count) return;
  // What lies behind the last number is room of the buffer.
  T rest[kLane * kLane];
  for (int l = 0; l < kLane; ++l)
    Vec<T>::load_partial(lines.at[l] + i, count - i).store(rest + l * kLane);
  turn_in([&](int l) { return rest + l * kLane; }, buffer, kLane);
}

template <class T>
void load_adjacent(const Lines<T, const T>& lines, int64_t count, T* buffer) {
  constexpr int kLane = kLanes<T>;
  const T* from = lines.at[0];
  if (lines.parts == 1) {
    for (int64_t i = 0; i < count; ++i, from += lines.step, buffer += kLane)
      Vec<T>::load_partial(from, lines.live).store(buffer);
    return;
  }
  for (int64_t i = 0; i < count / 2; ++i, from += 2 * lines.step, buffer += 2 * kLane)
    load_pairs(from, lines.live).store(buffer);
}

template <class T>
void load_lines(const Lines<T, const T>& lines, int64_t count, T* buffer) {
  if (lines.step == 1) return load_turned(lines, count, buffer);
  if (lines.adjacent) return load_adjacent(lines, count, buffer);
  for (int64_t i = 0; i < count; ++i, buffer += kLanes<T>)
    for (int l = 0; l < kLanes<T>; ++l) buffer[l] = *lines.number(l, i);
}

// ---- storing, times a factor for even and one for odd vectors ----

template <class T>
void store_turned(const Lines<T, T>& lines, int64_t count, const T* buffer, Vec<T> even,
                  Vec<T> odd) {
  constexpr int kLane = kLanes<T>;
  for (int64_t i = 0; i < count; i += kLane, buffer += kLane * kLane) {
    const int64_t rest = count - i;
    if (FL_LIKELY(rest >= kLane && lines.live == kLane)) {
      turn_out(buffer, even, odd, [&](int l) { return lines.at[l] + i; });
      continue;
    }
    T turned[kLane * kLane];
    turn_out(buffer, even, odd, [&](int l) { return turned + l * kLane; });
    for (int64_t l = 0; l < lines.live; ++l)
      Vec<T>::load(turned + l * kLane).store_partial(lines.at[l] + i, least(rest, kLane));
  }
}

template <class T>
void store_adjacent(const Lines<T, T>& lines, int64_t count, const T* buffer, Vec<T> even,
                    Vec<T> odd) {
  constexpr int kLane = kLanes<T>;
  T* to = lines.at[0];
  if (lines.parts == 1) {
    for (int64_t i = 0; i < count; ++i, to += lines.step, buffer += kLane)
      (Vec<T>::load(buffer) * even).store_partial(to, lines.live);
    return;
  }
  for (int64_t i = 0; i < count / 2; ++i, to += 2 * lines.step, buffer += 2 * kLane) {
    Point<T> x = Point<T>::load(buffer);
    store_pairs<T>(to, {x.re * even, x.im * odd}, lines.live);
  }
}

template <class T>
void store_lines(const Lines<T, T>& lines, int64_t count, const T* buffer, T even, T odd) {
  if (lines.step == 1) return store_turned<T>(lines, count, buffer, even, odd);
  if (lines.adjacent) return store_adjacent<T>(lines, count, buffer, even, odd);
  for (int64_t i = 0; i < count; ++i, buffer += kLanes<T>)
    for (int l = 0; l < lines.live; ++l) *lines.number(l, i) = buffer[l] * (i % 2 ? odd : even);
}

// ---- folds ----

// Let z be the transform of h pairs of real numbers taken as complex ones, x the first h + 1
// elements of the transform of the 2 h reals. Then with d = z[k] - conj(z[h - k]) and t = -i
// exp(-pi i k / h) d: 2 x[k] and 2 conj(x[h - k]) are z[k] + conj(z[h - k]) plus and minus t; the
// way back is the same with t's sign turned. Source: Press et al., Numerical Recipes, 12.3.
template <bool kToReal, class T>
[[gnu::always_inline]] inline void fold(Point<T>& low, Point<T>& high, Point<T> root) {
  Point<T> sum = low + conj(high), t = turned(root * (low - conj(high)));
  if constexpr (kToReal) t = {-t.re, -t.im};
  low = sum + t, high = conj(sum - t);
}

// The root of number k for every lane, or those from k on, one per lane.
template <bool kNeighbours, class T>
[[gnu::always_inline]] inline Point<T> fold_root(const FftRoots& roots, int64_t k) {
  const T *fine = static_cast<const T*>(roots.fine), *coarse = static_cast<const T*>(roots.coarse);
  const int64_t high = k >> roots.bits, low = k - (high << roots.bits);
  Point<T> root = kNeighbours ? load_pairs(fine + 2 * low) : spread(fine + 2 * low);
  return high ? root * spread(coarse + 2 * high) : root;
}

// In a buffer of h + 1 elements.
template <bool kToReal, class T>
void fold_lanes(const FftRoots& roots, int64_t h, T* buffer) {
  T* last = buffer + h * kPitch<T>;
  Point<T> x = Point<T>::load(buffer), zero{Vec<T>(0), Vec<T>(0)};
  if constexpr (kToReal) {
    Vec<T> end = Vec<T>::load(last);
    Point<T>{x.re + end, x.re - end}.store(buffer);
  } else {
    Point<T>{(x.re + x.im) * Vec<T>(2), zero.im}.store(buffer);
    Point<T>{(x.re - x.im) * Vec<T>(2), zero.im}.store(last);
  }
  for (int64_t k = 1; 2 * k <= h; ++k) {
    T *a = buffer + k * kPitch<T>, *b = buffer + (h - k) * kPitch<T>;
    Point<T> low = Point<T>::load(a), high = Point<T>::load(b);
    fold<kToReal>(low, high, fold_root<false, T>(roots, k));
    low.store(a), high.store(b);
  }
}

// Factors for real and imaginary parts.
template <class T>
struct Factors {
  T re, im;
  Point<T> of(Point<T> x) const { return {x.re * Vec<T>(re), x.im * Vec<T>(im)}; }
};

template <int Start, class V, int... I>
V pick_back(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int kCount = sizeof...(I);
  return __builtin_shufflevector(a, b, (Start + 2 * (kCount - 1 - I))...);
}
template <class T>
Point<T> load_pairs_back(const T* p) {
  constexpr std::make_integer_sequence<int, kLanes<T>> lanes;
  auto a = Vec<T>::load(p).v, b = Vec<T>::load(p + kLanes<T>).v;
  return {pick_back<0>(a, b, lanes), pick_back<1>(a, b, lanes)};
}
template <class V, int... I>
V reversed(V a, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, a, (int(sizeof...(I)) - 1 - I)...);
}
template <class T>
void store_pairs_back(T* p, Point<T> x) {
  constexpr std::make_integer_sequence<int, kLanes<T>> lanes;
  store_pairs<T>(p, {reversed(x.re.v, lanes), reversed(x.im.v, lanes)});
}

// One line in memory, elements of `from` times `before` on their way to `to`, and `after`. The two
// may be the same. What fold_lanes does, with a vector of neighbours.
template <bool kToReal, class T>
void fold_line(const FftRoots& roots, int64_t h, const T* from, T* to, Factors<T> before,
               Factors<T> after) {
  constexpr int kLane = kLanes<T>;
  const T a = from[0] * before.re, b = (kToReal ? from[2 * h] : from[1]) * before.re;
  to[0] = (kToReal ? a + b : 2 * (a + b)) * after.re;
  to[1] = kToReal ? (a - b) * after.im : 0;
  if constexpr (!kToReal) to[2 * h] = 2 * (a - b) * after.re, to[2 * h + 1] = 0;
  int64_t k = 1;
  for (; k + kLane <= h - k - kLane + 1; k += kLane) {
    const int64_t back = h - k - kLane + 1;
    Point<T> low = before.of(load_pairs(from + 2 * k));
    Point<T> high = before.of(load_pairs_back(from + 2 * back));
    fold<kToReal>(low, high, fold_root<true, T>(roots, k));
    store_pairs(to + 2 * k, after.of(low));
    store_pairs_back(to + 2 * back, after.of(high));
  }
  for (; 2 * k <= h; k += kLane) {
    const int64_t count = least(kLane, h / 2 - k + 1);
    T pairs[2][2 * kLane] = {};
    for (int64_t l = 0; l < count; ++l) {
      for (int part = 0; part < 2; ++part) {
        pairs[0][2 * l + part] = from[2 * (k + l) + part];
        pairs[1][2 * l + part] = from[2 * (h - k - l) + part];
      }
    }
    Point<T> low = before.of(load_pairs(pairs[0])), high = before.of(load_pairs(pairs[1]));
    fold<kToReal>(low, high, fold_root<true, T>(roots, k));
    store_pairs(pairs[0], after.of(low)), store_pairs(pairs[1], after.of(high));
    for (int64_t l = 0; l < count; ++l) {
      for (int part = 0; part < 2; ++part) {
        to[2 * (k + l) + part] = pairs[0][2 * l + part];
        to[2 * (h - k - l) + part] = pairs[1][2 * l + part];
      }
    }
  }
}

}  // namespace flambeau::FL_ISA::fft
