// Convolution by plain loops, for integers and complex numbers.
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/conv_plan.h"

namespace flambeau::FL_ISA {
namespace {

// A complex number with a name per instruction set, unlike std::complex.
template <class T>
struct Pair {
  T re, im;
  Pair& operator+=(Pair o) {
    re += o.re, im += o.im;
    return *this;
  }
  friend Pair operator*(Pair a, Pair b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

// Sums in U: integers wrap in the widest unsigned type, of which the low bits are kept.
template <class U, class S>
inline U as_sum(S x) {
  return U(x);
}

// Calls f(place in the image, tap) for each tap that meets the image at output (o0, o1, o2).
template <class F>
void each_tap(const ConvArgs& g, const int64_t (&o)[3], const F& f) {
  int64_t p[3], t[3];
  for (t[0] = 0; t[0] < g.kernel[0]; t[0]++) {
    p[0] = o[0] * g.stride[0] + t[0] * g.dilation[0] - g.pad[0];
    if (p[0] < 0 || p[0] >= g.in[0]) continue;
    for (t[1] = 0; t[1] < g.kernel[1]; t[1]++) {
      p[1] = o[1] * g.stride[1] + t[1] * g.dilation[1] - g.pad[1];
      if (p[1] < 0 || p[1] >= g.in[1]) continue;
      for (t[2] = 0; t[2] < g.kernel[2]; t[2]++) {
        p[2] = o[2] * g.stride[2] + t[2] * g.dilation[2] - g.pad[2];
        if (p[2] < 0 || p[2] >= g.in[2]) continue;
        f(p, (t[0] * g.kernel[1] + t[1]) * g.kernel[2] + t[2]);
      }
    }
  }
}

template <class F>
void each_output(const ConvArgs& g, const F& f) {
  int64_t o[3];
  for (o[0] = 0; o[0] < g.out[0]; o[0]++) {
    for (o[1] = 0; o[1] < g.out[1]; o[1]++) {
      for (o[2] = 0; o[2] < g.out[2]; o[2]++) f(o);
    }
  }
}

inline int64_t place(const ImageStrides& s, int64_t image, int64_t channel, const int64_t (&p)[3]) {
  return image * s.image + channel * s.channel + p[0] * s.axis[0] + p[1] * s.axis[1] +
         p[2] * s.axis[2];
}

template <class S, class U>
struct Plain {
  const ConvArgs& g;
  ImageStrides xs = image_strides(g.channels_last, g.c_in, g.in);
  ImageStrides ys = image_strides(g.channels_last, g.c_out, g.out);
  int64_t c_group = g.c_in / g.groups, o_group = g.c_out / g.groups;
  int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];

  const S* weight(int64_t out, int64_t in) const {
    return static_cast<const S*>(g.w) + (out * c_group + in) * taps;
  }

  void forward() const {
    parallel_for(g.batch * g.c_out, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / g.c_out, o = item % g.c_out, c0 = o / o_group * c_group;
        each_output(g, [&](const int64_t(&at)[3]) {
          U sum = g.bias ? as_sum<U>(static_cast<const S*>(g.bias)[o]) : U{};
          for (int64_t c = 0; c < c_group; c++) {
            const S* w = weight(o, c);
            each_tap(g, at, [&](const int64_t(&p)[3], int64_t t) {
              sum += as_sum<U>(static_cast<const S*>(g.x)[place(xs, image, c0 + c, p)]) *
                     as_sum<U>(w[t]);
            });
          }
          static_cast<S*>(g.y)[place(ys, image, o, at)] = S(sum);
        });
      }
    });
  }

  void backward_input() const {
    parallel_for(g.batch * g.c_in, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / g.c_in, c = item % g.c_in, group = c / c_group;
        S* gx = static_cast<S*>(g.gx);
        int64_t p[3];
        for (p[0] = 0; p[0] < g.in[0]; p[0]++) {
          for (p[1] = 0; p[1] < g.in[1]; p[1]++) {
            for (p[2] = 0; p[2] < g.in[2]; p[2]++) gx[place(xs, image, c, p)] = S{};
          }
        }
        for (int64_t o = group * o_group; o < (group + 1) * o_group; o++) {
          const S* w = weight(o, c - group * c_group);
          each_output(g, [&](const int64_t(&at)[3]) {
            const U slope = as_sum<U>(static_cast<const S*>(g.gy)[place(ys, image, o, at)]);
            each_tap(g, at, [&](const int64_t(&q)[3], int64_t t) {
              U sum = as_sum<U>(gx[place(xs, image, c, q)]);
              sum += slope * as_sum<U>(w[t]);
              gx[place(xs, image, c, q)] = S(sum);
            });
          });
        }
      }
    });
  }

  void backward_weight() const {
    parallel_for(g.c_out, 1, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; o++) {
        S* gw = static_cast<S*>(g.gw) + o * c_group * taps;
        U total{};
        for (int64_t i = 0; i < c_group * taps; i++) gw[i] = S{};
        for (int64_t image = 0; image < g.batch; image++) {
          each_output(g, [&](const int64_t(&at)[3]) {
            const U slope = as_sum<U>(static_cast<const S*>(g.gy)[place(ys, image, o, at)]);
            total += slope;
            for (int64_t c = 0; c < c_group; c++) {
              each_tap(g, at, [&](const int64_t(&p)[3], int64_t t) {
                U sum = as_sum<U>(gw[c * taps + t]);
                sum += slope * as_sum<U>(static_cast<const S*>(
                                   g.x)[place(xs, image, o / o_group * c_group + c, p)]);
                gw[c * taps + t] = S(sum);
              });
            }
          });
        }
        if (g.gbias) static_cast<S*>(g.gbias)[o] = S(total);
      }
    });
  }
};

// Calls f(Plain of the dtype).
template <class F>
void with_type(const ConvArgs& g, const F& f) {
  switch (g.dtype) {
    case DType::Bool:
    case DType::UInt8:
      return f(Plain<uint8_t, uint64_t>{g});
    case DType::Int8:
      return f(Plain<int8_t, uint64_t>{g});
    case DType::Int16:
      return f(Plain<int16_t, uint64_t>{g});
    case DType::UInt16:
      return f(Plain<uint16_t, uint64_t>{g});
    case DType::Int32:
      return f(Plain<int32_t, uint64_t>{g});
    case DType::UInt32:
      return f(Plain<uint32_t, uint64_t>{g});
    case DType::Complex64:
      return f(Plain<Pair<float>, Pair<float>>{g});
    case DType::Complex128:
      return f(Plain<Pair<double>, Pair<double>>{g});
    default:
      return f(Plain<uint64_t, uint64_t>{g});
  }
}

}  // namespace

void conv_forward_plain(const ConvArgs& g) {
  with_type(g, [](auto plain) { plain.forward(); });
}
void conv_backward_input_plain(const ConvArgs& g) {
  with_type(g, [](auto plain) { plain.backward_input(); });
}
void conv_backward_weight_plain(const ConvArgs& g) {
  with_type(g, [](auto plain) { plain.backward_weight(); });
}

}  // namespace flambeau::FL_ISA
