// Loops over one contiguous row for the kernels that normalise it (softmax, norms, losses):
// registers with their tail, sums that stay exact, the largest value. Half types are floats here.
#pragma once
#include "flambeau/kernels/cpu/reduce_fold.h"

namespace flambeau::FL_ISA {

// How much of a register counts: all of it, or the first n lanes at the end of a row.
struct Whole {};
struct First {
  int64_t n;
};

template <class T>
Vec<ComputeOf<T>> load(const T* p, Whole) {
  return load_wide(p);
}
template <class T>
Vec<ComputeOf<T>> load(const T* p, First part) {
  return load_wide(p, part.n);
}
template <class T>
void store(T* p, Vec<ComputeOf<T>> x, Whole) {
  store_narrow(p, x);
}
template <class T>
void store(T* p, Vec<ComputeOf<T>> x, First part) {
  store_narrow(p, x, part.n);
}
// Zero in the lanes that do not count.
template <class V>
V kept(V x, Whole) {
  return x;
}
template <class V>
V kept(V x, First part) {
  return first_lanes_of<typename V::Scalar>(x, V(0), part.n);
}

// f(i, part) for every register of n elements.
template <class L, class F>
[[gnu::always_inline]] inline void each_register(int64_t n, const F& f) {
  constexpr int W = Vec<L>::kLanes;
  int64_t i = 0;
  for (; i + W <= n; i += W) f(i, Whole{});
  if (i < n) f(i, First{n - i});
}

template <int K>
struct Sums {
  double v[K] = {};
};

// K sums at once over one row or many: f(acc, i, part) adds what register i has to acc[0 .. K).
// Four chains hide the latency; blocks are gathered in double, so that long rows stay exact.
template <class L, int K>
struct Accumulator {
  static constexpr int W = Vec<L>::kLanes;
  static constexpr int64_t kBlock = 4096;
  Vec<L> a[K], b[K], c[K], d[K];
  int64_t held = 0;
  Sums<K> total;

  Accumulator() { clear(); }
  void clear() {
    for (int k = 0; k < K; ++k) a[k] = b[k] = c[k] = d[k] = Vec<L>(0);
  }
  void flush() {
    for (int k = 0; k < K; ++k) {
      total.v[k] += double(sum_lanes((a[k] + b[k]) + (c[k] + d[k])));
    }
    clear();
    held = 0;
  }
  template <class F>
  [[gnu::always_inline]] void add(int64_t n, const F& f) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      int64_t end = least(n, begin + kBlock), i = begin;
      for (; i + 4 * W <= end; i += 4 * W) {
        f(a, i, Whole{});
        f(b, i + W, Whole{});
        f(c, i + 2 * W, Whole{});
        f(d, i + 3 * W, Whole{});
      }
      for (; i + W <= end; i += W) f(a, i, Whole{});
      if (i < end) f(b, i, First{end - i});
      held += end - begin;
      if (held >= kBlock) flush();
    }
  }
};

template <class L, int K, class F>
[[gnu::always_inline]] inline Sums<K> sums(int64_t n, const F& f) {
  Accumulator<L, K> acc;
  acc.add(n, f);
  if (acc.held) acc.flush();
  return acc.total;
}

// The largest value; a NaN if there is one.
template <class T>
ComputeOf<T> row_max(const T* x, int64_t n) {
  using L = ComputeOf<T>;
  using B = Body<ReduceOp::AMax>;
  TotalOf<B, L> total;
  for (int64_t i = 0; i < n; i += 1 << 13) {
    B::template absorb<L>(total, fold_run<B, L>(x + i, least(n - i, 1 << 13), L(0)), Block<L>{});
  }
  return total.value;
}

// Calls f(T(), P()) for the floating type T that dtype names and the one of parameters: the same,
// or float beside a half T.
template <class F>
void with_float_types(DType dtype, DType param_dtype, const F& f) {
  bool mixed = param_dtype == DType::Float32;
  switch (dtype) {
    case DType::Float16:
      return mixed ? f(Half(), float()) : f(Half(), Half());
    case DType::BFloat16:
      return mixed ? f(BFloat16(), float()) : f(BFloat16(), BFloat16());
    case DType::Float32:
      return f(float(), float());
    default:
      return f(double(), double());
  }
}

// Calls f(T()) for the floating type that dtype names.
template <class F>
void with_float_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::Float16:
      return f(Half());
    case DType::BFloat16:
      return f(BFloat16());
    case DType::Float32:
      return f(float());
    default:
      return f(double());
  }
}

}  // namespace flambeau::FL_ISA
