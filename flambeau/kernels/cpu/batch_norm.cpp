// Batch norm. Channels first: a thread takes a channel, whose pixels stay in its cache over the
// passes. Channels last (and no pixels at all): a thread takes rows of channels, with per-channel
// numbers in registers.
#include "flambeau/kernels/cpu/norm.h"
#include "flambeau/kernels/cpu/norm_rows.h"
#include "flambeau/kernels/cpu/reduce.h"

namespace flambeau::FL_ISA {
namespace {

// The planes of one channel: `n` runs of `spatial`, `stride` apart.
struct Planes {
  int64_t n, spatial, stride;

  template <class A, class F>
  [[gnu::always_inline]] void sum(A& acc, const F& f) const {
    for (int64_t k = 0; k < n; ++k) {
      acc.add(spatial, [&](auto* s, int64_t i, auto part) { f(s, k * stride + i, part); });
    }
  }
  template <class L, class F>
  [[gnu::always_inline]] void each(const F& f) const {
    for (int64_t k = 0; k < n; ++k) {
      each_register<L>(spatial, [&](int64_t i, auto part) { f(k * stride + i, part); });
    }
  }
};

template <class T>
[[gnu::flatten]] Moments plane_moments(const T* x, Planes p) {
  using L = ComputeOf<T>;
  return moments<L>(p.n * p.spatial, widen_one(x[0]), [=](auto& acc, auto f) {
    p.sum(acc, [=](Vec<L>* s, int64_t at, auto part) { f(s, load(x + at, part), part); });
  });
}

template <class T>
[[gnu::flatten]] void normalise_planes(const T* x, T* y, Planes p, ComputeOf<T> mean,
                                       ComputeOf<T> scale, ComputeOf<T> shift) {
  using V = Vec<ComputeOf<T>>;
  V m = mean, s = scale, b = shift;
  p.each<ComputeOf<T>>(
      [=](int64_t at, auto part) { store(y + at, fma(load(x + at, part) - m, s, b), part); });
}

template <class T, class P>
[[gnu::flatten]] void normalise_rows(const T* x, T* y, int64_t rows, int64_t channels,
                                     const ComputeOf<T>* mean, const ComputeOf<T>* rstd, const P* w,
                                     const P* b) {
  using L = ComputeOf<T>;
  for (int64_t r = 0; r < rows; ++r) {
    each_register<L>(channels, [=](int64_t c, auto part) {
      Vec<L> scale = load(rstd + c, part) * load_or(w, c, part, 1);
      store(y + r * channels + c,
            fma(load(x + r * channels + c, part) - load(mean + c, part), scale,
                load_or(b, c, part, 0)),
            part);
    });
  }
}

template <class P>
void update(void* running, int64_t c, double value, double momentum) {
  if (!running) return;
  P& kept = static_cast<P*>(running)[c];
  kept = narrow_one<P>(ComputeOf<P>((1 - momentum) * double(widen_one(kept)) + momentum * value));
}

template <class T, class P>
struct Forward {
  using L = ComputeOf<T>;
  const BatchNormArgs& a;
  int64_t pixels = a.n * a.spatial;
  bool rows = a.channels_last || a.spatial == 1;
  const T* x = static_cast<const T*>(a.x);
  T* y = static_cast<T*>(a.y);
  const P* w = static_cast<const P*>(a.weight);
  const P* b = static_cast<const P*>(a.bias);

  void by_channel(const L* mean, const L* rstd, int64_t c0, int64_t c1) const {
    Planes p{a.n, a.spatial, a.channels * a.spatial};
    for (int64_t c = c0; c < c1; ++c) {
      normalise_planes(x + c * a.spatial, y + c * a.spatial, p, mean[c],
                       L(rstd[c] * value_or(w, c, 1)), L(value_or(b, c, 0)));
    }
  }
  void by_rows(const L* mean, const L* rstd) const {
    parallel_for(pixels, most(1, kNormGrain / a.channels), [&](int64_t r0, int64_t r1) {
      normalise_rows(x + r0 * a.channels, y + r0 * a.channels, r1 - r0, a.channels, mean, rstd, w,
                     b);
    });
  }

  void keep(int64_t c, Moments m) const {
    static_cast<L*>(a.mean)[c] = L(m.mean);
    static_cast<L*>(a.rstd)[c] = L(reciprocal_root(m.var + a.eps));
    update<P>(a.running_mean, c, m.mean, a.momentum);
    update<P>(a.running_var, c, m.var * double(pixels) / double(pixels - 1), a.momentum);
  }

  void train() const {
    L *mean = static_cast<L*>(a.mean), *rstd = static_cast<L*>(a.rstd);
    if (rows) {
      DType stats = a.dtype == DType::Float64 ? DType::Float64 : DType::Float32;
      reduce({ReduceOp::VarMean, a.dtype, stats, 1, pixels, a.channels, 0, a.channels, 1, x, rstd,
              mean});
      for (int64_t c = 0; c < a.channels; ++c) keep(c, {double(mean[c]), double(rstd[c])});
      return by_rows(mean, rstd);
    }
    parallel_for(a.channels, most(1, kNormGrain / most(1, pixels)), [&](int64_t c0, int64_t c1) {
      for (int64_t c = c0; c < c1; ++c) {
        keep(c, plane_moments(x + c * a.spatial, Planes{a.n, a.spatial, a.channels * a.spatial}));
        by_channel(mean, rstd, c, c + 1);
      }
    });
  }

  void eval() const {
    L *mean = static_cast<L*>(a.mean), *rstd = static_cast<L*>(a.rstd);
    for (int64_t c = 0; c < a.channels; ++c) {
      mean[c] = L(widen_one(static_cast<const P*>(a.running_mean)[c]));
      rstd[c] =
          L(reciprocal_root(double(widen_one(static_cast<const P*>(a.running_var)[c])) + a.eps));
    }
    if (rows) return by_rows(mean, rstd);
    // Planes in the order of memory: nothing is read twice.
    parallel_for(a.n * a.channels, most(1, kNormGrain / a.spatial), [&](int64_t k0, int64_t k1) {
      for (int64_t k = k0, c = k0 % a.channels; k < k1; ++k, c = c + 1 == a.channels ? 0 : c + 1) {
        normalise_planes(x + k * a.spatial, y + k * a.spatial, Planes{1, a.spatial, 0}, mean[c],
                         L(rstd[c] * value_or(w, c, 1)), L(value_or(b, c, 0)));
      }
    });
  }
};

// Sums of g and of g * (x - mean) over the planes of a channel.
template <class T>
[[gnu::flatten]] Sums<2> plane_sums(const T* g, const T* x, Planes p, ComputeOf<T> mean) {
  using L = ComputeOf<T>;
  Vec<L> m = mean;
  Accumulator<L, 2> acc;
  p.sum(acc, [=](Vec<L>* s, int64_t at, auto part) {
    Vec<L> gi = load(g + at, part);
    s[0] = s[0] + gi;
    s[1] = fma(gi, load(x + at, part) - m, s[1]);
  });
  acc.flush();
  return acc.total;
}

// gx = scale * (g - mean_g - (x - mean) * slope).
template <class T>
[[gnu::flatten]] void plane_gradient(const T* g, const T* x, T* gx, Planes p, ComputeOf<T> mean,
                                     ComputeOf<T> scale, ComputeOf<T> mean_g, ComputeOf<T> slope) {
  using V = Vec<ComputeOf<T>>;
  V m = mean, s = scale, c = mean_g, k = slope;
  p.each<ComputeOf<T>>([=](int64_t at, auto part) {
    store(gx + at, s * (load(g + at, part) - c - (load(x + at, part) - m) * k), part);
  });
}

template <class T>
[[gnu::flatten]] void sum_row(const T* g, const T* x, int64_t channels, const ComputeOf<T>* mean,
                              ComputeOf<T>* sum_g, ComputeOf<T>* sum_gx) {
  using L = ComputeOf<T>;
  each_register<L>(channels, [=](int64_t c, auto part) {
    Vec<L> gi = load(g + c, part);
    store(sum_g + c, load(sum_g + c, part) + gi, part);
    store(sum_gx + c, fma(gi, load(x + c, part) - load(mean + c, part), load(sum_gx + c, part)),
          part);
  });
}

template <class T>
[[gnu::flatten]] void row_gradient(const T* g, const T* x, T* gx, int64_t channels,
                                   const ComputeOf<T>* mean, const ComputeOf<T>* scale,
                                   const ComputeOf<T>* mean_g, const ComputeOf<T>* slope) {
  each_register<ComputeOf<T>>(channels, [=](int64_t c, auto part) {
    auto d = (load(x + c, part) - load(mean + c, part)) * load(slope + c, part);
    store(gx + c, load(scale + c, part) * (load(g + c, part) - load(mean_g + c, part) - d), part);
  });
}

template <class T, class P>
struct Backward {
  using L = ComputeOf<T>;
  const BatchNormGrads& a;
  int64_t channels = a.channels, pixels = a.n * a.spatial;
  const T* g = static_cast<const T*>(a.g);
  const T* x = static_cast<const T*>(a.x);
  T* gx = static_cast<T*>(a.gx);
  P* gw = static_cast<P*>(a.gw);
  P* gb = static_cast<P*>(a.gb);
  const L* mean = static_cast<const L*>(a.mean);
  const L* rstd = static_cast<const L*>(a.rstd);
  // Per channel, in work memory of this call.
  L *scale = nullptr, *mean_g = nullptr, *slope = nullptr;

  void constants(L* memory) {
    scale = memory, mean_g = scale + channels, slope = mean_g + channels;
    for (int64_t c = 0; c < channels; ++c) {
      scale[c] = L(rstd[c] * value_or(static_cast<const P*>(a.weight), c, 1));
    }
  }
  void finish(int64_t c, double sum_g, double sum_gx) const {
    double r = double(rstd[c]);
    if (gw) gw[c] = narrow_one<P>(ComputeOf<P>(sum_gx * r));
    if (gb) gb[c] = narrow_one<P>(ComputeOf<P>(sum_g));
    mean_g[c] = L(a.train ? sum_g / double(pixels) : 0);
    slope[c] = L(a.train ? sum_gx * r * r / double(pixels) : 0);
  }

  void by_channel() const {
    Planes p{a.n, a.spatial, channels * a.spatial};
    parallel_for(channels, most(1, kNormGrain / most(1, pixels)), [&](int64_t c0, int64_t c1) {
      for (int64_t c = c0; c < c1; ++c) {
        int64_t at = c * a.spatial;
        Sums<2> s;
        if (a.train || gw || gb) s = plane_sums(g + at, x + at, p, mean[c]);
        finish(c, s.v[0], s.v[1]);
        if (gx) plane_gradient(g + at, x + at, gx + at, p, mean[c], scale[c], mean_g[c], slope[c]);
      }
    });
  }
  void by_rows() const {
    sum_rows<L>(
        pixels, channels,
        [&](int64_t r0, int64_t r1, L* sum_g, L* sum_gx) {
          for (int64_t r = r0; r < r1; ++r) {
            sum_row(g + r * channels, x + r * channels, channels, mean, sum_g, sum_gx);
          }
        },
        [&](int64_t c, double sum_g, double sum_gx) { finish(c, sum_g, sum_gx); });
    if (!gx) return;
    parallel_for(pixels, most(1, kNormGrain / channels), [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r) {
        int64_t at = r * channels;
        row_gradient(g + at, x + at, gx + at, channels, mean, scale, mean_g, slope);
      }
    });
  }
  void run() {
    constants(static_cast<L*>(scratch(Scratch::RowParams, size_t(3 * channels) * sizeof(L))));
    a.channels_last || a.spatial == 1 ? by_rows() : by_channel();
  }
};

}  // namespace

void batch_norm_train(const BatchNormArgs& a) {
  if (a.n * a.channels * a.spatial == 0) return;
  with_float_types(a.dtype, a.param_dtype,
                   [&]<class T, class P>(T, P) { Forward<T, P>{a}.train(); });
}

void batch_norm_eval(const BatchNormArgs& a) {
  if (a.n * a.channels * a.spatial == 0) return;
  with_float_types(a.dtype, a.param_dtype,
                   [&]<class T, class P>(T, P) { Forward<T, P>{a}.eval(); });
}

void batch_norm_backward(const BatchNormGrads& a) {
  if (a.channels == 0) return;
  with_float_types(a.dtype, a.param_dtype,
                   [&]<class T, class P>(T, P) { Backward<T, P>{a}.run(); });
}

}  // namespace flambeau::FL_ISA
