// Scans. Sums and products of floats run in double, as torch's do. Along a contiguous dim a
// register holds neighbours and is scanned inside (Hillis & Steele 1986); across an inner dim it
// holds columns.
#include "flambeau/kernels/cpu/scan.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/reduce.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kGrain = 1 << 14;
constexpr int64_t kTileCols = 256;

struct RunningSum {
  template <class V>
  static V first() {
    return V(0);
  }
  template <class V>
  static V combine(V a, V b) {
    return wrap_add(a, b);
  }
};
struct RunningProduct {
  template <class V>
  static V first() {
    return V(1);
  }
  template <class V>
  static V combine(V a, V b) {
    return wrap_mul(a, b);
  }
};

// Up to one register of lanes W from elements T at any stride; lanes beyond n are `otherwise`.
template <class W, class T>
VecOf<W> load_lanes_of(const T* p, int64_t stride, int64_t n, VecOf<W> otherwise) {
  constexpr int lanes = VecOf<W>::kLanes;
  if constexpr (kIsCplx<W>) {
    return widened(*p);
  } else {
    if constexpr (sizeof(T) >= 4) {
      if (FL_LIKELY(stride == 1 && n >= lanes)) {
        Raw<T, lanes> x;
        __builtin_memcpy(&x, p, sizeof x);
        return __builtin_convertvector(x, Raw<W>);
      }
    }
    for (int i = 0; i < lanes && i < n; ++i) otherwise.v[i] = lane_of<W>(p[i * stride]);
    return otherwise;
  }
}

template <class T, class W>
void store_lanes_of(T* p, VecOf<W> x, int64_t n) {
  if constexpr (kIsCplx<W>) {
    *p = element_of<T>(x);
  } else {
    constexpr int lanes = VecOf<W>::kLanes;
    if constexpr (sizeof(T) >= 4) {
      if (FL_LIKELY(n >= lanes)) {
        auto y = __builtin_convertvector(x.v, Raw<T, lanes>);
        __builtin_memcpy(p, &y, sizeof y);
        return;
      }
    }
    for (int i = 0; i < lanes && i < n; ++i) p[i] = element_of<T>(x.v[i]);
  }
}

// Lane i moves to lane i + by; the first ones are taken from `in`.
template <class W>
Vec<W> shift_up(Vec<W> x, int by, Vec<W> in) {
  IntVec<W> from;
  for (int i = 0; i < Vec<W>::kLanes; ++i) from.v[i] = i < by ? i + Vec<W>::kLanes : i - by;
  return __builtin_shuffle(x.v, in.v, from.v);
}

template <class Op, class W>
VecOf<W> scan_register(VecOf<W> x) {
  if constexpr (!kIsCplx<W>) {
#pragma GCC unroll 4
    for (int by = 1; by < VecOf<W>::kLanes; by *= 2) {
      x = Op::combine(shift_up<W>(x, by, Op::template first<Vec<W>>()), x);
    }
  }
  return x;
}
template <class W>
VecOf<W> last_lane(VecOf<W> x) {
  if constexpr (kIsCplx<W>) {
    return x;
  } else {
    return VecOf<W>(x.lane(VecOf<W>::kLanes - 1));
  }
}

template <class Op, class W, class Out, class T>
[[gnu::flatten]] void scan_run(const T* x, int64_t stride, Out* out, int64_t n) {
  constexpr int lanes = VecOf<W>::kLanes;
  auto none = Op::template first<VecOf<W>>(), carry = none;
  for (int64_t i = 0; i < n; i += lanes) {
    auto y = Op::combine(
        carry, scan_register<Op, W>(load_lanes_of<W>(x + i * stride, stride, n - i, none)));
    store_lanes_of<Out, W>(out + i, y, n - i);
    carry = last_lane<W>(y);
  }
}

template <class Op, class W, class Out, class T>
[[gnu::flatten]] void scan_columns(const T* x, int64_t x_n, int64_t x_inner, Out* out,
                                   int64_t stride, int64_t n, int64_t cols) {
  using V = VecOf<W>;
  constexpr int lanes = V::kLanes;
  V running[kTileCols / lanes];
  auto none = Op::template first<V>();
  for (int64_t k = 0; k * lanes < cols; ++k) running[k] = none;
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t k = 0; k * lanes < cols; ++k) {
      int64_t c = k * lanes;
      running[k] = Op::combine(
          running[k], load_lanes_of<W>(x + r * x_n + c * x_inner, x_inner, cols - c, none));
      store_lanes_of<Out, W>(out + r * stride + c, running[k], cols - c);
    }
  }
}

// body(first x, first out, cols) for every run (inner = 1) or tile of columns.
template <class T, class F>
void each_part(const ScanArgs& a, const F& body) {
  const T* x = static_cast<const T*>(a.x);
  int64_t tiles = ceil_div(a.inner, kTileCols), cols = least(a.inner, kTileCols);
  parallel_for(a.outer * tiles, most(1, kGrain / (a.n * cols)), [&](int64_t t0, int64_t t1) {
    for (int64_t t = t0; t < t1; ++t) {
      int64_t o = t / tiles, c = t % tiles * kTileCols;
      body(x + o * a.x_outer + c * a.x_inner, o * a.n * a.inner + c, least(kTileCols, a.inner - c));
    }
  });
}

template <class Op, class T>
void accumulate(const ScanArgs& a) {
  using Out = SumOut<T>;
  using W = WideOf<WideLaneOf<T>>;
  Out* out = static_cast<Out*>(a.out);
  each_part<T>(a, [&](const T* x, int64_t at, int64_t cols) {
    if (a.inner == 1) return scan_run<Op, W>(x, a.x_n, out + at, a.n);
    scan_columns<Op, W>(x, a.x_n, a.x_inner, out + at, a.inner, a.n, cols);
  });
}

// A NaN stays; a later NaN moves the index, as a later equal value does. Rare on most data: a
// branch, no conditional move.
template <class Order, class L>
bool takes_over(L v, L best) {
  return FL_UNLIKELY(!Order::beats(best, v));
}

template <class Order, class T>
void extreme_run(const T* x, int64_t stride, T* out, int64_t* indices, int64_t n) {
  auto best = lane_of<LaneOf<T>>(x[0]);
  int64_t where = 0;
  for (int64_t r = 0; r < n; ++r) {
    auto v = lane_of<LaneOf<T>>(x[r * stride]);
    if (takes_over<Order>(v, best)) best = v, where = r;
    out[r] = element_of<T>(best);
    indices[r] = where;
  }
}

template <class Order, class T>
void extreme(const ScanArgs& a) {
  using L = LaneOf<T>;
  T* out = static_cast<T*>(a.out);
  int64_t* indices = static_cast<int64_t*>(a.out2);
  each_part<T>(a, [&](const T* x, int64_t at, int64_t cols) {
    if (a.inner == 1) return extreme_run<Order>(x, a.x_n, out + at, indices + at, a.n);
    L best[kTileCols];
    int64_t where[kTileCols];
    for (int64_t c = 0; c < cols; ++c) best[c] = lane_of<L>(x[c * a.x_inner]), where[c] = 0;
    for (int64_t r = 0; r < a.n; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        L v = lane_of<L>(x[r * a.x_n + c * a.x_inner]);
        if (takes_over<Order>(v, best[c])) best[c] = v, where[c] = r;
        out[at + r * a.inner + c] = element_of<T>(best[c]);
        indices[at + r * a.inner + c] = where[c];
      }
    }
  });
}

// The running total is pivot + log(sum), the pivot being the largest value so far (0 while that is
// -inf).
struct LogTotal {
  double pivot = 0, sum = 0;

  double add(double x) {
    if (x - x != 0 ||
        sum - sum != 0) {  // infinite or NaN, now or before: the pivot no longer matters
      sum += __builtin_exp(x);
    } else if (sum == 0) {
      pivot = x, sum = 1;
    } else if (x > pivot) {
      sum = sum * __builtin_exp(pivot - x) + 1, pivot = x;
    } else {
      sum += __builtin_exp(x - pivot);
    }
    return pivot + __builtin_log(sum);
  }
};

template <class T>
void log_accumulate(const ScanArgs& a) {
  T* out = static_cast<T*>(a.out);
  each_part<T>(a, [&](const T* x, int64_t at, int64_t cols) {
    LogTotal totals[kTileCols];
    for (int64_t r = 0; r < a.n; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        double v = totals[c].add(double(lane_of<LaneOf<T>>(x[r * a.x_n + c * a.x_inner])));
        out[at + r * a.inner + c] = element_of<T>(v);
      }
    }
  });
}

template <class T>
void run(const ScanArgs& a) {
  switch (a.op) {
    case ScanOp::CumSum:
      return accumulate<RunningSum, T>(a);
    case ScanOp::CumProd:
      return accumulate<RunningProduct, T>(a);
    case ScanOp::CumMax:
      if constexpr (!kIsCplx<T>) return extreme<Largest, T>(a);
      return;
    case ScanOp::CumMin:
      if constexpr (!kIsCplx<T>) return extreme<Smallest, T>(a);
      return;
    case ScanOp::LogCumSumExp:
      if constexpr (kKind<T> == kFloatInput) return log_accumulate<T>(a);
      return;
  }
}

using ScanFn = void (*)(const ScanArgs&);
// In the order of DType.
constexpr ScanFn kRun[kDTypes] = {run<bool>,     run<uint8_t>,     run<int8_t>,      run<int16_t>,
                                  run<int32_t>,  run<int64_t>,     run<uint16_t>,    run<uint32_t>,
                                  run<uint64_t>, run<Half>,        run<BFloat16>,    run<float>,
                                  run<double>,   run<Cplx<float>>, run<Cplx<double>>};

}  // namespace

void scan(const ScanArgs& a) {
  if (a.outer * a.n * a.inner != 0) kRun[int(a.dtype)](a);
}

int scan_result(ScanOp op, DType dtype) {
  char kind = kDTypeInfo[int(dtype)].category;
  bool sums = op == ScanOp::CumSum || op == ScanOp::CumProd;
  if (sums) return int(kind == 'f' || kind == 'c' ? dtype : DType::Int64);
  if (kind == 'c' || (op == ScanOp::LogCumSumExp && kind != 'f')) return -1;
  return int(dtype);
}

}  // namespace flambeau::FL_ISA
