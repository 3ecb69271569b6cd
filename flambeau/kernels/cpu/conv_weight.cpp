// The gradients of a convolution's weight and bias. A weight's slope is the dot product of an
// output plane with a shifted input plane: blocks of them are summed with a vector of pixels in
// each accumulator.
#include "flambeau/kernels/cpu/conv_weight.h"
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/conv.h"
#include "flambeau/kernels/cpu/gemm.h"
#include "flambeau/kernels/cpu/gemm_product.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

// Output channels by (input channel, tap) pairs of one block.
inline constexpr int kBlockRows = kVectorBytes == 64 ? 4 : kVectorBytes == 32 ? 3 : 2;
inline constexpr int kBlockPairs = kVectorBytes == 64 ? 6 : 4;

template <class T>
struct Block {
  const Plan* plan;
  const T* gy;  // row r at gy + r * plan->out_plane
  const T* lattice;
  const int64_t* offsets;  // of the pairs
  Vector<T>* sums;         // [row][pair]
};

template <class T, int R, int C>
void add_block(const Block<T>& b) {
  const Plan& plan = *b.plan;
  Vector<T> sum[R][C];
#pragma GCC unroll 4
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 6
    for (int c = 0; c < C; c++) sum[r][c] = b.sums[r * C + c];
  }
  for (int64_t s = 0; s < plan.segments; s++) {
    // Lanes beyond the row are masked on both sides: 0 * infinity would not be 0.
    const EdgeMask<T> mask(plan.segment_lanes[s]);
    const T* gy = b.gy + plan.segment_out[s];
    const T* x = b.lattice + plan.segment_in[s];
    Vector<T> slope[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) slope[r] = load(gy + r * plan.out_plane, mask);
#pragma GCC unroll 6
    for (int c = 0; c < C; c++) {
      const Vector<T> v = load(x + b.offsets[c], mask);
#pragma GCC unroll 4
      for (int r = 0; r < R; r++) sum[r][c] = fma(slope[r], v, sum[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 6
    for (int c = 0; c < C; c++) b.sums[r * C + c] = sum[r][c];
  }
}

template <class T>
struct BlockTable {
  using Fn = void (*)(const Block<T>&);
  Fn fn[kBlockRows][kBlockPairs];
  template <int R = 1, int C = 1>
  constexpr void fill() {
    fn[R - 1][C - 1] = add_block<T, R, C>;
    if constexpr (C < kBlockPairs) {
      fill<R, C + 1>();
    } else if constexpr (R < kBlockRows) {
      fill<R + 1, 1>();
    }
  }
  constexpr BlockTable() : fn{} { fill(); }
};
template <class T>
inline constexpr BlockTable<T> kBlocks;

// A range of things cut into parts as even as possible.
struct Cut {
  int64_t total, size, parts;
  Cut(int64_t n, int64_t at_most)
      : total(n), size(ceil_div(n, ceil_div(n, at_most))), parts(ceil_div(n, size)) {}
  int64_t begin(int64_t i) const { return i * size; }
  int64_t length(int64_t i) const { return least(size, total - i * size); }
};

template <class T>
void add_lanes(const Vector<T>* sums, int64_t rows, int64_t pairs, T* gw, int64_t gw_row) {
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < pairs; c++)
      gw[r * gw_row + c] += sum_lanes(Vec<T>(sums[r * pairs + c]));
  }
}

// Blocks small enough in number keep their vectors from image to image; else their lanes are summed
// for each.
inline constexpr int64_t kKeptBytes = 1 << 20;

template <class S, class T>
void sum_group(const WeightTask<S>& task, int64_t group) {
  const Plan& plan = task.plan;
  const Cut rows(plan.rows, kBlockRows), pairs(task.pairs, kBlockPairs);
  T* gw = task.gw + group * plan.rows * task.pairs;
  const int64_t kept_bytes = plan.rows * task.pairs * kVectorBytes;
  const bool keep = kept_bytes <= kKeptBytes;
  T* kept = nullptr;
  if (keep) {
    kept = static_cast<T*>(scratch(Scratch::Columns, size_t(kept_bytes)));
    fill_zero(kept, kept_bytes / int64_t(sizeof(T)));
  }
  fill_zero(gw, plan.rows * task.pairs);
  const bool copy_free = lattice_is_image<S, T>(plan, task.xs);
  const int64_t block_work = rows.size * pairs.size * plan.segments * kLanes<T>;
  for (int64_t image = 0; image < task.g.batch; image++) {
    const S* x = task.x(image, group);
    const T* lattice =
        copy_free ? reinterpret_cast<const T*>(x) : lattice_copy<T>(plan, x, task.xs, nullptr);
    const T* gy = gy_rows<S, T>(task, image, group);
    const bool last = image + 1 == task.g.batch;
    parallel_for(rows.parts * pairs.parts, grain_of(block_work), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; item++) {
        const int64_t i = item / pairs.parts, j = item % pairs.parts;
        const int64_t height = rows.length(i), width = pairs.length(j);
        Vector<T> own[kBlockRows * kBlockPairs] = {};
        const int64_t kept_at = rows.begin(i) * task.pairs + pairs.begin(j) * height;
        Vector<T>* sums = keep ? reinterpret_cast<Vector<T>*>(kept) + kept_at : own;
        kBlocks<T>.fn[height - 1][width - 1]({&plan, gy + rows.begin(i) * plan.out_plane, lattice,
                                              plan.offsets + pairs.begin(j), sums});
        if (keep && !last) continue;
        add_lanes<T>(sums, height, width, gw + rows.begin(i) * task.pairs + pairs.begin(j),
                     task.pairs);
      }
    });
  }
}

// Small images with many channels: patches of several are copied side by side for one matrix
// product.
template <class S, class T>
void multiply_group(const WeightTask<S>& task, int64_t group) {
  const Plan& plan = task.plan;
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  const int64_t pixels = d.outs * h.outs * w.outs;
  const int64_t together = least(task.g.batch, most(1, 384 / pixels));
  const int64_t pitch = together * pixels;
  T* patches = static_cast<T*>(
      scratch(Scratch::Columns, sizeof(T) * size_t((task.pairs + plan.rows) * pitch)));
  T* slopes = patches + task.pairs * pitch;
  for (int64_t first = 0; first < task.g.batch; first += together) {
    const int64_t count = least(together, task.g.batch - first);
    for (int64_t i = 0; i < count; i++) {
      const T* lattice = lattice_copy<T>(plan, task.x(first + i, group), task.xs, nullptr);
      const T* gy = gy_rows<S, T>(task, first + i, group);
      auto copy_rows = [&](const T* from, int64_t depth_step, int64_t height_step, T* to) {
        for (int64_t o = 0; o < d.outs * h.outs; o++) {
          widen_run(from + o / h.outs * depth_step + o % h.outs * height_step, 1, w.outs,
                    to + o * w.outs);
        }
      };
      parallel_for(task.pairs, most(1, 32768 / pixels), [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; c++) {
          copy_rows(lattice + plan.offsets[c], h.extent * w.extent, w.extent,
                    patches + c * pitch + i * pixels);
        }
      });
      for (int64_t r = 0; r < plan.rows; r++) {
        copy_rows(gy + r * plan.out_plane, plan.out_depth, plan.out_height,
                  slopes + r * pitch + i * pixels);
      }
    }
    GemmArgs product{sizeof(T) == 4 ? DType::Float32 : DType::Float64, plan.rows, task.pairs,
                     count * pixels};
    product.a = slopes, product.a_row = pitch, product.a_col = 1;
    product.b = patches, product.b_row = 1, product.b_col = pitch;
    product.c = task.gw + group * plan.rows * task.pairs, product.c_row = task.pairs;
    product.beta = first > 0;
    gemm(product);
  }
}

template <class S>
void sum_bias(const ConvArgs& g) {
  using T = ComputeOf<S>;
  const ImageStrides s = image_strides(g.channels_last, g.c_out, g.out);
  const int64_t pixels = volume(g.out);
  const S* gy = static_cast<const S*>(g.gy);
  S* out = static_cast<S*>(g.gbias);
  const int64_t together = g.channels_last ? kLanes<T> : 1;
  parallel_for(ceil_div(g.c_out, together), grain_of(pixels * g.batch * together),
               [&](int64_t begin, int64_t end) {
                 for (int64_t c = begin * together; c < least(g.c_out, end * together);
                      c += together) {
                   // Planes are summed one by one: a single chain over the batch would lose digits.
                   double total[kLanes<T>] = {};
                   const int64_t count = least(together, g.c_out - c);
                   for (int64_t image = 0; image < g.batch; image++) {
                     const S* from = gy + image * s.image + c * s.channel;
                     Vector<T> sum = {};
                     if (g.channels_last) {
                       const EdgeMask<T> mask(count);
                       for (int64_t p = 0; p < pixels; p++)
                         sum += load(from + p * s.axis[2], mask, count);
                       for (int64_t i = 0; i < count; i++) total[i] += double(sum[i]);
                     } else {
                       for (int64_t p = 0; p < pixels; p += kLanes<T>)
                         sum += load(from + p, EdgeMask<T>(pixels - p), pixels - p);
                       total[0] += double(sum_lanes(Vec<T>(sum)));
                     }
                   }
                   for (int64_t i = 0; i < count; i++) out[c + i] = narrow_one<S>(T(total[i]));
                 }
               });
}

enum class Method { Tiles, Blocks, Product };

Method choose_method(const Plan& plan, int64_t pairs, int lanes) {
  const int64_t bytes = plan.rows * pairs * (kVectorBytes / lanes);
  const int64_t pixels = plan.axis[0].outs * plan.axis[1].outs * plan.axis[2].outs;
  if (plan.rows >= 4 && tile_use(plan, lanes) >= 60) {
    // Tiles add to the gradient once per image: with few pixels that is worth it only in cache.
    if (pixels >= 150 || bytes <= 1 << 19) return Method::Tiles;
    return Method::Product;
  }
  // Summing the lanes of a block takes about as long as 16 vectors of pixels.
  const bool kept = plan.rows * pairs * kVectorBytes <= kKeptBytes;
  return kept || plan.segments >= 64 ? Method::Blocks : Method::Product;
}

template <class S>
void backward_weight(const ConvArgs& g) {
  using T = ComputeOf<S>;
  if (g.gbias) sum_bias<S>(g);
  if (is_product(g)) {
    return gemm({g.dtype, g.c_out, g.c_in, g.batch * volume(g.in), g.gy, 1, g.c_out, g.x, g.c_in, 1,
                 g.gw, g.c_in});
  }
  WeightTask<S> task{g};
  Plan& plan = task.plan;
  plan.channels = g.c_in / g.groups, plan.rows = g.c_out / g.groups;
  TableRoom room = table_room(g, g.out, plan.channels, kLanes<T>);
  for (int d = 0; d < 3; d++) plan.axis[d] = forward_axis(g, d, room);
  finish_plan(plan, g.kernel, kLanes<T>, INT64_MAX, room);
  task.xs = image_strides(g.channels_last, g.c_in, g.in);
  task.ys = image_strides(g.channels_last, g.c_out, g.out);
  task.pairs = plan.channels * plan.taps;
  const int64_t count = g.c_out * task.pairs;
  if constexpr (sizeof(S) == sizeof(T)) {
    task.gw = static_cast<T*>(g.gw);
  } else {
    task.gw = static_cast<T*>(scratch(Scratch::ConvWeight, sizeof(T) * size_t(count)));
  }
  const Method method = choose_method(plan, task.pairs, kLanes<T>);
  if (method == Method::Tiles) plan.lay_rows_out();
  const int64_t work = plan.rows * task.pairs * plan.segments * kLanes<T> * g.batch;
  parallel_for(g.groups, g.groups < 8 ? g.groups : grain_of(work), [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; group++) {
      switch (method) {
        case Method::Tiles:
          sum_by_tiles(task, group);
          break;
        case Method::Blocks:
          sum_group<S, T>(task, group);
          break;
        case Method::Product:
          multiply_group<S, T>(task, group);
          break;
      }
    }
  });
  if constexpr (sizeof(S) != sizeof(T)) narrow_run(task.gw, count, static_cast<S*>(g.gw), 1);
}

// No pixels: every slope is zero.
void clear_gradients(const ConvArgs& g) {
  const int64_t size = itemsize(g.dtype);
  __builtin_memset(g.gw, 0, size_t(size * g.c_out * (g.c_in / g.groups) * volume(g.kernel)));
  if (g.gbias) __builtin_memset(g.gbias, 0, size_t(size * g.c_out));
}

}  // namespace

void conv_backward_weight(const ConvArgs& g) {
  if (g.c_out == 0) return;
  if (g.batch * volume(g.out) * g.c_in == 0) return clear_gradients(g);
  switch (g.dtype) {
    case DType::Float32:
      return backward_weight<float>(g);
    case DType::Float64:
      return backward_weight<double>(g);
    case DType::Float16:
      return backward_weight<Half>(g);
    case DType::BFloat16:
      return backward_weight<BFloat16>(g);
    default:
      return conv_backward_weight_plain(g);
  }
}

}  // namespace flambeau::FL_ISA
