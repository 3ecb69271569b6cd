// Builds the plan of a convolution: axes, tap offsets, and the vectors that cover the output.
#include "flambeau/kernels/cpu/conv_plan.h"

namespace flambeau::FL_ISA {

using tile::ceil_div;
using tile::least;
using tile::most;

namespace {

void take_taps(Axis& a, int64_t count, TableRoom& room) {
  a.tap = room.take(count), a.phase = room.take(count), a.shift = room.take(count);
}

Inside inside_of(const Axis& a, int64_t phase) {
  Inside in{0, 0, a.low * a.step + phase, 0};
  if (in.first < 0) in.begin = least(ceil_div(-in.first, a.step), a.extent);
  if (in.first < a.source) in.end = least(ceil_div(a.source - in.first, a.step), a.extent);
  in.end = most(in.begin, in.end);
  for (int64_t t = 0; t < a.taps; t++) in.used = in.used || a.phase[t] == phase;
  return in;
}

void bound_lattice(Axis& a, TableRoom& room) {
  int64_t high = 0;
  a.low = 0;
  for (int64_t t = 0; t < a.taps; t++) {
    a.low = t == 0 ? a.shift[t] : least(a.low, a.shift[t]);
    high = t == 0 ? a.shift[t] : most(high, a.shift[t]);
  }
  a.extent = high - a.low + a.outs;
  static_assert(sizeof(Inside) == 4 * sizeof(int64_t));
  a.inside = reinterpret_cast<Inside*>(room.take(4 * a.step));
  for (int64_t f = 0; f < a.step; f++) a.inside[f] = inside_of(a, f);
}

}  // namespace

Axis forward_axis(const ConvArgs& g, int dim, TableRoom& room) {
  Axis a{};
  a.source = g.in[dim], a.step = g.stride[dim];
  a.outs = g.out[dim], a.out_step = 1;
  a.taps = g.kernel[dim];
  take_taps(a, a.taps, room);
  for (int64_t t = 0; t < a.taps; t++) {
    const int64_t from = t * g.dilation[dim] - g.pad[dim];
    a.tap[t] = t;
    a.shift[t] = floor_div(from, a.step);
    a.phase[t] = from - a.shift[t] * a.step;
  }
  bound_lattice(a, room);
  return a;
}

// Input position p gets w[t] * gy[o] wherever o * stride + t * dilation - pad == p.
Axis backward_axis(const ConvArgs& g, int dim, int64_t first, TableRoom& room) {
  Axis a{};
  a.source = g.out[dim], a.step = 1;
  a.out_first = first, a.out_step = g.stride[dim];
  a.outs = first < g.in[dim] ? ceil_div(g.in[dim] - first, a.out_step) : 0;
  const int64_t most_taps = g.kernel[dim];
  take_taps(a, most_taps, room);
  for (int64_t t = 0; t < most_taps; t++) {
    const int64_t from = first + g.pad[dim] - t * g.dilation[dim];
    if (from % a.out_step != 0) continue;
    a.tap[a.taps] = t, a.phase[a.taps] = 0, a.shift[a.taps] = from / a.out_step;
    a.taps++;
  }
  bound_lattice(a, room);
  return a;
}

Axis padded_axis(const ConvArgs& g, int dim, TableRoom& room) {
  Axis all{};
  all.source = g.out[dim], all.step = 1;
  int64_t high = 0;
  for (int64_t first = 0; first < least(g.stride[dim], g.in[dim]); first++) {
    TableRoom again = room;
    const Axis a = backward_axis(g, dim, first, again);
    all.low = first == 0 ? a.low : least(all.low, a.low);
    high = first == 0 ? a.low + a.extent : most(high, a.low + a.extent);
  }
  all.extent = high - all.low;
  all.inside = reinterpret_cast<Inside*>(room.take(4));
  *all.inside = inside_of(all, 0);
  all.inside->used = 1;
  return all;
}

void lay_on(const Axis& padded, Axis& a) {
  for (int64_t t = 0; t < a.taps; t++) a.shift[t] -= padded.low;
  a.low = 0, a.extent = a.source = padded.extent;
  *a.inside = {0, a.extent, 0, 1};
}

int64_t table_words(const ConvArgs& g, const int64_t (&outs)[3], int64_t channels, int lanes) {
  const int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  int64_t axes = 0;
  for (int d = 0; d < 3; d++) axes += 3 * g.kernel[d] + 4 * g.stride[d];
  // A flat output is wider than `outs` by the reach of the kernel.
  int64_t reach = outs[2];
  for (int d = 0; d < 3; d++) reach += g.kernel[d] * g.dilation[d];
  const int64_t segments = outs[0] * outs[1] * (ceil_div(reach, lanes) + 1);
  return axes + (channels + 1) * taps + 3 * segments + 64;
}

namespace {

// How much of the vectors' work is wanted.
double row_use(const Axis& width, int lanes) {
  return double(width.outs) / double(ceil_div(width.outs, lanes) * lanes);
}
double flat_use(const Axis& height, const Axis& width, int lanes) {
  const int64_t run = (height.outs - 1) * width.extent + width.outs;
  return double(height.outs * width.outs) / double(ceil_div(run, lanes) * lanes);
}

void cover(Plan& plan, int lanes, TableRoom& room) {
  const Axis &depth = plan.axis[0], &height = plan.axis[1], &width = plan.axis[2];
  const int64_t pitch = width.extent, slice = height.extent * pitch;
  const int64_t rows = plan.flat ? 1 : height.outs;
  const int64_t run = plan.flat ? (height.outs - 1) * pitch + width.outs : width.outs;
  plan.out_height = plan.flat ? pitch : width.outs;
  plan.out_depth = plan.flat ? height.outs * pitch : height.outs * width.outs;
  plan.out_plane = depth.outs * plan.out_depth;
  const int64_t count = depth.outs * rows * ceil_div(run, lanes);
  plan.segment_in = room.take(count);
  plan.segment_out = room.take(count);
  plan.segment_lanes = room.take(count);
  int64_t n = 0;
  for (int64_t d = 0; d < depth.outs; d++) {
    for (int64_t h = 0; h < rows; h++) {
      for (int64_t w = 0; w < run; w += lanes, n++) {
        plan.segment_in[n] = d * slice + h * pitch + w;
        plan.segment_out[n] = d * plan.out_depth + h * plan.out_height + w;
        plan.segment_lanes[n] = least(lanes, run - w);
      }
    }
  }
  plan.segments = n;
}

}  // namespace

void finish_plan(Plan& plan, const int64_t (&kernel)[3], int lanes, int64_t depth,
                 TableRoom& room) {
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  plan.taps = d.taps * h.taps * w.taps;
  plan.plane = d.points() * h.points() * w.points();
  plan.chunk = most(1, least(plan.channels, depth / most(1, plan.taps)));
  plan.chunk = ceil_div(plan.channels, ceil_div(plan.channels, plan.chunk));
  plan.offsets = room.take(plan.chunk * plan.taps);
  plan.places = room.take(plan.taps);
  // Phases stand one after the other, each a dense block of points.
  const int64_t block = d.extent * h.extent * w.extent;
  int64_t n = 0;
  for (int64_t c = 0; c < plan.chunk; c++) {
    for (int64_t i = 0; i < d.taps; i++) {
      for (int64_t j = 0; j < h.taps; j++) {
        for (int64_t k = 0; k < w.taps; k++) {
          const int64_t phase = (d.phase[i] * h.step + h.phase[j]) * w.step + w.phase[k];
          const int64_t row = (d.shift[i] - d.low) * h.extent + h.shift[j] - h.low;
          if (c == 0) plan.places[n] = (d.tap[i] * kernel[1] + h.tap[j]) * kernel[2] + w.tap[k];
          plan.offsets[n++] = c * plan.plane + phase * block + row * w.extent + w.shift[k] - w.low;
        }
      }
    }
  }
  // The gaps cost a copy afterwards.
  plan.flat = flat_use(h, w, lanes) > 1.2 * row_use(w, lanes);
  cover(plan, lanes, room);
}

}  // namespace flambeau::FL_ISA
