// Max pooling. Vectors run over outputs of a row, or over channels where those are innermost.
#include "flambeau/kernels/cpu/pool_window.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

template <class S>
inline constexpr bool kFloating = kIsHalf<S> || std::is_floating_point_v<S>;
// Half types compare as floats, integers as they are.
template <class S>
using Compared = ComputeOf<S>;

template <class S>
inline Compared<S> compared(S x) {
  if constexpr (kIsHalf<S>) {
    return widen_one(x);
  } else {
    return x;
  }
}

// numeric_limits would leave functions that instruction sets share in an unoptimised build.
template <class T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>) {
    return T(-__builtin_inf());
  } else {
    return std::is_signed_v<T> ? T(uint64_t(1) << (8 * sizeof(T) - 1)) : T(0);
  }
}

// The integers that stand beside values of type T in a register.
template <class T>
using Places = Raw<typename IntOfSize<sizeof(T)>::type>;

// The best so far and its place. A NaN always replaces it.
template <class T>
struct Best {
  Vector<T> value = Vector<T>{} + lowest<T>();
  Places<T> place;

  void meet(Vector<T> v, Places<T> at) {
    const auto wins = (v > value) | (v != v);
    value = wins ? v : value;
    place = wins ? at : place;
  }
};

template <class T>
inline void store_places(int64_t* out, Places<T> places, int64_t count) {
  constexpr int kLane = kLanes<T>;
  const Raw<int64_t, kLane> wide = __builtin_convertvector(places, Raw<int64_t, kLane>);
  if (count >= kLane) {
    __builtin_memcpy(out, &wide, sizeof wide);
  } else {
    for (int64_t i = 0; i < count; i++) out[i] = wide[i];
  }
}

template <class T>
inline Places<T> lane_numbers() {
  Places<T> n = {};
  for (int i = 0; i < kLanes<T>; i++) n[i] = i;
  return n;
}

template <class S>
void max_output(const PoolArgs& g, const S* x, const Window& d, const Window& h, const Window& w,
                S* y, int64_t* index) {
  int64_t place = (d.begin * g.in[1] + h.begin) * g.in[2] + w.begin;
  Compared<S> best = lowest<Compared<S>>();
  each_element(g, d, h, w, [&](int64_t p) {
    const Compared<S> v = compared(x[p]);
    if (v > best || v != v) best = v, place = p;
  });
  *y = narrow_one<S>(best);
  if (index) *index = place;
}

// Outputs [first, first + count) of a row, none of which touches padding in the width.
template <class S>
void max_vector(const PoolArgs& g, const S* x, const Window& d, const Window& h, int64_t first,
                int64_t count, S* y, int64_t* index) {
  using T = Compared<S>;
  const int64_t start = first * g.stride[2] - g.pad[2];
  const Places<T> steps = lane_numbers<T>() * int32_t(g.stride[2]);
  Best<T> best;
  best.place = steps + int32_t((d.begin * g.in[1] + h.begin) * g.in[2] + start);
  for (int64_t i = d.begin; i < d.end; i += d.step) {
    for (int64_t j = h.begin; j < h.end; j += h.step) {
      for (int64_t k = 0; k < g.kernel[2]; k++) {
        const int64_t at = (i * g.in[1] + j) * g.in[2] + start + k * g.dilation[2];
        best.meet(load_strided(x + at, g.stride[2], count), steps + int32_t(at));
      }
    }
  }
  store_lanes(y, best.value, count);
  if (index) store_places<T>(index, best.place, count);
}

template <class S>
void max_plane(const PoolArgs& g, const S* x, S* y, int64_t* index) {
  // Places are counted in lanes of 32 bits beside floats.
  const Inner inner = pixels(g.in) < INT32_MAX ? inner_outputs(g) : Inner{0, 0};
  for (int64_t i = 0; i < g.out[0]; i++) {
    const Window d = window(g, 0, i);
    for (int64_t j = 0; j < g.out[1]; j++) {
      const Window h = window(g, 1, j);
      for (int64_t k = 0; k < g.out[2];) {
        const int64_t o = (i * g.out[1] + j) * g.out[2] + k;
        int64_t* place = index ? index + o : nullptr;
        if constexpr (kFloating<S>) {
          if (inner.begin <= k && k < inner.end) {
            const int64_t count = least(kLanes<Compared<S>>, inner.end - k);
            max_vector(g, x, d, h, k, count, y + o, place);
            k += count;
            continue;
          }
        }
        max_output(g, x, d, h, window(g, 2, k), y + o, place);
        k++;
      }
    }
  }
}

// One output pixel of all channels, which are innermost.
template <class S>
void max_pixel(const PoolArgs& g, const S* x, const Window& d, const Window& h, const Window& w,
               S* y, int64_t* index) {
  using T = Compared<S>;
  const int64_t first = (d.begin * g.in[1] + h.begin) * g.in[2] + w.begin;
  if constexpr (kFloating<S>) {
    for (int64_t c = 0; c < g.channels; c += kLanes<T>) {
      const int64_t count = least(kLanes<T>, g.channels - c);
      const EdgeMask<T> mask(count);
      Best<T> best;
      best.place = Places<T>{} + int32_t(first);
      each_element(g, d, h, w, [&](int64_t p) {
        best.meet(load(x + p * g.channels + c, mask, count), Places<T>{} + int32_t(p));
      });
      store_lanes(y + c, best.value, count);
      if (index) store_places<T>(index + c, best.place, count);
    }
  } else {
    for (int64_t c = 0; c < g.channels; c++) {
      T best = lowest<T>();
      int64_t place = first;
      each_element(g, d, h, w, [&](int64_t p) {
        if (x[p * g.channels + c] > best) best = x[p * g.channels + c], place = p;
      });
      y[c] = best;
      if (index) index[c] = place;
    }
  }
}

template <class S>
void forward(const PoolArgs& g) {
  const S* x = static_cast<const S*>(g.x);
  S* y = static_cast<S*>(g.y);
  const int64_t in = pixels(g.in), out = pixels(g.out);
  if (g.channels_last) {
    parallel_for(g.batch * g.out[0] * g.out[1], most(1, 16384 / most(1, g.out[2] * g.channels)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; row++) {
                     const int64_t image = row / (g.out[0] * g.out[1]),
                                   i = row / g.out[1] % g.out[0], j = row % g.out[1];
                     const Window d = window(g, 0, i), h = window(g, 1, j);
                     for (int64_t k = 0; k < g.out[2]; k++) {
                       const int64_t at = (row * g.out[2] + k) * g.channels;
                       max_pixel(g, x + image * in * g.channels, d, h, window(g, 2, k), y + at,
                                 g.indices ? g.indices + at : nullptr);
                     }
                   }
                 });
    return;
  }
  parallel_for(g.batch * g.channels, plane_grain(g, 1), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++) {
      max_plane(g, x + p * in, y + p * out, g.indices ? g.indices + p * out : nullptr);
    }
  });
}

template <class S>
void backward(const PoolArgs& g) {
  using T = ComputeOf<S>;
  each_gradient<S>(
      g, [&](const S* gy, int64_t gy_step, T* gx, int64_t gx_step, int64_t channels, int64_t at) {
        const int64_t* index = g.indices + at;
        const int64_t count = pixels(g.out);
        if (channels == 1 && gy_step == 1 && gx_step == 1) {
          for (int64_t o = 0; o < count; o++) gx[index[o]] += widen_one(gy[o]);
          return;
        }
        for (int64_t o = 0; o < count; o++) {
          for (int64_t c = 0; c < channels; c++) {
            gx[index[o * gy_step + c] * gx_step + c] += widen_one(gy[o * gy_step + c]);
          }
        }
      });
}

}  // namespace

void max_pool_forward(const PoolArgs& g) {
  switch (g.dtype) {
    case DType::Float32:
      return forward<float>(g);
    case DType::Float64:
      return forward<double>(g);
    case DType::Float16:
      return forward<Half>(g);
    case DType::BFloat16:
      return forward<BFloat16>(g);
    case DType::Int8:
      return forward<int8_t>(g);
    case DType::Int16:
      return forward<int16_t>(g);
    case DType::Int32:
      return forward<int32_t>(g);
    case DType::Int64:
      return forward<int64_t>(g);
    case DType::UInt16:
      return forward<uint16_t>(g);
    case DType::UInt32:
      return forward<uint32_t>(g);
    case DType::UInt64:
      return forward<uint64_t>(g);
    default:
      return forward<uint8_t>(g);
  }
}

void max_pool_backward(const PoolArgs& g) {
  switch (g.dtype) {
    case DType::Float64:
      return backward<double>(g);
    case DType::Float16:
      return backward<Half>(g);
    case DType::BFloat16:
      return backward<BFloat16>(g);
    default:
      return backward<float>(g);
  }
}

}  // namespace flambeau::FL_ISA
