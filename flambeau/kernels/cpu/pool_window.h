// Windows of a pooling, and the loops over images that all poolings share.
#pragma once
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/pool.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/cpu/tile_simd.h"

namespace flambeau::FL_ISA {

// The input positions begin, begin + step ... < end along one dim; full: with the padding that they
// would cover.
struct Window {
  int64_t begin, end, step, full;
};

inline Window window(const PoolArgs& g, int d, int64_t o) {
  if (g.adaptive) {
    if (g.out[d] == 1) return {0, g.in[d], 1, g.in[d]};  // global pooling: no divisions
    const int64_t begin = o * g.in[d] / g.out[d], end = tile::ceil_div((o + 1) * g.in[d], g.out[d]);
    return {begin, end, 1, end - begin};
  }
  const int64_t start = o * g.stride[d] - g.pad[d], step = g.dilation[d];
  const int64_t stop = start + (g.kernel[d] - 1) * step + 1;
  // With ceil_mode a window may hang over the padding too, which then does not count.
  const int64_t full = tile::least(stop, g.in[d] + g.pad[d]) - start;
  const int64_t begin = start >= 0 ? start : start + tile::ceil_div(-start, step) * step;
  return {begin, tile::least(stop, g.in[d]), step, full};
}

// Outputs along the width whose windows lie inside the image: a vector of them reads whole vectors.
struct Inner {
  int64_t begin, end;
};
inline Inner inner_outputs(const PoolArgs& g) {
  if (g.adaptive) return {0, 0};
  const int64_t begin = tile::least(g.out[2], tile::ceil_div(g.pad[2], g.stride[2]));
  const int64_t room = g.in[2] + g.pad[2] - (g.kernel[2] - 1) * g.dilation[2] - 1;
  const int64_t end = room < 0 ? 0 : tile::least(g.out[2], room / g.stride[2] + 1);
  return {begin, tile::most(begin, end)};
}

inline int64_t pixels(const int64_t (&size)[3]) { return size[0] * size[1] * size[2]; }

// `count` lanes p[0], p[step] ...
template <class S>
inline tile::Vector<ComputeOf<S>> load_strided(const S* p, int64_t step, int64_t count) {
  using T = ComputeOf<S>;
  constexpr int kLane = tile::kLanes<T>;
  if (step == 1) return tile::load(p, tile::EdgeMask<T>(count), count);
  if constexpr (sizeof(S) == sizeof(T)) {
    if (step == 2) {
      const auto low = tile::load(p, tile::EdgeMask<T>(2 * count - 1));
      const auto high = tile::load(p + kLane, tile::EdgeMask<T>(2 * count - 1 - kLane));
      return [&]<int... I>(std::integer_sequence<int, I...>) {
        return __builtin_shufflevector(low, high, (2 * I)...);
      }
      (std::make_integer_sequence<int, kLane>());
    }
  }
  T lanes[kLane] = {};
  for (int64_t i = 0; i < count; i++) lanes[i] = widen_one(p[i * step]);
  return tile::load(lanes);
}

template <class S>
inline void store_lanes(S* p, tile::Vector<ComputeOf<S>> v, int64_t count) {
  using T = ComputeOf<S>;
  if (count >= tile::kLanes<T>) return tile::store(p, v);
  store_narrow(p, Vec<T>(v), count);
}

// to[i] += from(i, mask or nothing) for i < count, by vectors.
template <class T, class F>
inline void add_vectors(T* to, int64_t count, const F& from) {
  int64_t i = 0;
  for (; i + tile::kLanes<T> <= count; i += tile::kLanes<T>) {
    tile::store(to + i, tile::load(to + i) + from(i, tile::EdgeMask<T>(tile::kLanes<T>)));
  }
  if (i == count) return;
  const tile::EdgeMask<T> mask(count - i);
  tile::store(to + i, tile::load(to + i, mask) + from(i, mask), mask);
}
template <class T>
inline void add_run(T* to, const T* from, int64_t count) {
  add_vectors(to, count,
              [=](int64_t i, tile::EdgeMask<T> mask) { return tile::load(from + i, mask); });
}
template <class T>
inline void add_value(T* to, T value, int64_t count) {
  add_vectors(to, count, [=](int64_t, tile::EdgeMask<T>) { return tile::broadcast(value); });
}

// Calls f(place of the window's element in its plane) in rising order.
template <class F>
inline void each_element(const PoolArgs& g, const Window& d, const Window& h, const Window& w,
                         const F& f) {
  for (int64_t i = d.begin; i < d.end; i += d.step) {
    for (int64_t j = h.begin; j < h.end; j += h.step) {
      const int64_t row = (i * g.in[1] + j) * g.in[2];
      for (int64_t k = w.begin; k < w.end; k += w.step) f(row + k);
    }
  }
}

// Calls f(place of the output in its plane, its windows) for the outputs of rows [begin, end) of
// (depth, height).
template <class F>
inline void each_output(const PoolArgs& g, const F& f) {
  int64_t o = 0;
  for (int64_t i = 0; i < g.out[0]; i++) {
    const Window d = window(g, 0, i);
    for (int64_t j = 0; j < g.out[1]; j++) {
      const Window h = window(g, 1, j);
      for (int64_t k = 0; k < g.out[2]; k++, o++) f(o, d, h, window(g, 2, k));
    }
  }
}

// Chunks of planes that are worth a hand-over.
inline int64_t plane_grain(const PoolArgs& g, int64_t planes_each) {
  const int64_t work = planes_each * (pixels(g.in) + pixels(g.out));
  return tile::most(1, 32768 / tile::most(1, work));
}

// Channels that are innermost go by blocks of this many, each summed apart in `T`.
template <class T>
inline constexpr int64_t kChannelBlock = 4 * tile::kLanes<T>;

// A gradient of the input, one plane (or one block of innermost channels) at a time: f(gy, gx of
// type T, their pixel steps, channels, where indices begin). Half types are summed in float and
// rounded once.
template <class S, class F>
void each_gradient(const PoolArgs& g, const F& f) {
  using T = ComputeOf<S>;
  const int64_t block = g.channels_last ? kChannelBlock<T> : 1;
  const int64_t blocks = tile::ceil_div(g.channels, block), in = pixels(g.in), out = pixels(g.out);
  const int64_t inner = g.channels_last ? g.channels : 1;
  parallel_for(g.batch * blocks, plane_grain(g, block), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t image = item / blocks, c = item % blocks * block;
      const int64_t count = tile::least(block, g.channels - c);
      const int64_t plane = g.channels_last ? c : c * in, out_plane = g.channels_last ? c : c * out;
      S* gx = static_cast<S*>(g.gx) + image * g.channels * in + plane;
      const int64_t at = image * g.channels * out + out_plane;
      T* sums;
      int64_t step = inner;
      if constexpr (sizeof(S) == sizeof(T)) {
        sums = gx;
      } else {
        sums = static_cast<T*>(scratch(Scratch::Columns, sizeof(T) * size_t(in * count)));
        step = count;
      }
      const bool dense = step == count;
      for (int64_t p = 0; p < (dense ? 1 : in); p++) {
        __builtin_memset(sums + p * step, 0, sizeof(T) * size_t(dense ? in * count : count));
      }
      f(static_cast<const S*>(g.gy) + at, inner, sums, step, count, at);
      if constexpr (sizeof(S) != sizeof(T)) {
        for (int64_t p = 0; p < in; p++) {
          for (int64_t i = 0; i < count; i++) gx[p * inner + i] = narrow_one<S>(sums[p * step + i]);
        }
      }
    }
  });
}

}  // namespace flambeau::FL_ISA
