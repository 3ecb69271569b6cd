// What the loops of a weight's gradient share: the task, and the gradient of the output as rows of
// pixels.
#pragma once
#include "flambeau/kernels/cpu/conv_image.h"

namespace flambeau::FL_ISA {

template <class S>
struct WeightTask {
  using T = ComputeOf<S>;
  const ConvArgs& g;
  Plan plan{};
  ImageStrides xs{}, ys{};
  T* gw = nullptr;    // (c_out, channels * taps)
  int64_t pairs = 0;  // channels * taps

  const S* x(int64_t image, int64_t group) const {
    return static_cast<const S*>(g.x) + image * xs.image + group * plan.channels * xs.channel;
  }
  const S* gy(int64_t image, int64_t group) const {
    return static_cast<const S*>(g.gy) + image * ys.image + group * plan.rows * ys.channel;
  }
  bool gy_in_place() const {
    return sizeof(S) == sizeof(T) && !plan.flat && ys.axis[2] == 1 && ys.channel == plan.out_plane;
  }
};

// The gradient of the output in the layout of the plan: rows of pixels, gaps zero.
template <class S, class T>
void gather_gy(const WeightTask<S>& task, const S* gy, T* out) {
  const Plan& plan = task.plan;
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  const int64_t gap = plan.flat ? plan.out_height - w.outs : 0;
  for (int64_t i = 0; i < d.outs; i++) {
    for (int64_t j = 0; j < h.outs; j++) {
      const S* from = gy + i * task.ys.axis[0] + j * task.ys.axis[1];
      T* to = out + i * plan.out_depth + j * plan.out_height;
      if (task.ys.channel == 1 && plan.rows > 1) {
        turn(from, task.ys.axis[2], w.outs, plan.rows, to, plan.out_plane);
      } else {
        for (int64_t r = 0; r < plan.rows; r++) {
          widen_run(from + r * task.ys.channel, task.ys.axis[2], w.outs, to + r * plan.out_plane);
        }
      }
      for (int64_t r = 0; gap && r < plan.rows; r++)
        fill_zero(to + r * plan.out_plane + w.outs, gap);
    }
  }
}

template <class S, class T>
const T* gy_rows(const WeightTask<S>& task, int64_t image, int64_t group) {
  const S* gy = task.gy(image, group);
  if (task.gy_in_place()) return reinterpret_cast<const T*>(gy);
  const int64_t count = task.plan.rows * task.plan.out_plane;
  T* out = static_cast<T*>(scratch(Scratch::ConvOutput, sizeof(T) * size_t(count)));
  gather_gy(task, gy, out);
  return out;
}

// Sums a group by register tiles of output channels by (tap, input channel): conv_weight_tiles.cpp.
void sum_by_tiles(const WeightTask<float>& task, int64_t group);
void sum_by_tiles(const WeightTask<double>& task, int64_t group);
void sum_by_tiles(const WeightTask<Half>& task, int64_t group);
void sum_by_tiles(const WeightTask<BFloat16>& task, int64_t group);

// How many of the lanes of those tiles would do useful work, in percent.
int64_t tile_use(const Plan& plan, int lanes);

}  // namespace flambeau::FL_ISA
