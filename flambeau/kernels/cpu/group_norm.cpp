// Group norm: the channels of a group are one row, so their statistics are those of layer norm; the
// parameters are per channel. Instance norm is the case of one channel per group.
#include "flambeau/kernels/cpu/norm.h"
#include "flambeau/kernels/cpu/norm_rows.h"

namespace flambeau::FL_ISA {
namespace {

template <class T>
[[gnu::flatten]] Moments group_moments(const T* x, int64_t n) {
  using L = ComputeOf<T>;
  return moments<L>(n, widen_one(x[0]), [=](auto& acc, auto f) {
    acc.add(n, [=](Vec<L>* s, int64_t i, auto part) { f(s, load(x + i, part), part); });
  });
}

template <class T>
[[gnu::flatten]] void normalise_plane(const T* x, T* y, int64_t n, ComputeOf<T> mean,
                                      ComputeOf<T> scale, ComputeOf<T> shift) {
  using V = Vec<ComputeOf<T>>;
  V m = mean, s = scale, b = shift;
  each_register<ComputeOf<T>>(
      n, [=](int64_t i, auto part) { store(y + i, fma(load(x + i, part) - m, s, b), part); });
}

template <class T, class P>
void forward(const GroupNormArgs& a) {
  using L = ComputeOf<T>;
  int64_t row = a.channels * a.spatial;
  const P *w = static_cast<const P*>(a.weight), *b = static_cast<const P*>(a.bias);
  parallel_for(a.n * a.groups, most(1, kNormGrain / row), [&](int64_t k0, int64_t k1) {
    for (int64_t k = k0; k < k1; ++k) {
      const T* x = static_cast<const T*>(a.x) + k * row;
      T* y = static_cast<T*>(a.y) + k * row;
      Moments m = group_moments(x, row);
      L mean = L(m.mean), rstd = L(reciprocal_root(m.var + a.eps));
      if (a.mean) static_cast<L*>(a.mean)[k] = mean;
      if (a.rstd) static_cast<L*>(a.rstd)[k] = rstd;
      for (int64_t c = 0; c < a.channels; ++c) {
        int64_t channel = k % a.groups * a.channels + c;
        normalise_plane(x + c * a.spatial, y + c * a.spatial, a.spatial, mean,
                        L(rstd * value_or(w, channel, 1)), L(value_or(b, channel, 0)));
      }
    }
  });
}

// Sums of g and of g * h, where h is the normalised x.
template <class T>
[[gnu::flatten]] Sums<2> plane_sums(const T* g, const T* x, int64_t n, ComputeOf<T> mean,
                                    ComputeOf<T> rstd) {
  using V = Vec<ComputeOf<T>>;
  V m = mean, r = rstd;
  return sums<ComputeOf<T>, 2>(n, [=](V* s, int64_t i, auto part) {
    V gi = load(g + i, part);
    s[0] = s[0] + gi;
    s[1] = fma(gi, (load(x + i, part) - m) * r, s[1]);
  });
}

// gx = rstd * (w * g - mean_g - h * mean_gh).
template <class T>
[[gnu::flatten]] void plane_gradient(const T* g, const T* x, T* gx, int64_t n, ComputeOf<T> mean,
                                     ComputeOf<T> rstd, ComputeOf<T> weight, ComputeOf<T> mean_g,
                                     ComputeOf<T> mean_gh) {
  using V = Vec<ComputeOf<T>>;
  V m = mean, r = rstd, w = weight, c = mean_g, k = mean_gh;
  each_register<ComputeOf<T>>(n, [=](int64_t i, auto part) {
    V h = (load(x + i, part) - m) * r;
    store(gx + i, r * (w * load(g + i, part) - c - h * k), part);
  });
}

template <class T, class P>
struct GroupBackward {
  using L = ComputeOf<T>;
  const GroupNormGrads& a;
  int64_t row = a.channels * a.spatial, channels = a.groups * a.channels;
  const T* g = static_cast<const T*>(a.g);
  const T* x = static_cast<const T*>(a.x);
  const P* w = static_cast<const P*>(a.weight);
  // [n][channels] sums of g and of g * h, in work memory.
  L* sum_g = static_cast<L*>(scratch(Scratch::Rows, size_t(2 * a.n * channels) * sizeof(L)));
  L* sum_gh = sum_g + a.n * channels;

  void group(int64_t k) const {
    L mean = static_cast<const L*>(a.mean)[k], rstd = static_cast<const L*>(a.rstd)[k];
    const T *gk = g + k * row, *xk = x + k * row;
    double total_g = 0, total_gh = 0;
    for (int64_t c = 0; c < a.channels; ++c) {
      Sums<2> s = plane_sums(gk + c * a.spatial, xk + c * a.spatial, a.spatial, mean, rstd);
      double weight = double(value_or(w, k % a.groups * a.channels + c, 1));
      sum_g[k * a.channels + c] = L(s.v[0]);
      sum_gh[k * a.channels + c] = L(s.v[1]);
      total_g += weight * s.v[0];
      total_gh += weight * s.v[1];
    }
    if (!a.gx) return;
    L mean_g = L(total_g / double(row)), mean_gh = L(total_gh / double(row));
    T* gx = static_cast<T*>(a.gx) + k * row;
    for (int64_t c = 0; c < a.channels; ++c) {
      int64_t at = c * a.spatial;
      plane_gradient(gk + at, xk + at, gx + at, a.spatial, mean, rstd,
                     L(value_or(w, k % a.groups * a.channels + c, 1)), mean_g, mean_gh);
    }
  }

  void run() const {
    parallel_for(a.n * a.groups, most(1, kNormGrain / most(1, row)),
                 [this](int64_t k0, int64_t k1) {
                   for (int64_t k = k0; k < k1; ++k) group(k);
                 });
    for (int64_t c = 0; c < channels; ++c) {
      double total_g = 0, total_gh = 0;
      for (int64_t i = 0; i < a.n; ++i) {
        total_g += double(sum_g[i * channels + c]);
        total_gh += double(sum_gh[i * channels + c]);
      }
      if (a.gw) static_cast<P*>(a.gw)[c] = narrow_one<P>(ComputeOf<P>(total_gh));
      if (a.gb) static_cast<P*>(a.gb)[c] = narrow_one<P>(ComputeOf<P>(total_g));
    }
  }
};

}  // namespace

void group_norm_forward(const GroupNormArgs& a) {
  if (a.n * a.groups * a.channels * a.spatial == 0) return;
  with_float_types(a.dtype, a.param_dtype, [&]<class T, class P>(T, P) { forward<T, P>(a); });
}

void group_norm_backward(const GroupNormGrads& a) {
  if (a.groups * a.channels == 0) return;
  with_float_types(a.dtype, a.param_dtype,
                   [&]<class T, class P>(T, P) { GroupBackward<T, P>{a}.run(); });
}

}  // namespace flambeau::FL_ISA
