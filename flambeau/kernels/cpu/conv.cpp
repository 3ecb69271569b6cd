// Convolution of floating types, forward and to the input: the same register tile as the matrix
// product, reading the input through a table of tap offsets instead of a matrix of copied patches.
#include "flambeau/kernels/cpu/conv.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/conv_task.h"
#include "flambeau/kernels/cpu/gemm.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

// Sums rows x segments of one image and group into c.
template <A kA, class T>
void run_tiles(const Plan& plan, const Rows<T>& weights, int64_t group, const T* lattice, T* c,
               const T* bias) {
  const auto& tiles = kTiles<T, kA, B::Offset>;
  const bool wide = weights.height <= kWideRows;
  const int64_t vectors = wide ? kWideVectors : kVectors, strips = ceil_div(plan.segments, vectors);
  for (int64_t c0 = 0; c0 < plan.channels; c0 += plan.chunk) {
    const int64_t channels = least(plan.chunk, plan.channels - c0);
    const bool last = c0 + channels == plan.channels;
    const int64_t work = weights.height * vectors * kLanes<T> * channels * plan.taps;
    parallel_for(weights.panels * strips, grain_of(work), [&](int64_t begin, int64_t end) {
      Tile<T> t;
      t.k = channels * plan.taps;
      t.b = lattice + c0 * plan.plane;
      t.b_offset = plan.offsets;
      t.c_row = plan.out_plane;
      for (int64_t item = begin; item < end; item++) {
        const int64_t panel = item / strips, row = panel * weights.height;
        const int64_t first = item % strips * vectors,
                      count = least(vectors, plan.segments - first);
        for (int64_t s = 0; s < vectors; s++) {
          const int64_t from = first + least(s, count - 1);
          t.vector_b[s] = plan.segment_in[from];
          t.vector_c[s] = plan.segment_out[from];
          t.vector_lanes[s] = s < count ? plan.segment_lanes[from] : 0;
        }
        weights.set(t, group, panel, c0 * plan.taps);
        t.c = c + row * plan.out_plane;
        t.end = {1, T(c0 > 0), nullptr, bias && last ? bias + row : nullptr};
        t.end.settle();
        const int64_t rows = least(weights.height, plan.rows - row);
        (count == 1 ? tiles.narrow : count <= 2 ? tiles.full : tiles.wide)[rows - 1](t);
      }
    });
  }
}

template <class S, class T>
void run_image(const Task<S>& task, const Rows<T>& weights, const T* bias, int64_t image,
               int64_t group, bool copy_free) {
  const Plan& plan = task.plan;
  const S* x =
      task.x + image * task.x_strides.image + group * plan.channels * task.x_strides.channel;
  S* y = task.y + image * task.y_strides.image + group * plan.rows * task.y_strides.channel;
  // Vectors read past their last lane, which the end of x may not allow.
  const int64_t behind = task.batch * task.groups - 1 - (image * task.groups + group);
  const bool in_place =
      copy_free && (task.roomy || behind * plan.channels * plan.plane >= kLanes<T>);
  const T* lattice =
      in_place ? reinterpret_cast<const T*>(x) : lattice_copy<T>(plan, x, task.x_strides, nullptr);
  const T* row_bias = bias ? bias + group * plan.rows : nullptr;
  bool straight = sizeof(S) == sizeof(T) && plan.dense() && task.y_strides.axis[2] == 1 &&
                  task.y_strides.channel == plan.out_plane;
  for (const Axis& a : plan.axis) straight = straight && a.out_step == 1;
  auto sum_into = [&](T* c) {
    weights.packed ? run_tiles<A::Packed>(plan, weights, group, lattice, c, row_bias)
                   : run_tiles<A::Strided>(plan, weights, group, lattice, c, row_bias);
  };
  if (straight) return sum_into(reinterpret_cast<T*>(y));
  T* sums =
      static_cast<T*>(scratch(Scratch::ConvOutput, sizeof(T) * size_t(plan.rows * plan.out_plane)));
  sum_into(sums);
  const int64_t together = task.y_strides.channel == 1 ? 2 * kLanes<T> : 1;
  parallel_for(ceil_div(plan.rows, together), most(1, 32768 / most(1, plan.out_plane * together)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin * together; r < least(plan.rows, end * together);
                      r += together) {
                   place_output(plan, sums, plan.out_plane, y, task.y_strides, r,
                                least(plan.rows, r + together));
                 }
               });
}

template <class S, class T>
void run_task(const Task<S>& task, const Rows<T>& weights, const T* bias) {
  const int64_t units = task.batch * task.groups;
  const int64_t work =
      task.plan.rows * task.plan.out_plane * task.plan.channels * most(1, task.plan.taps);
  const bool copy_free = lattice_is_image<S, T>(task.plan, task.x_strides);
  // Many images: each is one thread's. Few: the threads share the planes and tiles of each.
  const int64_t grain = units < 8 ? units : grain_of(work);
  parallel_for(units, grain, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++) {
      run_image<S, T>(task, weights, bias, unit / task.groups, unit % task.groups, copy_free);
    }
  });
}

template <class S>
const ComputeOf<S>* widened_bias(const Task<S>& task, int64_t count) {
  using T = ComputeOf<S>;
  if constexpr (sizeof(S) == sizeof(T)) {
    return task.bias;
  } else {
    if (!task.bias) return nullptr;
    T* wide = static_cast<T*>(scratch(Scratch::Columns, sizeof(T) * size_t(count)));
    widen_run(task.bias, 1, count, wide);
    return wide;
  }
}

// For few pixels rows are read where they lie, unless they stand whole pages apart: those of a tile
// would push each other out of L1. Many pixels pay for a copy, which a tile reads a little faster.
template <class S, class T>
Rows<T> rows_of(const ConvArgs& g, const Plan& plan, const WeightView<S>& view) {
  if constexpr (sizeof(S) == sizeof(T)) {
    const bool apart = view.row_step * int64_t(sizeof(T)) % 4096 == 0 && kRows > 8;
    const int64_t pixels = g.batch * plan.axis[0].outs * plan.axis[1].outs * plan.axis[2].outs;
    if (view.dense && !apart && pixels < 2000) return Rows<T>(plan, view);
  }
  return Rows<T>(pack_weights<kRows, S, T>(g, plan, view, false));
}

template <class S>
void run_view(const ConvArgs& g, const Task<S>& task, const WeightView<S>& view) {
  using T = ComputeOf<S>;
  if constexpr (sizeof(S) == sizeof(T)) {
    if (run_by_pixels(g, task, view)) return;
  }
  const Rows<T> weights = rows_of<S, T>(g, task.plan, view);
  const T* bias = widened_bias(task, g.c_out);
  if (!run_by_patches(task, weights, bias)) run_task<S, T>(task, weights, bias);
}

template <class S>
void forward(const ConvArgs& g) {
  using T = ComputeOf<S>;
  Task<S> task{};
  TableRoom room = table_room(g, g.out, g.c_in / g.groups, kLanes<T>);
  for (int d = 0; d < 3; d++) task.plan.axis[d] = forward_axis(g, d, room);
  task.plan.channels = g.c_in / g.groups, task.plan.rows = g.c_out / g.groups;
  finish_plan(task.plan, g.kernel, kLanes<T>, kTapDepth<T>, room);
  task.batch = g.batch, task.groups = g.groups, task.bias = static_cast<const S*>(g.bias);
  task.x = static_cast<const S*>(g.x),
  task.x_strides = image_strides(g.channels_last, g.c_in, g.in);
  task.y = static_cast<S*>(g.y), task.y_strides = image_strides(g.channels_last, g.c_out, g.out);
  const int64_t k = task.plan.channels * task.plan.taps;
  run_view(g, task, {static_cast<const S*>(g.w), task.plan.rows * k, k, task.plan.taps, true});
}

// gy with the padding of all phases, so that each does not copy it again. data: null if they had
// better do.
template <class S>
struct PaddedSlopes {
  Axis axis[3];
  const S* data = nullptr;
  ImageStrides strides{};

  explicit PaddedSlopes(const ConvArgs& g) {
    constexpr int64_t kMost = 16 << 20;  // bytes
    if (sizeof(S) != sizeof(ComputeOf<S>) || g.channels_last || g.batch < 4) return;
    int64_t phases = 1;  // that some tap reads
    for (int d = 0; d < 3; d++) phases *= least(g.stride[d], g.kernel[d]);
    if (phases == 1) return;
    TableRoom room = table_room(g, g.in, g.c_out / g.groups, kLanes<ComputeOf<S>>);
    Plan plan{};
    for (int d = 0; d < 3; d++) plan.axis[d] = axis[d] = padded_axis(g, d, room);
    const int64_t size[3] = {axis[0].extent, axis[1].extent, axis[2].extent};
    const int64_t plane = plan.plane = volume(size), planes = g.batch * g.c_out;
    if (planes * plane * int64_t(sizeof(S)) > kMost) return;
    S* to = static_cast<S*>(scratch(Scratch::ConvPadded,
                                    sizeof(S) * size_t(planes * plane + 2 * kLanes<ComputeOf<S>>)));
    strides = image_strides(false, g.c_out, size);
    const ImageStrides from = image_strides(false, g.c_out, g.out);
    parallel_for(planes, most(1, 32768 / plane), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; p++) {
        fill_lattice(plan, static_cast<const S*>(g.gy) + p * from.channel, from, 1,
                     reinterpret_cast<ComputeOf<S>*>(to + p * plane));
      }
    });
    data = to;
  }
};

// Positions of gx that share their remainders by the strides share their taps: one task each.
template <class S>
void backward_input_phase(const ConvArgs& g, const PaddedSlopes<S>& padded,
                          const int64_t (&first)[3]) {
  using T = ComputeOf<S>;
  Task<S> task{};
  TableRoom room = table_room(g, g.in, g.c_out / g.groups, kLanes<T>);
  for (int d = 0; d < 3; d++) {
    task.plan.axis[d] = backward_axis(g, d, first[d], room);
    if (task.plan.axis[d].outs == 0) return;
    if (padded.data) lay_on(padded.axis[d], task.plan.axis[d]);
  }
  task.plan.channels = g.c_out / g.groups, task.plan.rows = g.c_in / g.groups;
  finish_plan(task.plan, g.kernel, kLanes<T>, kTapDepth<T>, room);
  task.batch = g.batch, task.groups = g.groups, task.roomy = padded.data;
  task.x = padded.data ? padded.data : static_cast<const S*>(g.gy),
  task.x_strides = padded.data ? padded.strides : image_strides(g.channels_last, g.c_out, g.out);
  task.y = static_cast<S*>(g.gx), task.y_strides = image_strides(g.channels_last, g.c_in, g.in);
  const int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  const int64_t channel_step = task.plan.rows * taps;
  const int64_t group_step = task.plan.channels * channel_step;
  run_view(g, task, {static_cast<const S*>(g.w), group_step, taps, channel_step, false});
}

template <class S>
void backward_input(const ConvArgs& g) {
  const PaddedSlopes<S> padded(g);
  for (int64_t d = 0; d < g.stride[0]; d++) {
    for (int64_t h = 0; h < g.stride[1]; h++) {
      for (int64_t w = 0; w < g.stride[2]; w++) backward_input_phase<S>(g, padded, {d, h, w});
    }
  }
}

// The same for planes: one product per image. Bias goes by rows, so it is what the product is added
// to.
bool is_plane_product(const ConvArgs& g) {
  if (g.dtype != DType::Float32 && g.dtype != DType::Float64) return false;
  return is_pointwise(g) && !g.channels_last && g.c_in / g.groups >= 32 && g.c_out / g.groups >= 32;
}

template <class S>
void fill_with_bias(const ConvArgs& g) {
  const int64_t plane = volume(g.out);
  parallel_for(g.batch * g.c_out, most(1, 32768 / plane), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++) {
      const S value = static_cast<const S*>(g.bias)[p % g.c_out];
      S* y = static_cast<S*>(g.y) + p * plane;
      for (int64_t i = 0; i < plane; i++) y[i] = value;
    }
  });
}

// image @ group of `rows` planes of out = w (or its transpose) @ planes of in.
void multiply_planes(const ConvArgs& g, const void* in, void* out, bool transposed, double beta) {
  const int64_t size = itemsize(g.dtype), plane = volume(g.in);
  const int64_t o = g.c_out / g.groups, c = g.c_in / g.groups;
  const int64_t rows = transposed ? c : o, depth = transposed ? o : c;
  for (int64_t group = 0; group < g.groups; group++) {
    GemmArgs x{g.dtype, rows, plane, depth};
    x.a = static_cast<const char*>(g.w) + group * o * c * size;
    x.a_row = transposed ? 1 : c, x.a_col = transposed ? c : 1;
    x.b = static_cast<const char*>(in) + group * depth * plane * size, x.b_row = plane;
    x.c = static_cast<char*>(out) + group * rows * plane * size, x.c_row = plane;
    x.beta = beta;
    gemm_batched(x, g.batch, 0, depth * g.groups * plane, rows * g.groups * plane);
  }
}

}  // namespace

void conv_forward(const ConvArgs& g) {
  if (g.batch * g.c_out * volume(g.out) == 0) return;
  if (is_product(g)) {
    return gemm({g.dtype, g.batch * volume(g.in), g.c_out, g.c_in, g.x, g.c_in, 1, g.w, 1, g.c_in,
                 g.y, g.c_out, 1, 0, g.bias});
  }
  if (is_plane_product(g)) {
    if (g.bias && g.dtype == DType::Float32) fill_with_bias<float>(g);
    if (g.bias && g.dtype == DType::Float64) fill_with_bias<double>(g);
    return multiply_planes(g, g.x, g.y, false, g.bias ? 1 : 0);
  }
  switch (g.dtype) {
    case DType::Float32:
      return forward<float>(g);
    case DType::Float64:
      return forward<double>(g);
    case DType::Float16:
      return forward<Half>(g);
    case DType::BFloat16:
      return forward<BFloat16>(g);
    default:
      return conv_forward_plain(g);
  }
}

void conv_backward_input(const ConvArgs& g) {
  if (g.batch * g.c_in * volume(g.in) == 0) return;
  if (is_product(g)) {
    return gemm({g.dtype, g.batch * volume(g.in), g.c_in, g.c_out, g.gy, g.c_out, 1, g.w, g.c_in, 1,
                 g.gx, g.c_in});
  }
  if (is_plane_product(g)) return multiply_planes(g, g.gy, g.gx, true, 0);
  switch (g.dtype) {
    case DType::Float32:
      return backward_input<float>(g);
    case DType::Float64:
      return backward_input<double>(g);
    case DType::Float16:
      return backward_input<Half>(g);
    case DType::BFloat16:
      return backward_input<BFloat16>(g);
    default:
      return conv_backward_input_plain(g);
  }
}

}  // namespace flambeau::FL_ISA
