// Copies between images in memory and the lattice: padding, phases of a stride, channel order, and
// half types.
#pragma once
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/conv_plan.h"
#include "flambeau/kernels/cpu/gemm_pack.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {

template <class T>
inline void fill_zero(T* out, int64_t count) {
  for (int64_t i = 0; i < count; i++) out[i] = 0;
}

template <class V, int... I>
inline V even_lanes(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (2 * I)...);
}

// Every second element of a run: those between are read too, the one behind the last is not.
template <class S, class T>
inline void widen_evens(const S* in, int64_t count, T* out) {
  constexpr int kLane = tile::kLanes<T>;
  for (int64_t i = 0; i < count; i += kLane) {
    const int64_t low = 2 * (count - i) - 1, high = low - kLane;
    const S* from = in + 2 * i;
    const auto a = tile::load(from, tile::EdgeMask<T>(low), low);
    const auto b =
        high > 0 ? tile::load(from + kLane, tile::EdgeMask<T>(high), high) : tile::Vector<T>{};
    tile::store(out + i, even_lanes(a, b, std::make_integer_sequence<int, kLane>()),
                tile::EdgeMask<T>(count - i));
  }
}

// Copies and widens a run whose elements stand `step` apart.
template <class S, class T>
inline void widen_run(const S* in, int64_t step, int64_t count, T* out) {
  if (step == 2) return widen_evens(in, count, out);
  if (step != 1) {
    for (int64_t i = 0; i < count; i++) out[i] = widen_one(in[i * step]);
    return;
  }
  int64_t i = 0;
  for (; i + tile::kLanes<T> <= count; i += tile::kLanes<T>)
    tile::store(out + i, tile::load(in + i));
  if (i < count) {
    const tile::EdgeMask<T> mask(count - i);
    tile::store(out + i, tile::load(in + i, mask, count - i), mask);
  }
}

template <class S, class T>
inline void narrow_run(const T* in, int64_t count, S* out, int64_t step) {
  int64_t i = 0;
  if (step == 1) {
    for (; i + tile::kLanes<T> <= count; i += tile::kLanes<T>)
      tile::store(out + i, tile::load(in + i));
  }
  for (; i < count; i++) out[i * step] = narrow_one<S>(in[i]);
}

// out[c * out_row + r] = in[r * in_row + c], by blocks that turn in registers.
template <class S, class T>
inline void turn(const S* in, int64_t in_row, int64_t rows, int64_t cols, T* out, int64_t out_row) {
  using tile::kLanes;
  constexpr int kLane = kLanes<ComputeOf<T>>;
  using V = tile::Vector<ComputeOf<T>>;
  for (int64_t r0 = 0; r0 < rows; r0 += kLane) {
    const int64_t height = tile::least(kLane, rows - r0);
    for (int64_t c0 = 0; c0 < cols; c0 += kLane) {
      const int64_t width = tile::least(kLane, cols - c0);
      const S* from = in + r0 * in_row + c0;
      T* to = out + c0 * out_row + r0;
      V edge[kLane], block[kLane];
#pragma GCC unroll 1
      for (int64_t r = 0; r < kLane; r++) {
        const S* line = from + tile::least(r, height - 1) * in_row;
        edge[r] = width == kLane ? tile::load(line) : load_wide(line, width).v;
      }
#pragma GCC unroll 16
      for (int r = 0; r < kLane; r++) block[r] = edge[r];
      tile::transpose<ComputeOf<T>>(block);
#pragma GCC unroll 16
      for (int r = 0; r < kLane; r++) edge[r] = block[r];
#pragma GCC unroll 1
      for (int64_t c = 0; c < width; c++) {
        if (height == kLane) {
          tile::store(to + c * out_row, edge[c]);
        } else {
          store_narrow(to + c * out_row, Vec<ComputeOf<T>>(edge[c]), height);
        }
      }
    }
  }
}

// The lattice points [begin, end) of one phase that exist in the source; those before and after are
// padding.
struct Inside {
  int64_t begin, end, first;  // first: source coordinate of the first lattice point
  Inside(const Axis& a, int64_t phase) : first(a.low * a.step + phase) {
    begin = first >= 0 ? 0 : tile::ceil_div(-first, a.step);
    end = first >= a.source ? 0 : tile::ceil_div(a.source - first, a.step);
    begin = tile::least(begin, a.extent);
    end = tile::most(begin, tile::least(end, a.extent));
  }
  bool has(int64_t i) const { return begin <= i && i < end; }
};

inline bool phase_used(const Axis& a, int64_t phase) {
  for (int64_t t = 0; t < a.taps; t++) {
    if (a.phase[t] == phase) return true;
  }
  return false;
}

// One lattice row of `channels` channels from x, which points at the row's first source element.
template <class S, class T>
inline void fill_row(const S* x, int64_t x_channel, int64_t x_step, int64_t channels,
                     const Inside& w, int64_t extent, T* out, int64_t plane) {
  for (int64_t c = 0; c < channels; c++) {
    fill_zero(out + c * plane, w.begin);
    fill_zero(out + c * plane + w.end, extent - w.end);
  }
  const int64_t count = w.end - w.begin;
  if (count == 0) return;
  if (x_channel == 1 && channels > 1) return turn(x, x_step, count, channels, out + w.begin, plane);
  for (int64_t c = 0; c < channels; c++)
    widen_run(x + c * x_channel, x_step, count, out + c * plane + w.begin);
}

// Lattice planes of `channels` channels of an image.
template <class S, class T>
void fill_lattice(const Plan& plan, const S* x, const ImageStrides& s, int64_t channels, T* out) {
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  for (int64_t fd = 0; fd < d.step; fd++) {
    for (int64_t fh = 0; fh < h.step; fh++) {
      for (int64_t fw = 0; fw < w.step; fw++) {
        const int64_t block = d.extent * h.extent * w.extent;
        T* to = out + ((fd * h.step + fh) * w.step + fw) * block;
        if (!phase_used(d, fd) || !phase_used(h, fh) || !phase_used(w, fw)) continue;
        const Inside in_d(d, fd), in_h(h, fh), in_w(w, fw);
        for (int64_t i = 0; i < d.extent; i++) {
          for (int64_t j = 0; j < h.extent; j++, to += w.extent) {
            if (!in_d.has(i) || !in_h.has(j)) {
              for (int64_t c = 0; c < channels; c++) fill_zero(to + c * plan.plane, w.extent);
              continue;
            }
            const S* row = x + (in_d.first + i * d.step) * s.axis[0] +
                           (in_h.first + j * h.step) * s.axis[1] +
                           (in_w.first + in_w.begin * w.step) * s.axis[2];
            fill_row(row, s.channel, w.step * s.axis[2], channels, in_w, w.extent, to, plan.plane);
          }
        }
      }
    }
  }
}

// The computed output of rows [begin, end), `pitch` apart, to its places in the image y, whose
// first row is y itself.
template <class S, class T>
void place_output(const Plan& plan, const T* sums, int64_t pitch, S* y, const ImageStrides& s,
                  int64_t begin, int64_t end) {
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  for (int64_t i = 0; i < d.outs; i++) {
    for (int64_t j = 0; j < h.outs; j++) {
      const T* from = sums + i * plan.out_depth + j * plan.out_height;
      S* to = y + (d.out_first + i * d.out_step) * s.axis[0] +
              (h.out_first + j * h.out_step) * s.axis[1] + w.out_first * s.axis[2];
      if (s.channel == 1 && end - begin > 1) {
        turn(from + begin * pitch, pitch, end - begin, w.outs, to + begin, w.out_step * s.axis[2]);
        continue;
      }
      for (int64_t r = begin; r < end; r++) {
        narrow_run(from + r * pitch, w.outs, to + r * s.channel, w.out_step * s.axis[2]);
      }
    }
  }
}

// A lattice that is the image itself needs no copy.
template <class S, class T>
bool lattice_is_image(const Plan& plan, const ImageStrides& s) {
  if (sizeof(S) != sizeof(T)) return false;
  if (s.axis[2] != 1 || (s.channel == 1 && plan.channels > 1)) return false;
  for (const Axis& a : plan.axis) {
    if (a.step != 1 || a.low != 0 || a.extent != a.source) return false;
  }
  return true;
}

// All channels of an image on the lattice, in `room` or in this thread's scratch memory.
template <class T, class S>
T* lattice_copy(const Plan& plan, const S* x, const ImageStrides& s, T* room) {
  // Slack: the vectors of the last outputs read past the last plane.
  const size_t bytes = sizeof(T) * size_t(plan.channels * plan.plane + 2 * tile::kLanes<T>);
  T* lattice = room ? room : static_cast<T*>(scratch(Scratch::ConvInput, bytes));
  // Where channels lie innermost, vectors of them are turned at once.
  const int64_t together = s.channel == 1 ? 2 * tile::kLanes<T> : 1;
  const int64_t grain = tile::most(1, 32768 / tile::most(1, plan.plane * together));
  parallel_for(tile::ceil_div(plan.channels, together), grain, [&](int64_t begin, int64_t end) {
    const int64_t stop = tile::least(plan.channels, end * together);
    for (int64_t c = begin * together; c < stop; c += together) {
      fill_lattice(plan, x + c * s.channel, s, tile::least(together, plan.channels - c),
                   lattice + c * plan.plane);
    }
  });
  return lattice;
}

// The lattice with channels innermost. One row of it from x, the row's first source element:
template <class S, class T>
void fill_pixels(const S* x, int64_t x_channel, int64_t x_step, int64_t channels, int64_t count,
                 T* out) {
  if (x_channel == 1 && x_step == channels) return widen_run(x, 1, count * channels, out);
  if (x_channel == 1) {
    for (int64_t i = 0; i < count; i++) widen_run(x + i * x_step, 1, channels, out + i * channels);
  } else if (x_step == 1) {
    turn(x, x_channel, channels, count, out, channels);
  } else {
    for (int64_t i = 0; i < count; i++)
      widen_run(x + i * x_step, x_channel, channels, out + i * channels);
  }
}

template <class S, class T>
void fill_pixel_lattice(const Plan& plan, const S* x, const ImageStrides& s, T* out) {
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  const int64_t c = plan.channels, rows = d.points() * h.points() * w.step;
  parallel_for(rows, tile::most(1, 32768 / tile::most(1, w.extent * c)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; row++) {
                   // Rows in order of memory: phases of all dims, then depth, then height.
                   const int64_t j = row % h.extent, i = row / h.extent % d.extent;
                   const int64_t phase = row / (h.extent * d.extent);
                   const int64_t fw = phase % w.step, fh = phase / w.step % h.step,
                                 fd = phase / (w.step * h.step);
                   if (!phase_used(d, fd) || !phase_used(h, fh) || !phase_used(w, fw)) continue;
                   const Inside in_d(d, fd), in_h(h, fh), in_w(w, fw);
                   T* to = out + row * w.extent * c;
                   if (!in_d.has(i) || !in_h.has(j)) {
                     fill_zero(to, w.extent * c);
                     continue;
                   }
                   fill_zero(to, in_w.begin * c);
                   fill_zero(to + in_w.end * c, (w.extent - in_w.end) * c);
                   const S* from = x + (in_d.first + i * d.step) * s.axis[0] +
                                   (in_h.first + j * h.step) * s.axis[1] +
                                   (in_w.first + in_w.begin * w.step) * s.axis[2];
                   fill_pixels(from, s.channel, w.step * s.axis[2], c, in_w.end - in_w.begin,
                               to + in_w.begin * c);
                 }
               });
}

inline TableRoom table_room(const ConvArgs& g, const int64_t (&outs)[3], int64_t channels,
                            int lanes) {
  return {static_cast<int64_t*>(scratch(
      Scratch::ConvTable, sizeof(int64_t) * size_t(table_words(g, outs, channels, lanes))))};
}

}  // namespace flambeau::FL_ISA
