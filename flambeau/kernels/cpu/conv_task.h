// What the loops of a convolution share: the task and its packed weights.
#pragma once
#include "flambeau/kernels/cpu/conv_image.h"
#include "flambeau/kernels/cpu/gemm_pack.h"

namespace flambeau::FL_ISA {

template <class T>
inline constexpr int64_t kTapDepth = 1600 / int64_t(sizeof(T));

// What one convolution (or one phase of an input's gradient) maps from and to.
template <class S>
struct Task {
  Plan plan;
  int64_t batch, groups;
  const S* x;
  ImageStrides x_strides;
  S* y;
  ImageStrides y_strides;
  const S* bias;       // may be null
  bool roomy = false;  // vectors may read past the end of x
};

// Weights as panels of rows; element (row, channel, tap) is w[row * row_step + channel *
// channel_step + tap_at].
template <class S>
struct WeightView {
  const S* w;
  int64_t group_step, row_step, channel_step;
  bool dense;  // (channel, tap) run without gaps
};

template <class T>
struct Packed {
  T* data;
  int64_t height, panels;  // rows of a panel
  int64_t panel_size, group_size;
};

// The rows of weights as a tile takes them: packed panels, or where they lie.
template <class T>
struct Rows {
  const T* data;
  int64_t height, panels, panel_size, group_size;
  int64_t row, col;
  bool packed;

  explicit Rows(const Packed<T>& p)
      : data(p.data),
        height(p.height),
        panels(p.panels),
        panel_size(p.panel_size),
        group_size(p.group_size),
        row(1),
        col(tile::kRows),
        packed(true) {}
  Rows(const Plan& plan, const WeightView<T>& view)
      : data(view.w),
        height(tile::ceil_div(plan.rows, tile::ceil_div(plan.rows, tile::kRows))),
        panels(tile::ceil_div(plan.rows, height)),
        panel_size(height * view.row_step),
        group_size(view.group_step),
        row(view.row_step),
        col(1),
        packed(false) {}

  // Sets a tile to panel `panel` of `group`, from place k of its sums.
  void set(tile::Tile<T>& t, int64_t group, int64_t panel, int64_t k) const {
    t.a = data + group * group_size + panel * panel_size + k * col;
    t.a_row = row, t.a_col = col;
  }
};

// Rows by taps of one channel, which stands in w as one run, to one panel.
template <int Width, class S, class T>
void pack_channel(const Plan& plan, const S* w, int64_t row_step, int64_t rows, T* to) {
  if (row_step == plan.taps && plan.taps > 1) {
    return tile::pack_turned<Width>(w, row_step, rows, plan.taps, to);
  }
  for (int64_t t = 0; t < plan.taps; t++) {
    const S* from = w + plan.places[t];
    for (int64_t r = 0; r < rows; r++) to[t * Width + r] = widen_one(from[r * row_step]);
  }
}

// Rows and channels trade places: w is read in order, a few channels at a time. Panels stand so far
// apart that their lines would meet in one set of L1: each gets some kilobytes in a row.
template <int Width, class S, class T>
void pack_scattered(const ConvArgs& g, const Plan& plan, const WeightView<S>& view,
                    const Packed<T>& packed) {
  const int64_t together = tile::kTogether, parts = tile::ceil_div(plan.channels, together);
  const int64_t grain = tile::most(1, 16384 / tile::most(1, plan.rows * plan.taps * together));
  parallel_for(g.groups * parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t group = item / parts, first = item % parts * together;
      const int64_t stop = tile::least(plan.channels, first + together);
      T* to = packed.data + group * packed.group_size;
      for (int64_t row = 0; row < plan.rows; row += packed.height, to += packed.panel_size) {
        const S* w = view.w + group * view.group_step + row * view.row_step;
        for (int64_t c = first; c < stop; c++) {
          pack_channel<Width>(plan, w + c * view.channel_step, view.row_step,
                              tile::least(packed.height, plan.rows - row),
                              to + c * plan.taps * Width);
        }
      }
    }
  });
}

template <int Width, class S, class T>
void pack_dense(const ConvArgs& g, const Plan& plan, const WeightView<S>& view,
                const Packed<T>& packed) {
  const int64_t grain = tile::most(1, 16384 / tile::most(1, packed.panel_size));
  parallel_for(g.groups * packed.panels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t group = item / packed.panels, row = item % packed.panels * packed.height;
      const S* w = view.w + group * view.group_step + row * view.row_step;
      const int64_t rows = tile::least(packed.height, plan.rows - row);
      tile::pack_panel<Width>(w, view.row_step, 1, rows, plan.channels * plan.taps,
                              packed.data + item * packed.panel_size);
    }
  });
}

// Width: room for rows in a panel; they are dealt out evenly unless the panel is `full`.
template <int Width, class S, class T>
Packed<T> pack_weights(const ConvArgs& g, const Plan& plan, const WeightView<S>& view, bool full) {
  Packed<T> packed;
  packed.height = full ? Width : tile::ceil_div(plan.rows, tile::ceil_div(plan.rows, Width));
  packed.panels = tile::ceil_div(plan.rows, packed.height);
  packed.panel_size = Width * plan.channels * plan.taps;
  packed.group_size = packed.panels * packed.panel_size;
  packed.data = static_cast<T*>(
      scratch(Scratch::ConvWeight, sizeof(T) * size_t(g.groups * packed.group_size)));
  if (view.dense) {
    pack_dense<Width>(g, plan, view, packed);
  } else {
    pack_scattered<Width>(g, plan, view, packed);
  }
  return packed;
}

// Images with channels innermost: conv_pixels.cpp. False if the task does not suit that loop.
bool run_by_pixels(const ConvArgs& g, const Task<float>& task, const WeightView<float>& view);
bool run_by_pixels(const ConvArgs& g, const Task<double>& task, const WeightView<double>& view);

// Images whose rows fill vectors badly: conv_patches.cpp. False if the task does not gain by that
// loop.
bool run_by_patches(const Task<float>& task, const Rows<float>& weights, const float* bias);
bool run_by_patches(const Task<double>& task, const Rows<double>& weights, const double* bias);
bool run_by_patches(const Task<Half>& task, const Rows<float>& weights, const float* bias);
bool run_by_patches(const Task<BFloat16>& task, const Rows<float>& weights, const float* bias);

}  // namespace flambeau::FL_ISA
