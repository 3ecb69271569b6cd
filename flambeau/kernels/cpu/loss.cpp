// The losses over classes. Cross entropy keeps one number per row (the log of the sum of
// exponentials) instead of all the log-probabilities; its backward computes the exponentials again,
// which costs less than the memory would.
#include "flambeau/kernels/cpu/loss.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/reduce.h"
#include "flambeau/kernels/cpu/rows.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/math_exp.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kGrain = 1 << 14;
constexpr int64_t kTargets = 1024;  // targets that one thread adds up

struct LossSum {
  double loss = 0, weight = 0;
};

template <class T>
double weight_of(const ClassShape& s, int64_t target) {
  return s.weight ? double(widen_one(static_cast<const T*>(s.weight)[target])) : 1.0;
}

// one(i, target) is the loss of target i. Sums are over pieces cut by size, joined in order.
template <class T, class F>
LossSum sum_losses(const ClassShape& s, void* loss, const F& one) {
  int64_t count = s.n * s.spatial, pieces = ceil_div(count, kTargets);
  T* each = s.reduction == LossReduction::None ? static_cast<T*>(loss) : nullptr;
  auto* sums = static_cast<LossSum*>(scratch(Scratch::Rows, size_t(pieces) * sizeof(LossSum)));
  parallel_for(pieces, 1, [&](int64_t p0, int64_t p1) {
    for (int64_t p = p0; p < p1; ++p) {
      LossSum sum;
      for (int64_t i = p * kTargets; i < least(count, (p + 1) * kTargets); ++i) {
        int64_t target = s.target[i];
        bool counts = target != s.ignore_index;
        double value = counts ? one(i, target) : 0;
        if (each) each[i] = narrow_one<T>(ComputeOf<T>(value));
        sum.loss += value;
        sum.weight += counts ? weight_of<T>(s, target) : 0;
      }
      sums[p] = sum;
    }
  });
  LossSum total;
  for (int64_t p = 0; p < pieces; ++p) total.loss += sums[p].loss, total.weight += sums[p].weight;
  return total;
}

// Without anything that counts the mean is 0 / 0: NaN, as in torch.
template <class T>
void write_loss(const ClassShape& s, LossSum sum, void* loss) {
  if (s.reduction == LossReduction::None) return;
  double value = s.reduction == LossReduction::Mean ? sum.loss / sum.weight : sum.loss;
  *static_cast<T*>(loss) = narrow_one<T>(ComputeOf<T>(value));
}

template <class T>
int64_t element(const ClassShape& s, int64_t i, int64_t c) {
  return (i / s.spatial * s.classes + c) * s.spatial + i % s.spatial;
}

// What one element of the loss passes on: its g, divided by the total weight for a mean.
template <class T>
struct Upstream {
  const T* g;
  bool each;
  double scale;

  Upstream(const ClassShape& s, const void* grad, double total_weight)
      : g(static_cast<const T*>(grad)), each(s.reduction == LossReduction::None), scale(1) {
    if (s.reduction == LossReduction::Mean) scale = 1 / total_weight;
    if (!each) scale *= double(widen_one(*g));
  }
  double operator()(int64_t i) const { return each ? double(widen_one(g[i])) : scale; }
};

template <class T>
void nll_forward(const ClassShape& s, const T* x, void* loss, void* total_weight) {
  LossSum sum = sum_losses<T>(s, loss, [&](int64_t i, int64_t target) {
    return -weight_of<T>(s, target) * double(widen_one(x[element<T>(s, i, target)]));
  });
  write_loss<T>(s, sum, loss);
  if (s.reduction != LossReduction::None) {
    *static_cast<T*>(total_weight) = narrow_one<T>(ComputeOf<T>(sum.weight));
  }
}

template <class T>
void nll_backward(const ClassShape& s, const void* g, const void* total_weight, T* gx) {
  bool mean = s.reduction == LossReduction::Mean;
  Upstream<T> upstream(s, g, mean ? double(widen_one(*static_cast<const T*>(total_weight))) : 1);
  int64_t row = s.classes * s.spatial;
  parallel_for(s.n, most(1, kGrain / row), [&](int64_t n0, int64_t n1) {
    __builtin_memset(gx + n0 * row, 0, size_t((n1 - n0) * row) * sizeof(T));
    for (int64_t i = n0 * s.spatial; i < n1 * s.spatial; ++i) {
      int64_t target = s.target[i];
      if (target == s.ignore_index) continue;
      gx[element<T>(s, i, target)] =
          narrow_one<T>(ComputeOf<T>(-weight_of<T>(s, target) * upstream(i)));
    }
  });
}

// -- cross entropy

// Weighted sum of the logits of each target, and of the weights: what label smoothing adds.
template <class T>
[[gnu::flatten]] double smooth_row(const ClassShape& s, const T* x) {
  using V = Vec<ComputeOf<T>>;
  const T* w = static_cast<const T*>(s.weight);
  if (s.spatial == 1) {
    return sums<ComputeOf<T>, 1>(s.classes,
                                 [=](V* acc, int64_t c, auto part) {
                                   V v = load(x + c, part);
                                   acc[0] = acc[0] + (w ? v * load(w + c, part) : v);
                                 })
        .v[0];
  }
  double sum = 0;
  for (int64_t c = 0; c < s.classes; ++c)
    sum += weight_of<T>(s, c) * double(widen_one(x[c * s.spatial]));
  return sum;
}

template <class T>
double sum_weights(const ClassShape& s) {
  double sum = 0;
  for (int64_t c = 0; c < s.classes; ++c) sum += weight_of<T>(s, c);
  return sum;
}

template <class T>
void entropy_forward(const ClassShape& s, double smoothing, const T* x, void* loss, void* saved,
                     void* total_weight) {
  using L = ComputeOf<T>;
  L* lse = static_cast<L*>(saved);
  reduce({ReduceOp::LogSumExp, s.dtype, kIsHalf<T> ? DType::Float32 : s.dtype, s.n, s.classes,
          s.spatial, s.classes * s.spatial, s.spatial, 1, x, lse});
  double all_weights = smoothing > 0 ? sum_weights<T>(s) : 0, share = smoothing / double(s.classes);
  LossSum sum = sum_losses<T>(s, loss, [&](int64_t i, int64_t target) {
    double l = double(lse[i]);
    double value = (1 - smoothing) * weight_of<T>(s, target) *
                   (l - double(widen_one(x[element<T>(s, i, target)])));
    if (smoothing > 0) value += share * (l * all_weights - smooth_row(s, x + element<T>(s, i, 0)));
    return value;
  });
  write_loss<T>(s, sum, loss);
  *static_cast<L*>(total_weight) = L(sum.weight);
}

// d loss_i / d x_j = p_j * ((1 - e) w_t + e / C * sum(w)) - (1 - e) w_t [j = t] - e / C * w_j,
// times the upstream scale.
template <class T>
struct EntropyBackward {
  using L = ComputeOf<T>;
  using V = Vec<L>;
  static constexpr int64_t kTile = 256;
  const ClassShape& s;
  double smoothing, all_weights, share;
  Upstream<T> upstream;
  const T* x;
  const L* lse;
  T* gx;

  struct Row {
    L lse, factor, at_target, share;
    int64_t target;
  };
  Row row(int64_t i) const {
    int64_t target = s.target[i];
    if (target == s.ignore_index) return {0, 0, 0, 0, -1};
    double up = upstream(i), own = (1 - smoothing) * weight_of<T>(s, target);
    return {lse[i], L(up * (own + share * all_weights)), L(up * own), L(up * share), target};
  }
  L weight(int64_t c) const {
    return s.weight ? widen_one(static_cast<const T*>(s.weight)[c]) : L(1);
  }

  [[gnu::flatten]] void one_row(const T* xi, T* gi, const Row& r) const {
    if (r.target < 0) {
      __builtin_memset(gi, 0, size_t(s.classes) * sizeof(T));
      return;
    }
    const T* w = static_cast<const T*>(s.weight);
    // The target's gradient is a difference: it is taken before rounding to a half type.
    V at = exp(V(widen_one(xi[r.target])) - V(r.lse)) * V(r.factor) - V(r.at_target);
    T target = narrow_one<T>(at.lane(0) - r.share * weight(r.target));
    V l = r.lse, factor = r.factor, even = r.share;
    each_register<L>(s.classes, [=](int64_t c, auto part) {
      V p = exp(load(xi + c, part) - l);
      store(gi + c, p * factor - (w ? even * load(w + c, part) : even), part);
    });
    gi[r.target] = target;
  }

  // A tile of up to kTile neighbouring targets, class by class.
  [[gnu::flatten]] void columns(int64_t first, int64_t count) const {
    L lses[kTile], factor[kTile], at_target[kTile], even[kTile];
    int64_t target[kTile];
    for (int64_t k = 0; k < count; ++k) {
      Row r = row(first + k);
      lses[k] = r.lse, factor[k] = r.factor, at_target[k] = r.at_target, even[k] = r.share,
      target[k] = r.target;
    }
    int64_t base = element<T>(s, first, 0);
    for (int64_t c = 0; c < s.classes; ++c) {
      V w = weight(c);
      L own[kTile];
      for (int64_t k = 0; k < count; ++k) own[k] = target[k] == c ? at_target[k] : L(0);
      const T* xc = x + base + c * s.spatial;
      T* gc = gx + base + c * s.spatial;
      each_register<L>(count, [&](int64_t k, auto part) {
        V f = load(factor + k, part), p = exp(load(xc + k, part) - load(lses + k, part));
        // An ignored target has factor 0, and its exponential may overflow.
        V v = select(f == V(0), V(0), p * f);
        store(gc + k, v - load(own + k, part) - load(even + k, part) * w, part);
      });
    }
  }

  void run() const {
    if (s.spatial == 1) {
      parallel_for(s.n, most(1, kGrain / s.classes), [this](int64_t n0, int64_t n1) {
        for (int64_t i = n0; i < n1; ++i) one_row(x + i * s.classes, gx + i * s.classes, row(i));
      });
      return;
    }
    int64_t tiles = ceil_div(s.spatial, kTile);
    parallel_for(s.n * tiles, most(1, kGrain / (s.classes * kTile)),
                 [=, this](int64_t t0, int64_t t1) {
                   for (int64_t t = t0; t < t1; ++t) {
                     int64_t begin = t % tiles * kTile;
                     columns(t / tiles * s.spatial + begin, least(kTile, s.spatial - begin));
                   }
                 });
  }
};

}  // namespace

void nll_loss_forward(const ClassShape& s, const void* x, void* loss, void* total_weight) {
  with_float_type(
      s.dtype, [&]<class T>(T) { nll_forward(s, static_cast<const T*>(x), loss, total_weight); });
}

void nll_loss_backward(const ClassShape& s, const void* g, const void* total_weight, void* gx) {
  if (s.n * s.classes * s.spatial == 0) return;
  with_float_type(s.dtype,
                  [&]<class T>(T) { nll_backward(s, g, total_weight, static_cast<T*>(gx)); });
}

void cross_entropy_forward(const ClassShape& s, double label_smoothing, const void* x, void* loss,
                           void* lse, void* total_weight) {
  with_float_type(s.dtype, [&]<class T>(T) {
    entropy_forward(s, label_smoothing, static_cast<const T*>(x), loss, lse, total_weight);
  });
}

void cross_entropy_backward(const ClassShape& s, double label_smoothing, const void* g,
                            const void* x, const void* lse, const void* total_weight, void* gx) {
  if (s.n * s.classes * s.spatial == 0) return;
  with_float_type(s.dtype, [&]<class T>(T) {
    using L = ComputeOf<T>;
    double all_weights = label_smoothing > 0 ? sum_weights<T>(s) : 0;
    Upstream<T> upstream(s, g, double(*static_cast<const L*>(total_weight)));
    EntropyBackward<T>{s,
                       label_smoothing,
                       all_weights,
                       label_smoothing / double(s.classes),
                       upstream,
                       static_cast<const T*>(x),
                       static_cast<const L*>(lse),
                       static_cast<T*>(gx)}
        .run();
  });
}

int64_t first_out_of_range(const int64_t* values, int64_t n, int64_t low, int64_t high,
                           int64_t ignore) {
  using V = Vec<int64_t>;
  constexpr int64_t kBlock = 512;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    int64_t end = least(n, begin + kBlock), i = begin;
    V::Mask bad(false);
    for (; i + V::kLanes <= end; i += V::kLanes) {
      V v = V::load(values + i);
      bad = bad | (((v < V(low)) | (v >= V(high))) & (v != V(ignore)));
    }
    if (i == end && !any(bad)) continue;
    for (i = begin; i < end; ++i) {
      if ((values[i] < low || values[i] >= high) && values[i] != ignore) return i;
    }
  }
  return -1;
}

}  // namespace flambeau::FL_ISA
