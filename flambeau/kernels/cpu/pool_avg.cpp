// Average pooling, with fixed and with adaptive windows.
#include "flambeau/kernels/cpu/pool_window.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

inline int64_t divisor(const PoolArgs& g, const Window& d, const Window& h, const Window& w) {
  if (g.divisor) return g.divisor;
  if (g.count_include_pad) return d.full * h.full * w.full;
  return (d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin);
}

inline bool is_empty(const Window& d, const Window& h, const Window& w) {
  return d.begin >= d.end || h.begin >= h.end || w.begin >= w.end;
}

// Windows that are long in the width (adaptive ones, mostly) are summed by vectors.
template <class S>
ComputeOf<S> sum_run(const S* x, int64_t count) {
  using T = ComputeOf<S>;
  Vector<T> sum = {};
  for (int64_t i = 0; i < count; i += kLanes<T>)
    sum += load(x + i, EdgeMask<T>(count - i), count - i);
  return sum_lanes(Vec<T>(sum));
}

template <class S>
ComputeOf<S> sum_window(const PoolArgs& g, const S* x, const Window& d, const Window& h,
                        const Window& w) {
  ComputeOf<S> sum = 0;
  if (w.end - w.begin < 8) {
    each_element(g, d, h, w, [&](int64_t p) { sum += widen_one(x[p]); });
    return sum;
  }
  const int64_t width = w.end - w.begin;
  for (int64_t i = d.begin; i < d.end; i++) {
    // Rows that are taken whole lie side by side.
    const S* plane = x + i * g.in[1] * g.in[2];
    if (width == g.in[2]) {
      sum += sum_run(plane + h.begin * width, (h.end - h.begin) * width);
      continue;
    }
    for (int64_t j = h.begin; j < h.end; j++) sum += sum_run(plane + j * g.in[2] + w.begin, width);
  }
  return sum;
}

// Outputs [first, first + count) of a row, none of which touches padding in the width.
template <class S>
void average_vector(const PoolArgs& g, const S* x, const Window& d, const Window& h, int64_t first,
                    int64_t count, S* y) {
  using T = ComputeOf<S>;
  const Window w = window(g, 2, first);
  Vector<T> sum = {};
  each_element(g, d, h, w, [&](int64_t p) { sum += load_strided(x + p, g.stride[2], count); });
  store_lanes(y, sum / T(divisor(g, d, h, w)), count);
}

template <class S>
void average_plane(const PoolArgs& g, const S* x, S* y) {
  using T = ComputeOf<S>;
  const Inner inner = inner_outputs(g);
  for (int64_t i = 0; i < g.out[0]; i++) {
    const Window d = window(g, 0, i);
    for (int64_t j = 0; j < g.out[1]; j++) {
      const Window h = window(g, 1, j);
      for (int64_t k = 0; k < g.out[2];) {
        S* to = y + (i * g.out[1] + j) * g.out[2] + k;
        const Window w = window(g, 2, k);
        if (is_empty(d, h, w)) {
          *to = narrow_one<S>(T(0));
          k++;
        } else if (inner.begin <= k && k < inner.end) {
          const int64_t count = least(kLanes<T>, inner.end - k);
          average_vector(g, x, d, h, k, count, to);
          k += count;
        } else {
          *to = narrow_one<S>(sum_window(g, x, d, h, w) / T(divisor(g, d, h, w)));
          k++;
        }
      }
    }
  }
}

// One output pixel of all channels, which are innermost.
template <class S>
void average_pixel(const PoolArgs& g, const S* x, const Window& d, const Window& h, const Window& w,
                   S* y) {
  using T = ComputeOf<S>;
  const T by = is_empty(d, h, w) ? T(1) : T(divisor(g, d, h, w));
  for (int64_t c = 0; c < g.channels; c += kLanes<T>) {
    const int64_t count = least(kLanes<T>, g.channels - c);
    const EdgeMask<T> mask(count);
    Vector<T> sum = {};
    each_element(g, d, h, w, [&](int64_t p) { sum += load(x + p * g.channels + c, mask, count); });
    store_lanes(y + c, sum / by, count);
  }
}

template <class S>
void forward(const PoolArgs& g) {
  const S* x = static_cast<const S*>(g.x);
  S* y = static_cast<S*>(g.y);
  const int64_t in = pixels(g.in), out = pixels(g.out);
  const bool global = g.adaptive && out == 1;
  if (!g.channels_last) {
    parallel_for(g.batch * g.channels, plane_grain(g, 1), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; p++) {
        if (global) {
          y[p] = narrow_one<S>(sum_run(x + p * in, in) / ComputeOf<S>(in));
        } else {
          average_plane(g, x + p * in, y + p * out);
        }
      }
    });
    return;
  }
  const int64_t rows = g.out[0] * g.out[1];
  parallel_for(g.batch * rows, most(1, 16384 / most(1, g.out[2] * g.channels)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; row++) {
                   const Window d = window(g, 0, row / g.out[1] % g.out[0]),
                                h = window(g, 1, row % g.out[1]);
                   const S* image = x + row / rows * in * g.channels;
                   for (int64_t k = 0; k < g.out[2]; k++) {
                     average_pixel(g, image, d, h, window(g, 2, k),
                                   y + (row * g.out[2] + k) * g.channels);
                   }
                 }
               });
}

// Adds the shares of a row of outputs to one input row, tap by tap: each tap shifts the whole row.
template <class T>
void spread_row(const PoolArgs& g, const T* share, T* gx) {
  const int64_t stride = g.stride[2];
  for (int64_t k = 0; k < g.kernel[2]; k++) {
    const int64_t shift = k - g.pad[2];
    const int64_t begin = shift >= 0 ? 0 : ceil_div(-shift, stride);
    const int64_t end = shift >= g.in[2] ? 0 : least(g.out[2], ceil_div(g.in[2] - shift, stride));
    if (stride == 1) {
      if (begin < end) add_run(gx + begin + shift, share + begin, end - begin);
    } else {
      for (int64_t o = begin; o < end; o++) gx[o * stride + shift] += share[o];
    }
  }
}

// A plane by fixed windows, its pixels side by side.
template <class S, class T>
void spread_plane(const PoolArgs& g, const S* gy, T* gx) {
  T* share = static_cast<T*>(scratch(Scratch::ConvTable, sizeof(T) * size_t(g.out[2])));
  for (int64_t i = 0; i < g.out[0]; i++) {
    const Window d = window(g, 0, i);
    for (int64_t j = 0; j < g.out[1]; j++, gy += g.out[2]) {
      const Window h = window(g, 1, j);
      for (int64_t k = 0; k < g.out[2]; k++) {
        const Window w = window(g, 2, k);
        share[k] = is_empty(d, h, w) ? T(0) : widen_one(gy[k]) / T(divisor(g, d, h, w));
      }
      for (int64_t a = d.begin; a < d.end; a++) {
        for (int64_t b = h.begin; b < h.end; b++)
          spread_row(g, share, gx + (a * g.in[1] + b) * g.in[2]);
      }
    }
  }
}

template <class S>
void backward(const PoolArgs& g) {
  using T = ComputeOf<S>;
  each_gradient<S>(
      g, [&](const S* gy, int64_t gy_step, T* gx, int64_t gx_step, int64_t channels, int64_t) {
        const bool plane = channels == 1 && gy_step == 1 && gx_step == 1;
        if (plane && !g.adaptive) return spread_plane(g, gy, gx);
        each_output(g, [&](int64_t o, const Window& d, const Window& h, const Window& w) {
          if (is_empty(d, h, w)) return;
          const T by = T(divisor(g, d, h, w));
          T share[kChannelBlock<T>];
          for (int64_t c = 0; c < channels; c++) share[c] = widen_one(gy[o * gy_step + c]) / by;
          for (int64_t i = d.begin; i < d.end; i++) {
            for (int64_t j = h.begin; j < h.end; j++) {
              T* row = gx + (i * g.in[1] + j) * g.in[2] * gx_step;
              if (plane) {
                add_value(row + w.begin, share[0], w.end - w.begin);
                continue;
              }
              for (int64_t k = w.begin; k < w.end; k++) add_run(row + k * gx_step, share, channels);
            }
          }
        });
      });
}

template <class F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::Float64:
      return f(double{});
    case DType::Float16:
      return f(Half{});
    case DType::BFloat16:
      return f(BFloat16{});
    default:
      return f(float{});
  }
}

}  // namespace

void avg_pool_forward(const PoolArgs& g) {
  with_type(g.dtype, [&](auto s) { forward<decltype(s)>(g); });
}

void avg_pool_backward(const PoolArgs& g) {
  with_type(g.dtype, [&](auto s) { backward<decltype(s)>(g); });
}

}  // namespace flambeau::FL_ISA
