// The passes of a Fourier transform over vectors: every lane carries a transform of its own. A
// buffer holds a vector of real parts and one of imaginary parts for each element.
#pragma once
#include "flambeau/kernels/cpu/fft_plan.h"
#include "flambeau/kernels/lanes.h"

namespace flambeau::FL_ISA::fft {

template <class T>
inline constexpr int kLanes = Vec<T>::kLanes;
// Numbers between two elements of a buffer.
template <class T>
inline constexpr int64_t kPitch = 2 * Vec<T>::kLanes;

template <int I>
struct Index {
  constexpr operator int() const { return I; }
};
// f(0), ... f(N - 1) with constants: arrays indexed by them stay in registers.
template <int N, class F>
[[gnu::always_inline]] inline void each(const F& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(Index<I>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

// A complex number in every lane.
template <class T>
struct Point {
  using V = Vec<T>;
  V re, im;

  static Point load(const T* p) { return {V::load(p), V::load(p + kLanes<T>)}; }
  void store(T* p) const { re.store(p), im.store(p + kLanes<T>); }

  friend Point operator+(Point a, Point b) { return {a.re + b.re, a.im + b.im}; }
  friend Point operator-(Point a, Point b) { return {a.re - b.re, a.im - b.im}; }
  friend Point operator*(Point a, Point b) {
    return {fma(a.re, b.re, -(a.im * b.im)), fma(a.re, b.im, a.im * b.re)};
  }
  // Minus i times a.
  friend Point turned(Point a) { return {a.im, -a.re}; }
  friend Point conj(Point a) { return {a.re, -a.im}; }
};

template <class T>
Point<T> spread(const T* root) {
  return {Vec<T>(root[0]), Vec<T>(root[1])};
}

// ---- butterflies: x[k] becomes the sum of x[j] exp(-2 pi i j k / R) ----

template <class T>
[[gnu::always_inline]] inline void butterfly2(Point<T>& a, Point<T>& b) {
  Point<T> sum = a + b;
  b = a - b, a = sum;
}

template <class T>
[[gnu::always_inline]] inline void butterfly4(Point<T>& a, Point<T>& b, Point<T>& c, Point<T>& d) {
  Point<T> even = a + c, odd = a - c, sum = b + d, turn = turned(b - d);
  a = even + sum, b = odd + turn, c = even - sum, d = odd - turn;
}

template <class T>
[[gnu::always_inline]] inline void butterfly8(Point<T>* x) {
  using V = Vec<T>;
  butterfly4(x[0], x[2], x[4], x[6]);
  butterfly4(x[1], x[3], x[5], x[7]);
  const V half(0.70710678118654752440);
  Point<T> a = x[3], b = x[7], c = turned(x[5]);
  V a_re = a.re + a.im, a_im = a.im - a.re, b_re = b.im - b.re, b_im = b.re + b.im;
  Point<T> e0 = x[0], e1 = x[2], e2 = x[4], e3 = x[6], o0 = x[1];
  x[0] = e0 + o0, x[4] = e0 - o0;
  x[1] = {fma(half, a_re, e1.re), fma(half, a_im, e1.im)};
  x[5] = {fma(-half, a_re, e1.re), fma(-half, a_im, e1.im)};
  x[2] = e2 + c, x[6] = e2 - c;
  x[3] = {fma(half, b_re, e3.re), fma(-half, b_im, e3.im)};
  x[7] = {fma(-half, b_re, e3.re), fma(half, b_im, e3.im)};
}

// Points j and R - j meet the same cosines and opposite sines.
template <int R, class T>
[[gnu::always_inline]] inline void butterfly_odd(Point<T>* x, const T* roots) {
  constexpr int kPairs = R / 2;
  Point<T> sum[kPairs], difference[kPairs], first = x[0], total = first;
  each<kPairs>([&](auto j) __attribute__((always_inline)) {
    sum[j] = x[j + 1] + x[R - 1 - j];
    difference[j] = x[j + 1] - x[R - 1 - j];
    total = total + sum[j];
  });
  x[0] = total;
  each<kPairs>([&](auto k) __attribute__((always_inline)) {
    Point<T> even = first, odd{Vec<T>(0), Vec<T>(0)};
    each<kPairs>([&](auto j) __attribute__((always_inline)) {
      constexpr int kTurn = (j + 1) * (k + 1) % R;
      Vec<T> c(roots[2 * kTurn]), s(roots[2 * kTurn + 1]);
      even = {fma(c, sum[j].re, even.re), fma(c, sum[j].im, even.im)};
      if constexpr (j == 0)
        odd = {s * difference[j].re, s * difference[j].im};
      else
        odd = {fma(s, difference[j].re, odd.re), fma(s, difference[j].im, odd.im)};
    });
    // root = c + i s, and x (c + i s) + x' (c - i s) = c (x + x') + i s (x - x').
    x[k + 1] = {even.re - odd.im, even.im + odd.re};
    x[R - 1 - k] = {even.re + odd.im, even.im - odd.re};
  });
}

template <int R, class T>
[[gnu::always_inline]] inline void butterfly(Point<T>* x, const T* roots) {
  if constexpr (R == 2) {
    butterfly2(x[0], x[1]);
  } else if constexpr (R == 4) {
    butterfly4(x[0], x[1], x[2], x[3]);
  } else if constexpr (R == 8) {
    butterfly8(x);
  } else {
    butterfly_odd<R>(x, roots);
  }
}

// ---- where the elements of a pass come from and go to ----

template <class T>
struct FromBuffer {
  const T* at;
  Point<T> load(int64_t i) const { return Point<T>::load(at + i * kPitch<T>); }
};

template <class T>
struct ToBuffer {
  T* at;
  void store(int64_t i, Point<T> x) const { x.store(at + i * kPitch<T>); }
};

template <int Start, int Step, class V, int... I>
V pick(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (Start + Step * I)...);
}
template <int Start, class V, int... I>
V interleave(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (Start + I / 2 + (I % 2) * int(sizeof...(I)))...);
}

// Complex numbers of memory, real and imaginary parts in turn.
template <class T>
Point<T> load_pairs(const T* p) {
  constexpr std::make_integer_sequence<int, kLanes<T>> lanes;
  auto a = Vec<T>::load(p).v, b = Vec<T>::load(p + kLanes<T>).v;
  return {pick<0, 2>(a, b, lanes), pick<1, 2>(a, b, lanes)};
}
template <class T>
void store_pairs(T* p, Point<T> x) {
  constexpr std::make_integer_sequence<int, kLanes<T>> lanes;
  Vec<T>(interleave<0>(x.re.v, x.im.v, lanes)).store(p);
  Vec<T>(interleave<kLanes<T> / 2>(x.re.v, x.im.v, lanes)).store(p + kLanes<T>);
}

// The first `lanes` of them alone.
template <class T>
Point<T> load_pairs(const T* p, int64_t lanes) {
  if (FL_LIKELY(lanes >= kLanes<T>)) return load_pairs(p);
  constexpr std::make_integer_sequence<int, kLanes<T>> all;
  const int64_t low = least(2 * lanes, kLanes<T>), high = 2 * lanes - low;
  auto a = Vec<T>::load_partial(p, low).v, b = Vec<T>::load_partial(p + low, high).v;
  return {pick<0, 2>(a, b, all), pick<1, 2>(a, b, all)};
}
template <class T>
void store_pairs(T* p, Point<T> x, int64_t lanes) {
  if (FL_LIKELY(lanes >= kLanes<T>)) return store_pairs(p, x);
  constexpr std::make_integer_sequence<int, kLanes<T>> all;
  const int64_t low = least(2 * lanes, kLanes<T>);
  Vec<T>(interleave<0>(x.re.v, x.im.v, all)).store_partial(p, low);
  Vec<T>(interleave<kLanes<T> / 2>(x.re.v, x.im.v, all)).store_partial(p + low, 2 * lanes - low);
}

// Lanes side by side in memory, elements `step` numbers apart. A factor of minus one on the
// imaginary part conjugates: transforms of the other sign are conjugates of conjugates'.
template <class T>
struct FromColumns {
  const T* at;
  int64_t step;
  Vec<T> sign;
  Point<T> load(int64_t i) const {
    Point<T> x = load_pairs(at + i * step);
    return {x.re, x.im * sign};
  }
};
template <class T>
struct ToColumns {
  T* at;
  int64_t step;
  Vec<T> re, im;  // factors
  void store(int64_t i, Point<T> x) const { store_pairs(at + i * step, {x.re * re, x.im * im}); }
};

// Rows of a grid, each times its roots.
template <class T>
struct ToGrid {
  T* at;
  int64_t step;
  const T *fine, *coarse;  // of this group of columns
  int fine_bits;
  void store(int64_t i, Point<T> x) const {
    int64_t high = i >> fine_bits, low = i - (high << fine_bits);
    if (coarse) x = x * Point<T>::load(coarse + high * kPitch<T>);
    (x * Point<T>::load(fine + low * kPitch<T>)).store(at + i * step);
  }
};

// ---- passes ----

template <int R, bool kLast, class T, class From, class To>
[[gnu::flatten]] void run_pass(const FftPass& pass, From from, To to) {
  const int64_t done = pass.done, rest = kLast ? 1 : pass.rest;
  const T* roots = static_cast<const T*>(pass.roots);
  const T* twiddles = static_cast<const T*>(pass.twiddles);
  for (int64_t p = 0; p < rest; ++p, twiddles += 2 * (R - 1)) {
    for (int64_t q = 0; q < done; ++q) {
      Point<T> x[R];
      each<R>([&](auto j) { x[j] = from.load(q + done * (p + rest * j)); });
      butterfly<R>(x, roots);
      each<R>([&](auto k) {
        if constexpr (!kLast && k > 0) x[k] = x[k] * spread(twiddles + 2 * (k - 1));
        to.store(q + done * (R * p + k), x[k]);
      });
    }
  }
}

// Any odd radix up to kFftLargestRadix, as butterfly_odd; two pairs of results at a time, since
// what they are made of comes from memory.
template <bool kLast, class T, class From, class To>
[[gnu::flatten]] void run_odd_pass(const FftPass& pass, From from, To to) {
  const int64_t radix = pass.radix, done = pass.done, rest = pass.rest, pairs = radix / 2;
  const T* roots = static_cast<const T*>(pass.roots);
  const T* twiddles = static_cast<const T*>(pass.twiddles);
  for (int64_t p = 0; p < rest; ++p, twiddles += 2 * (radix - 1)) {
    for (int64_t q = 0; q < done; ++q) {
      Point<T> sum[kFftLargestRadix / 2], difference[kFftLargestRadix / 2];
      const Point<T> first = from.load(q + done * p), zero{Vec<T>(0), Vec<T>(0)};
      Point<T> total = first;
      for (int64_t j = 1; j <= pairs; ++j) {
        Point<T> a = from.load(q + done * (p + rest * j));
        Point<T> b = from.load(q + done * (p + rest * (radix - j)));
        sum[j - 1] = a + b, difference[j - 1] = a - b, total = total + sum[j - 1];
      }
      auto put = [&](int64_t k, Point<T> x) {
        if constexpr (!kLast) x = x * spread(twiddles + 2 * (k - 1));
        to.store(q + done * (radix * p + k), x);
      };
      to.store(q + done * radix * p, total);
      for (int64_t k = 1; k <= pairs; k += 2) {
        const int64_t step[2] = {k, k < pairs ? k + 1 : k};
        int64_t turn[2] = {step[0], step[1]};
        Point<T> even[2] = {first, first}, odd[2] = {zero, zero};
        for (int64_t j = 0; j < pairs; ++j) {
          each<2>([&](auto i) {
            Vec<T> c(roots[2 * turn[i]]), s(roots[2 * turn[i] + 1]);
            even[i] = {fma(c, sum[j].re, even[i].re), fma(c, sum[j].im, even[i].im)};
            odd[i] = {fma(s, difference[j].re, odd[i].re), fma(s, difference[j].im, odd[i].im)};
            turn[i] += step[i];
            turn[i] -= turn[i] < radix ? 0 : radix;
          });
        }
        each<2>([&](auto i) {
          if (i == 1 && k == pairs) return;
          put(step[i], {even[i].re - odd[i].im, even[i].im + odd[i].re});
          put(radix - step[i], {even[i].re + odd[i].im, even[i].im - odd[i].re});
        });
      }
    }
  }
}

// Whether a pass may read or write memory itself. Those of odd radix go through buffers: each more
// would come in many copies.
inline bool meets_memory(const FftPass& pass) { return pass.radix % 2 == 0; }

template <bool kLast, class T, class From, class To>
void run(const FftPass& pass, From from, To to) {
  constexpr bool kInner = std::is_same_v<From, FromBuffer<T>> && std::is_same_v<To, ToBuffer<T>>;
  if (pass.radix == 8) return run_pass<8, kLast, T>(pass, from, to);
  if (pass.radix == 4) return run_pass<4, kLast, T>(pass, from, to);
  if (pass.radix == 2) return run_pass<2, kLast, T>(pass, from, to);
  if constexpr (kInner) {
    if constexpr (kVecBytes > 16) {
      if (pass.radix == 3) return run_pass<3, kLast, T>(pass, from, to);
      if (pass.radix == 5) return run_pass<5, kLast, T>(pass, from, to);
    }
    run_odd_pass<kLast, T>(pass, from, to);
  }
}

// All passes but the first `from` and the last `without`, between two buffers; the one that holds
// the result is returned.
template <class T>
T* run_inner(const FftPasses& passes, int from, int without, T* x, T* y) {
  for (int i = from; i < passes.count - without; ++i) {
    if (i + 1 < passes.count) {
      run<false, T>(passes.pass[i], FromBuffer<T>{x}, ToBuffer<T>{y});
    } else {
      run<true, T>(passes.pass[i], FromBuffer<T>{x}, ToBuffer<T>{y});
    }
    T* other = x;
    x = y, y = other;
  }
  return x;
}

}  // namespace flambeau::FL_ISA::fft
