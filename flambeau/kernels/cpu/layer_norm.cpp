// Layer norm and RMS norm: every row is normalised on its own.
#include "flambeau/kernels/cpu/norm.h"
#include "flambeau/kernels/cpu/norm_rows.h"

namespace flambeau::FL_ISA {
namespace {

template <class T>
[[gnu::flatten]] Moments row_moments(const T* x, int64_t n, bool centered) {
  using L = ComputeOf<T>;
  if (centered) {
    return moments<L>(n, widen_one(x[0]), [=](auto& acc, auto f) {
      acc.add(n, [=](Vec<L>* s, int64_t i, auto part) { f(s, load(x + i, part), part); });
    });
  }
  double squares = sums<L, 1>(n, [=](Vec<L>* s, int64_t i, auto part) {
                     Vec<L> v = load(x + i, part);
                     s[0] = fma(v, v, s[0]);
                   }).v[0];
  return {0, squares / double(n)};
}

// Which parameters there are is known to the compiler: a test per register would cost as much as
// the arithmetic. The statistics come as plain numbers, since GCC leaves no vzeroupper in a
// function that takes registers, and the SSE code that runs next would pay for it many times over.
template <bool weighted, bool biased, class T, class P>
[[gnu::flatten]] void normalise_row(const T* x, const P* w, const P* b, T* y, int64_t n,
                                    ComputeOf<T> row_mean, ComputeOf<T> row_rstd) {
  const Vec<ComputeOf<T>> mean(row_mean), rstd(row_rstd);
  each_register<ComputeOf<T>>(n, [=](int64_t i, auto part) {
    auto v = (load(x + i, part) - mean) * rstd;
    if constexpr (weighted && biased) {
      v = fma(v, load(w + i, part), load(b + i, part));
    } else if constexpr (weighted) {
      v = v * load(w + i, part);
    } else if constexpr (biased) {
      v = v + load(b + i, part);
    }
    store(y + i, v, part);
  });
}

template <class T, class P>
void forward(const LayerNormArgs& a) {
  using L = ComputeOf<T>;
  const P *w = static_cast<const P*>(a.weight), *b = static_cast<const P*>(a.bias);
  auto normalise = w && b ? normalise_row<true, true, T, P>
                   : w    ? normalise_row<true, false, T, P>
                   : b    ? normalise_row<false, true, T, P>
                          : normalise_row<false, false, T, P>;
  parallel_for(a.rows, most(1, kNormGrain / a.cols), [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      const T* x = static_cast<const T*>(a.x) + r * a.cols;
      Moments m = row_moments(x, a.cols, a.centered);
      L mean = L(m.mean), rstd = L(reciprocal_root(m.var + a.eps));
      if (a.mean && a.centered) static_cast<L*>(a.mean)[r] = mean;
      if (a.rstd) static_cast<L*>(a.rstd)[r] = rstd;
      normalise(x, w, b, static_cast<T*>(a.y) + r * a.cols, a.cols, mean, rstd);
    }
  });
}

// One row of the backward pass: h is the normalised x, gw = g * weight.
template <class T, class P>
struct RowBackward {
  using L = ComputeOf<T>;
  using V = Vec<L>;
  const T *g, *x;
  const P* weight;
  int64_t n;
  V mean, rstd;

  template <bool weighted, class Part>
  V weighted_gradient(V gi, int64_t i, Part part) const {
    if constexpr (weighted) return gi * load(weight + i, part);
    return gi;
  }

  // Sums of gw and gw * h. With `params`, g * h and g are added to the sums of weight and bias on
  // the way.
  template <bool weighted, bool params>
  [[gnu::flatten]] Sums<2> sum(L* sum_w, L* sum_b) const {
    return sums<L, 2>(n, [=, this](V* acc, int64_t i, auto part) {
      V gi = load(g + i, part), h = (load(x + i, part) - mean) * rstd;
      if constexpr (params) {
        store(sum_w + i, fma(gi, h, load(sum_w + i, part)), part);
        store(sum_b + i, load(sum_b + i, part) + gi, part);
      }
      V gw = weighted_gradient<weighted>(gi, i, part);
      acc[0] = acc[0] + gw;
      acc[1] = fma(gw, h, acc[1]);
    });
  }

  // gx = rstd * (gw - mean(gw) - h * mean(gw * h)).
  template <bool weighted>
  [[gnu::flatten]] void input(T* gx, V mean_g, V mean_gh) const {
    each_register<L>(n, [=, this](int64_t i, auto part) {
      V gw = weighted_gradient<weighted>(load(g + i, part), i, part);
      V h = (load(x + i, part) - mean) * rstd;
      store(gx + i, rstd * (gw - mean_g - h * mean_gh), part);
    });
  }

  template <bool weighted, bool params>
  void run(T* gx, L* sum_w, L* sum_b, bool centered) const {
    Sums<2> s = sum<weighted, params>(sum_w, sum_b);
    if (!gx) return;
    input<weighted>(gx, V(L(centered ? s.v[0] / double(n) : 0)), V(L(s.v[1] / double(n))));
  }
};

template <class T, class P, bool weighted>
void backward(const LayerNormGrads& a) {
  using L = ComputeOf<T>;
  int64_t n = a.cols;
  auto row = [&](int64_t r) {
    L mean = a.centered ? static_cast<const L*>(a.mean)[r] : L(0);
    return RowBackward<T, P>{static_cast<const T*>(a.g) + r * n,
                             static_cast<const T*>(a.x) + r * n,
                             static_cast<const P*>(a.weight),
                             n,
                             mean,
                             static_cast<const L*>(a.rstd)[r]};
  };
  auto gx_row = [&](int64_t r) { return a.gx ? static_cast<T*>(a.gx) + r * n : nullptr; };
  P *gw = static_cast<P*>(a.gw), *gb = static_cast<P*>(a.gb);
  if (!gw && !gb) {
    parallel_for(a.rows, most(1, kNormGrain / n), [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r) {
        row(r).template run<weighted, false>(gx_row(r), nullptr, nullptr, a.centered);
      }
    });
    return;
  }
  sum_rows<L>(
      a.rows, n,
      [&](int64_t r0, int64_t r1, L* sum_w, L* sum_b) {
        for (int64_t r = r0; r < r1; ++r) {
          row(r).template run<weighted, true>(gx_row(r), sum_w, sum_b, a.centered);
        }
      },
      [&](int64_t c, double sum_w, double sum_b) {
        if (gw) gw[c] = narrow_one<P>(ComputeOf<P>(sum_w));
        if (gb) gb[c] = narrow_one<P>(ComputeOf<P>(sum_b));
      });
}

}  // namespace

void layer_norm_forward(const LayerNormArgs& a) {
  if (a.rows * a.cols == 0) return;
  with_float_types(a.dtype, a.param_dtype, [&]<class T, class P>(T, P) { forward<T, P>(a); });
}

void layer_norm_backward(const LayerNormGrads& a) {
  if (a.cols == 0) return;
  with_float_types(a.dtype, a.param_dtype, [&]<class T, class P>(T, P) {
    a.weight ? backward<T, P, true>(a) : backward<T, P, false>(a);
  });
}

}  // namespace flambeau::FL_ISA
