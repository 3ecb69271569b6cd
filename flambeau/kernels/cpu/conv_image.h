// Copies between images in memory and the lattice: padding, phases of a stride, channel order, and
// half types.
#pragma once
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/conv_plan.h"
#include "flambeau/kernels/cpu/gemm_pack.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {

// By registers: for the few elements of a border a call of memset takes longer than they do.
template <class T>
inline void fill_zero(T* out, int64_t count) {
  for (int64_t i = 0; i < count; i += tile::kLanes<T>)
    tile::store(out + i, tile::Vector<T>{}, tile::EdgeMask<T>(count - i));
}

template <class V, int... I>
inline V even_lanes(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (2 * I)...);
}

// A vector of the first `lanes` elements (at most its own number) that stand `step` = 1 or 2 apart,
// then zeros. What lies between is read too, what lies behind the last is not.
template <class T, class S>
inline tile::Vector<T> load_apart(const S* in, int64_t step, int64_t lanes) {
  constexpr int kLane = tile::kLanes<T>;
  using tile::EdgeMask;
  if (step == 1) return lanes >= kLane ? tile::load(in) : tile::load(in, EdgeMask<T>(lanes), lanes);
  const int64_t low = 2 * lanes - 1, high = low - kLane;
  const auto a = tile::load(in, EdgeMask<T>(low), low);
  const auto b = high > 0 ? tile::load(in + kLane, EdgeMask<T>(high), high) : tile::Vector<T>{};
  return even_lanes(a, b, std::make_integer_sequence<int, kLane>());
}

// Copies and widens a run whose elements stand `step` apart; zeros fill the room behind it.
template <class S, class T>
inline void widen_padded(const S* in, int64_t step, int64_t count, int64_t room, T* out) {
  constexpr int kLane = tile::kLanes<T>;
  if (step > 2) {
    for (int64_t i = 0; i < count; i++) out[i] = widen_one(in[i * step]);
    return fill_zero(out + count, room - count);
  }
  for (int64_t i = 0; i < room; i += kLane) {
    const auto v = i < count ? load_apart<T>(in + i * step, step, tile::least(kLane, count - i))
                             : tile::Vector<T>{};
    if (room - i >= kLane) {
      tile::store(out + i, v);
    } else {
      tile::store(out + i, v, tile::EdgeMask<T>(room - i));
    }
  }
}

// Copies and widens a run whose elements stand `step` apart.
template <class S, class T>
inline void widen_run(const S* in, int64_t step, int64_t count, T* out) {
  widen_padded(in, step, count, count, out);
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

// Lattice rows of one channel from source rows `x_row` apart, whose elements stand `x_step` apart;
// x is the first of them.
template <class S, class T>
inline void fill_rows(const S* x, int64_t x_row, int64_t x_step, int64_t rows, const Inside& w,
                      int64_t extent, T* out) {
  using tile::EdgeMask;
  constexpr int64_t kLane = tile::kLanes<T>;
  const int64_t count = w.end - w.begin, room = extent - w.begin;
  const int64_t low = x_step * (count - 1) + 1, high = low - kLane;
  const bool short_rows = sizeof(S) == sizeof(T) && x_step <= 2 && count > 0 && room <= kLane;
  const EdgeMask<T> read(low), read_high(high), write(room);
  for (int64_t r = 0; r < rows; r++, x += x_row, out += extent) {
    fill_zero(out, w.begin);
    if (!short_rows) {
      widen_padded(x, x_step, count, room, out + w.begin);
      continue;
    }
    // Masks are made once for all rows.
    tile::Vector<T> v = tile::load(x, read, low);
    if (x_step == 2) {
      const auto b = high > 0 ? tile::load(x + kLane, read_high, high) : tile::Vector<T>{};
      v = even_lanes(v, b, std::make_integer_sequence<int, kLane>());
    }
    tile::store(out + w.begin, v, write);
  }
}

// The same of `channels` adjacent channels, which are turned.
template <class S, class T>
inline void turn_rows(const S* x, int64_t x_row, int64_t x_step, int64_t rows, const Inside& w,
                      int64_t extent, T* out, int64_t channels, int64_t plane) {
  for (int64_t r = 0; r < rows; r++, x += x_row, out += extent) {
    for (int64_t c = 0; c < channels; c++) {
      fill_zero(out + c * plane, w.begin);
      fill_zero(out + c * plane + w.end, extent - w.end);
    }
    if (w.end > w.begin) turn(x, x_step, w.end - w.begin, channels, out + w.begin, plane);
  }
}

// One slice of a phase: lattice rows of `channels` channels; x is the slice's first element in the
// source.
template <class S, class T>
inline void fill_slice(const Plan& plan, const S* x, const ImageStrides& s, int64_t channels,
                       const Inside& in_h, const Inside& in_w, T* to) {
  const Axis &h = plan.axis[1], &w = plan.axis[2];
  const int64_t rows = in_h.end - in_h.begin, x_row = h.step * s.axis[1],
                x_step = w.step * s.axis[2];
  const S* from = x + (in_h.first + in_h.begin * h.step) * s.axis[1] +
                  (in_w.first + in_w.begin * w.step) * s.axis[2];
  T* inside = to + in_h.begin * w.extent;
  for (int64_t c = 0; c < channels; c++) {
    fill_zero(to + c * plan.plane, in_h.begin * w.extent);
    fill_zero(to + c * plan.plane + in_h.end * w.extent, (h.extent - in_h.end) * w.extent);
  }
  if (s.channel == 1 && channels > 1)
    return turn_rows(from, x_row, x_step, rows, in_w, w.extent, inside, channels, plan.plane);
  for (int64_t c = 0; c < channels; c++) {
    fill_rows(from + c * s.channel, x_row, x_step, rows, in_w, w.extent, inside + c * plan.plane);
  }
}

// Lattice planes of `channels` channels of an image.
template <class S, class T>
void fill_lattice(const Plan& plan, const S* x, const ImageStrides& s, int64_t channels, T* out) {
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  const int64_t slice = h.extent * w.extent, block = d.extent * slice;
  for (int64_t fd = 0; fd < d.step; fd++) {
    for (int64_t fh = 0; fh < h.step; fh++) {
      for (int64_t fw = 0; fw < w.step; fw++, out += block) {
        const Inside &in_d = d.inside[fd], &in_h = h.inside[fh], &in_w = w.inside[fw];
        if (!in_d.used || !in_h.used || !in_w.used) continue;
        for (int64_t i = 0; i < d.extent; i++) {
          T* to = out + i * slice;
          if (in_d.has(i)) {
            fill_slice(plan, x + (in_d.first + i * d.step) * s.axis[0], s, channels, in_h, in_w,
                       to);
          } else {
            for (int64_t c = 0; c < channels; c++) fill_zero(to + c * plan.plane, slice);
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
                   const Inside &in_d = d.inside[fd], &in_h = h.inside[fh], &in_w = w.inside[fw];
                   if (!in_d.used || !in_h.used || !in_w.used) continue;
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
