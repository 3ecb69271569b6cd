// The weight's gradient by the register tile: for each pixel, output slopes times the input pixels
// under the kernel. The lattice here has channels innermost, so that neighbouring taps of a row are
// one run of memory.
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/conv_weight.h"
#include "flambeau/kernels/cpu/gemm_product.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

// Runs of taps that are neighbours on the lattice. Slots number the taps in this order.
template <class F>
void each_run(const Axis& w, const F& f) {
  for (int64_t phase = 0; phase < w.step; phase++) {
    int64_t first = 0, length = 0;  // shift of the run's first tap
    for (int64_t t = 0; t < w.taps; t++) {
      if (w.phase[t] != phase) continue;
      if (length > 0 && w.shift[t] != first + length) {
        f(phase, first, length);
        length = 0;
      }
      if (length == 0) first = w.shift[t];
      length++;
    }
    if (length > 0) f(phase, first, length);
  }
}

// Where tiles read and write, for one group; built once per call.
struct Columns {
  int64_t count;  // vectors
  int64_t *in, *out, *lanes;
  int64_t* slots;   // tap of each slot
  int64_t* pixels;  // lattice place of each output's first tap
};

Columns columns_of(const Plan& plan, int lanes, int64_t* room) {
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  const int64_t c = plan.channels, block = d.extent * h.extent * w.extent;
  const int64_t most_vectors = plan.taps * ceil_div(c, lanes) + plan.taps;
  Columns columns{
      0, room, room + most_vectors, room + 2 * most_vectors, room + 3 * most_vectors, nullptr};
  columns.pixels = columns.slots + plan.taps;
  int64_t slot = 0;
  for (int64_t i = 0; i < d.taps; i++) {
    for (int64_t j = 0; j < h.taps; j++) {
      each_run(w, [&](int64_t phase, int64_t first, int64_t length) {
        const int64_t lattice = (d.phase[i] * h.step + h.phase[j]) * w.step + phase;
        const int64_t row = (d.shift[i] - d.low) * h.extent + h.shift[j] - h.low;
        const int64_t at = (lattice * block + row * w.extent + first - w.low) * c;
        for (int64_t v = 0; v < length * c; v += lanes, columns.count++) {
          columns.in[columns.count] = at + v;
          columns.out[columns.count] = slot * c + v;
          columns.lanes[columns.count] = least(lanes, length * c - v);
        }
        for (int64_t t = 0; t < w.taps; t++) {
          if (w.phase[t] == phase && w.shift[t] >= first && w.shift[t] < first + length) {
            columns.slots[slot++] = (d.tap[i] * h.taps + h.tap[j]) * w.taps + w.tap[t];
          }
        }
      });
    }
  }
  int64_t n = 0;
  for (int64_t i = 0; i < d.outs; i++) {
    for (int64_t j = 0; j < h.outs; j++) {
      for (int64_t k = 0; k < w.outs; k++)
        columns.pixels[n++] = ((i * h.extent + j) * w.extent + k) * c;
    }
  }
  return columns;
}

// The gradient of the output, one image: tiles take it in either order of dims.
template <class T>
struct Slopes {
  const T* data;
  int64_t row, pixel;
};
template <class S, class T>
Slopes<T> slopes_of(const WeightTask<S>& task, int64_t image, int64_t group) {
  if (sizeof(S) == sizeof(T) && task.ys.channel == 1) {
    return {reinterpret_cast<const T*>(task.gy(image, group)), 1, task.ys.axis[2]};
  }
  return {gy_rows<S, T>(task, image, group), task.plan.out_plane, 1};
}

// Pixels summed in one run of a tile: slopes and lattice of a tile stay in L1.
inline constexpr int64_t kPixels = 256;

// Adds pixels [first, first + count) to sums (rows x pairs).
template <class T>
void add_pixels(const Plan& plan, const Columns& columns, const Slopes<T>& gy, const T* lattice,
                int64_t first, int64_t count, bool keep, int64_t pairs, T* sums) {
  const auto& tiles = kTiles<T, A::Strided, B::Offset>;
  const int64_t panels = ceil_div(plan.rows, kRows), height = ceil_div(plan.rows, panels);
  const bool wide = height <= kWideRows;
  const int64_t vectors = wide ? kWideVectors : kVectors, strips = ceil_div(columns.count, vectors);
  parallel_for(ceil_div(plan.rows, height) * strips, grain_of(height * vectors * kLanes<T> * count),
               [&](int64_t begin, int64_t end) {
                 Tile<T> t;
                 t.k = count;
                 t.a_row = gy.row, t.a_col = gy.pixel;
                 t.b = lattice, t.b_offset = columns.pixels + first;
                 t.c_row = pairs;
                 t.end.beta = keep;
                 t.end.settle();
                 for (int64_t item = begin; item < end; item++) {
                   const int64_t row = item / strips * height, at = item % strips * vectors;
                   const int64_t used = least(vectors, columns.count - at);
                   for (int64_t s = 0; s < vectors; s++) {
                     const int64_t from = at + least(s, used - 1);
                     t.vector_b[s] = columns.in[from], t.vector_c[s] = columns.out[from];
                     t.vector_lanes[s] = s < used ? columns.lanes[from] : 0;
                   }
                   t.a = gy.data + row * gy.row + first * gy.pixel;
                   t.c = sums + row * pairs;
                   const int64_t rows = least(height, plan.rows - row);
                   (used == 1 ? tiles.narrow : used <= 2 ? tiles.full : tiles.wide)[rows - 1](t);
                 }
               });
}

template <class S>
void sum_tiles(const WeightTask<S>& task, int64_t group) {
  using T = ComputeOf<S>;
  const Plan& plan = task.plan;
  const int64_t pixels = plan.out_plane, c = plan.channels;
  const int64_t words = plan.taps * (3 * ceil_div(c, kLanes<T>) + 4) + pixels;
  const int64_t count = plan.rows * task.pairs;
  T* sums = static_cast<T*>(
      scratch(Scratch::Columns, sizeof(T) * size_t(count) + sizeof(int64_t) * size_t(words) + 8));
  int64_t* room = reinterpret_cast<int64_t*>(sums + ceil_div(count, 2) * 2);
  const Columns columns = columns_of(plan, kLanes<T>, room);
  T* lattice = static_cast<T*>(
      scratch(Scratch::ConvInput, sizeof(T) * size_t(c * plan.plane + 4 * kLanes<T>)));
  for (int64_t image = 0; image < task.g.batch; image++) {
    fill_pixel_lattice(plan, task.x(image, group), task.xs, lattice);
    const Slopes<T> gy = slopes_of<S, T>(task, image, group);
    for (int64_t first = 0; first < pixels; first += kPixels) {
      add_pixels(plan, columns, gy, lattice, first, least(kPixels, pixels - first),
                 image + first > 0, task.pairs, sums);
    }
  }
  // From (row, tap, channel) to (row, channel, tap).
  T* gw = task.gw + group * count;
  parallel_for(plan.rows, most(1, 32768 / task.pairs), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const T* from = sums + r * task.pairs;
      for (int64_t slot = 0; slot < plan.taps; slot++, from += c) {
        T* to = gw + r * task.pairs + columns.slots[slot];
        for (int64_t i = 0; i < c; i++) to[i * plan.taps] = from[i];
      }
    }
  });
}

}  // namespace

int64_t tile_use(const Plan& plan, int lanes) {
  int64_t useful = 0, all = 0;
  each_run(plan.axis[2], [&](int64_t, int64_t, int64_t length) {
    useful += length * plan.channels;
    all += ceil_div(length * plan.channels, lanes) * lanes;
  });
  return all ? 100 * useful / all : 0;
}

void sum_by_tiles(const WeightTask<float>& task, int64_t group) { sum_tiles(task, group); }
void sum_by_tiles(const WeightTask<double>& task, int64_t group) { sum_tiles(task, group); }
void sum_by_tiles(const WeightTask<Half>& task, int64_t group) { sum_tiles(task, group); }
void sum_by_tiles(const WeightTask<BFloat16>& task, int64_t group) { sum_tiles(task, group); }

}  // namespace flambeau::FL_ISA
