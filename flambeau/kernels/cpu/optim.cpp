// One pass per tensor: parameter, gradient and state are read and written once. The order of
// operations is that of the formulas op by op, so float and double give the same bits as those.
#include "flambeau/kernels/cpu/optim.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/halves.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements that one thread takes at a time

// Registers of up to three arrays and the gradient, whole or in part.
template <class S>
struct Run {
  using V = Vec<ComputeOf<S>>;
  int64_t i, n;  // first element, how many lanes count

  V load(const void* p) const {
    const S* from = static_cast<const S*>(p) + i;
    return FL_LIKELY(n == V::kLanes) ? load_wide(from) : load_wide(from, n);
  }
  void store(void* p, V x) const {
    S* to = static_cast<S*>(p) + i;
    if (FL_LIKELY(n == V::kLanes)) return store_narrow(to, x);
    store_narrow(to, x, n);
  }
};

// Calls f(Run) over every register of the list's arrays; large arrays are shared among threads.
template <class S, class F>
void each_register(const StepArrays* list, int64_t count, const F& f) {
  constexpr int64_t kLanes = Vec<ComputeOf<S>>::kLanes;
  for (int64_t k = 0; k < count; ++k) {
    const StepArrays& a = list[k];
    auto run = f(a);
    parallel_for(a.n, kGrain, [&](int64_t i, int64_t end) {
      for (; i + kLanes <= end; i += kLanes) run(Run<S>{i, kLanes});
      if (i < end) run(Run<S>{i, end - i});
    });
  }
}

template <class S>
void sgd(const StepArrays* list, int64_t count, const SgdOptions& o) {
  using V = Vec<ComputeOf<S>>;
  using C = ComputeOf<S>;
  const V decay = C(o.weight_decay), momentum = C(o.momentum), keep = C(1 - o.dampening);
  const V step = C(-o.lr);
  each_register<S>(list, count, [&](const StepArrays& a) {
    return [&](Run<S> r) {
      V p = r.load(a.param), g = r.load(a.grad);
      if (o.maximize) g = -g;
      if (o.weight_decay != 0) g = fma(p, decay, g);
      if (o.momentum != 0) {
        V buffer = a.fresh ? g : fma(g, keep, r.load(a.state[0]) * momentum);
        r.store(a.state[0], buffer);
        g = o.nesterov ? fma(buffer, momentum, g) : buffer;
      }
      r.store(a.param, fma(g, step, p));
    };
  });
}

template <class S>
void adam(const StepArrays* list, int64_t count, const AdamOptions& o) {
  using V = Vec<ComputeOf<S>>;
  using C = ComputeOf<S>;
  const V decay = C(o.weight_decay), shrink = C(1 - o.lr * o.weight_decay);
  const V beta2 = C(o.beta2), rest2 = C(1 - o.beta2), eps = C(o.eps);
  // Like torch.lerp: the formula that is exact at the nearer end.
  const bool near_mean = 1 - o.beta1 < 0.5;
  const V weight = C(near_mean ? 1 - o.beta1 : -o.beta1);
  each_register<S>(list, count, [&](const StepArrays& a) {
    const V step = C(-a.step_size), correction = C(a.root_correction);
    return [&, step, correction](Run<S> r) {
      V p = r.load(a.param), g = r.load(a.grad);
      if (o.maximize) g = -g;
      if (o.weight_decay != 0) {
        if (o.decoupled)
          p = p * shrink;
        else
          g = fma(p, decay, g);
      }
      V mean = r.load(a.state[0]);
      mean = fma(weight, g - mean, near_mean ? mean : g);
      r.store(a.state[0], mean);
      V square = fma(rest2 * g, g, r.load(a.state[1]) * beta2);
      r.store(a.state[1], square);
      if (o.amsgrad) {
        square = max(r.load(a.state[2]), square);
        r.store(a.state[2], square);
      }
      V root = sqrt(square) / correction + eps;
      r.store(a.param, p + step * mean / root);
    };
  });
}

template <class S>
double squares(const void* x, int64_t n) {
  using V = Vec<ComputeOf<S>>;
  constexpr int64_t kBlock = 1024;  // summed in the compute type, blocks in double
  double total = 0;
  for (int64_t first = 0; first < n; first += kBlock) {
    int64_t end = first + kBlock < n ? first + kBlock : n;
    V sum(0);
    for (int64_t i = first; i < end; i += V::kLanes) {
      Run<S> r{i, end - i < V::kLanes ? end - i : int64_t(V::kLanes)};
      V v = r.load(x);
      sum = fma(v, v, sum);
    }
    for (int lane = 0; lane < V::kLanes; ++lane) total += double(sum.lane(lane));
  }
  return total;
}

template <class S>
void scale(void* x, int64_t n, double factor) {
  using V = Vec<ComputeOf<S>>;
  const V f = ComputeOf<S>(factor);
  parallel_for(n, kGrain, [&](int64_t i, int64_t end) {
    for (; i < end; i += V::kLanes) {
      Run<S> r{i, end - i < V::kLanes ? end - i : int64_t(V::kLanes)};
      r.store(x, r.load(x) * f);
    }
  });
}

// Calls f with a null pointer to the element type.
template <class F>
auto of_type(DType t, const F& f) {
  switch (t) {
    case DType::Float64:
      return f(static_cast<double*>(nullptr));
    case DType::Float16:
      return f(static_cast<Half*>(nullptr));
    case DType::BFloat16:
      return f(static_cast<BFloat16*>(nullptr));
    default:
      return f(static_cast<float*>(nullptr));
  }
}

}  // namespace

void sgd_arrays(DType t, const StepArrays* list, int64_t count, const SgdOptions& o) {
  of_type(t, [&]<class S>(S*) { sgd<S>(list, count, o); });
}

void adam_arrays(DType t, const StepArrays* list, int64_t count, const AdamOptions& o) {
  of_type(t, [&]<class S>(S*) { adam<S>(list, count, o); });
}

double sum_squares(DType t, const void* x, int64_t n) {
  return of_type(t, [&]<class S>(S*) { return squares<S>(x, n); });
}

void scale_array(DType t, void* x, int64_t n, double factor) {
  of_type(t, [&]<class S>(S*) { scale<S>(x, n, factor); });
}

}  // namespace flambeau::FL_ISA
