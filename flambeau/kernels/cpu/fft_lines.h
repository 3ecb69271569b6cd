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

// ---- loading: number i of all lines becomes vector i of the buffer ----

template <class T>
void load_turned(const Lines<T, const T>& lines, int64_t count, T* buffer) {
  constexpr int kLane = kLanes<T>;
  for (int64_t i = 0; i < count; i += kLane, buffer += kLane * kLane) {
    tile::Vector<T> block[kLane];
    const int64_t rest = count - i;
    if (FL_LIKELY(rest >= kLane)) {
#pragma GCC unroll 16
      for (int l = 0; l < kLane; ++l) block[l] = Vec<T>::load(lines.at[l] + i).v;
    } else {
#pragma GCC unroll 16
      for (int l = 0; l < kLane; ++l) block[l] = Vec<T>::load_partial(lines.at[l] + i, rest).v;
    }
    tile::transpose<T>(block);
    // What lies behind the last number is room of the buffer.
#pragma GCC unroll 16
    for (int l = 0; l < kLane; ++l) Vec<T>(block[l]).store(buffer + l * kLane);
  }
}

// The first n of two vectors of memory that follow each other.
template <class T>
Point<T> load_pairs_partial(const T* p, int64_t n) {
  constexpr int kLane = kLanes<T>;
  T pairs[2 * kLane] = {};
  for (int64_t i = 0; i < n; ++i) pairs[i] = p[i];
  return load_pairs(pairs);
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
  for (int64_t i = 0; i < count / 2; ++i, from += 2 * lines.step, buffer += 2 * kLane) {
    bool whole = lines.live == kLane;
    (whole ? load_pairs(from) : load_pairs_partial(from, 2 * lines.live)).store(buffer);
  }
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
    tile::Vector<T> block[kLane];
#pragma GCC unroll 16
    for (int l = 0; l < kLane; ++l)
      block[l] = (Vec<T>::load(buffer + l * kLane) * (l % 2 ? odd : even)).v;
    tile::transpose<T>(block);
    const int64_t rest = count - i;
    if (FL_LIKELY(rest >= kLane && lines.live == kLane)) {
#pragma GCC unroll 16
      for (int l = 0; l < kLane; ++l) Vec<T>(block[l]).store(lines.at[l] + i);
    } else {
      T turned[kLane * kLane];
#pragma GCC unroll 16
      for (int l = 0; l < kLane; ++l) Vec<T>(block[l]).store(turned + l * kLane);
      for (int64_t l = 0; l < lines.live; ++l)
        Vec<T>::load(turned + l * kLane).store_partial(lines.at[l] + i, least(rest, kLane));
    }
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
    T pairs[2 * kLane];
    bool whole = lines.live == kLane;
    store_pairs(whole ? to : pairs, {x.re * even, x.im * odd});
    for (int64_t l = 0; !whole && l < 2 * lines.live; ++l) to[l] = pairs[l];
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

template <class T>
Point<T> fold_root(const FftRoots& roots, int64_t k) {
  const T *fine = static_cast<const T*>(roots.fine), *coarse = static_cast<const T*>(roots.coarse);
  Point<T> root = spread(fine + 2 * (k % roots.step));
  return k < roots.step ? root : root * spread(coarse + 2 * (k / roots.step));
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
    fold<kToReal>(low, high, fold_root<T>(roots, k));
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

// `count` roots from number k on, one per lane.
template <class T>
Point<T> fold_roots(const FftRoots& roots, int64_t k) {
  const T *fine = static_cast<const T*>(roots.fine), *coarse = static_cast<const T*>(roots.coarse);
  Point<T> root = load_pairs(fine + 2 * (k % roots.step));
  return k < roots.step ? root : root * spread(coarse + 2 * (k / roots.step));
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
    fold<kToReal>(low, high, fold_roots<T>(roots, k));
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
    fold<kToReal>(low, high, fold_roots<T>(roots, k));
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
