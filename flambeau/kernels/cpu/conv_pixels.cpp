// Convolution of images with channels innermost: tiles of output pixels by output channels, written
// where they belong.
#include "flambeau/kernels/cpu/conv_task.h"
#include "flambeau/kernels/cpu/gemm_product.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

// Lattice place of each (channel of a chunk, tap), in the order of the packed weights.
int64_t* pixel_offsets(const Plan& plan) {
  const int64_t count = plan.chunk * plan.taps;
  int64_t* offsets =
      static_cast<int64_t*>(scratch(Scratch::Columns, sizeof(int64_t) * size_t(count)));
  for (int64_t c = 0; c < plan.chunk; c++) {
    for (int64_t t = 0; t < plan.taps; t++) {
      offsets[c * plan.taps + t] = plan.offsets[t] * plan.channels + c;
    }
  }
  return offsets;
}

template <class T>
struct Image {
  const T* lattice;
  const T* weights;
  const T* bias;
  T* y;
};

// Channels [c0, c0 + channels) of the input, added to all output pixels.
template <class T>
void run_chunk(const Task<T>& task, const Packed<T>& packed, const int64_t* offsets,
               const Image<T>& image, int64_t c0, int64_t channels) {
  const Plan& plan = task.plan;
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  const ImageStrides& s = task.y_strides;
  const int64_t strips = ceil_div(w.outs, kRows), length = ceil_div(w.outs, strips);
  const bool last = c0 + channels == plan.channels;
  const int64_t work = length * plan.rows * channels * plan.taps;
  parallel_for(d.outs * h.outs * strips, grain_of(work), [&](int64_t begin, int64_t end) {
    Tile<T> t;
    t.k = channels * plan.taps;
    t.a_row = plan.channels, t.a_offset = offsets;
    t.c_row = w.out_step * s.axis[2];
    t.end = {1, T(c0 > 0), last ? image.bias : nullptr, nullptr};
    t.end.settle();
    for (int64_t item = begin; item < end; item++) {
      const int64_t k = item % strips * length, j = item / strips % h.outs,
                    i = item / strips / h.outs;
      const int64_t pixels = least(length, w.outs - k);
      if (pixels <= 0) continue;
      t.a = image.lattice + ((i * h.extent + j) * w.extent + k) * plan.channels + c0;
      T* y = image.y + (d.out_first + i * d.out_step) * s.axis[0] +
             (h.out_first + j * h.out_step) * s.axis[1] +
             (w.out_first + k * w.out_step) * s.axis[2];
      for (int64_t panel = 0; panel < packed.panels; panel++) {
        const int64_t row = panel * packed.height;
        t.b = image.weights + panel * packed.panel_size + c0 * plan.taps * kColumns<T>;
        t.c = y + row;
        t.columns = least(kColumns<T>, plan.rows - row);
        if (t.end.bias) t.end.bias = image.bias + row;
        run<A::Offset, B::Packed>(t, pixels);
      }
    }
  });
}

template <class T>
void run_image(const Task<T>& task, const Packed<T>& packed, const int64_t* offsets, int64_t image,
               int64_t group) {
  const Plan& plan = task.plan;
  const T* x = task.x + image * task.x_strides.image + group * plan.channels;
  bool in_place = task.groups == 1;
  for (const Axis& a : plan.axis)
    in_place = in_place && a.step == 1 && a.low == 0 && a.extent == a.source;
  if (!in_place) {
    T* lattice = static_cast<T*>(
        scratch(Scratch::ConvInput, sizeof(T) * size_t(plan.channels * plan.plane)));
    fill_pixel_lattice(plan, x, task.x_strides, lattice);
    x = lattice;
  }
  const Image<T> view{x, packed.data + group * packed.group_size,
                      task.bias ? task.bias + group * plan.rows : nullptr,
                      task.y + image * task.y_strides.image + group * plan.rows};
  for (int64_t c = 0; c < plan.channels; c += plan.chunk) {
    run_chunk(task, packed, offsets, view, c, least(plan.chunk, plan.channels - c));
  }
}

template <class T>
bool run_pixels(const ConvArgs& g, const Task<T>& task, const WeightView<T>& view) {
  const Plan& plan = task.plan;
  const int64_t vectors = ceil_div(plan.rows, kLanes<T>);
  if (!g.channels_last || 100 * plan.rows < 60 * vectors * kLanes<T>) return false;
  const Packed<T> packed = pack_weights<kColumns<T>, T, T>(g, plan, view, true);
  const int64_t* offsets = pixel_offsets(plan);
  const int64_t units = task.batch * task.groups;
  const int64_t work = plan.rows * plan.axis[0].outs * plan.axis[1].outs * plan.axis[2].outs *
                       plan.channels * most(1, plan.taps);
  parallel_for(units, units < 8 ? units : grain_of(work), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++) {
      run_image(task, packed, offsets, unit / task.groups, unit % task.groups);
    }
  });
  return true;
}

}  // namespace

bool run_by_pixels(const ConvArgs& g, const Task<float>& task, const WeightView<float>& view) {
  return run_pixels(g, task, view);
}
bool run_by_pixels(const ConvArgs& g, const Task<double>& task, const WeightView<double>& view) {
  return run_pixels(g, task, view);
}

}  // namespace flambeau::FL_ISA
