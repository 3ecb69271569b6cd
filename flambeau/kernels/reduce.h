// Reductions: the list of them and one body each. A new one is an enumerator and a Body here;
// tables and loops follow. How a tensor is walked is the business of cpu/reduce.cpp and of its
// twins on other devices.
#pragma once
#include "flambeau/core/dtype.h"

namespace flambeau {

enum class ReduceOp : int {
  Sum,
  NanSum,
  Mean,
  NanMean,
  Prod,
  AMax,
  AMin,
  AMinMax,   // two outputs: smallest, largest
  MaxIndex,  // two outputs: value, index (int64)
  MinIndex,
  ArgMax,
  ArgMin,
  Any,
  All,
  CountNonzero,
  Var,  // p is the correction
  Std,
  VarMean,  // two outputs
  StdMean,
  Norm0,
  Norm1,
  Norm2,
  NormInf,
  NormNegInf,
  NormP,  // p is the order
  LogSumExp,
};
inline constexpr int kReduceOps = int(ReduceOp::LogSumExp) + 1;

// x is seen as [outer][reps][n][inner] with strides in elements; reps and n are reduced together
// (indices count through both), so that a sum over batch and pixels of a channel needs no copy.
// Outputs are contiguous [outer][inner].
struct ReduceArgs {
  ReduceOp op;
  DType dtype;      // of x
  DType out_dtype;  // what reduce_result says, or Float32 for half types
  int64_t outer, n, inner;
  int64_t x_outer, x_n, x_inner;
  const void* x;
  void* out;
  void* out2 = nullptr;
  double p = 0;
  int64_t reps = 1, x_reps = 0;
};

// The vector norm of this order.
constexpr ReduceOp norm_op(double order) {
  if (order == 0) return ReduceOp::Norm0;
  if (order == 1) return ReduceOp::Norm1;
  if (order == 2) return ReduceOp::Norm2;
  if (order == __builtin_inf()) return ReduceOp::NormInf;
  if (order == -__builtin_inf()) return ReduceOp::NormNegInf;
  return ReduceOp::NormP;
}

}  // namespace flambeau

#ifdef FL_ISA
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/reduce_parts.h"

namespace flambeau::FL_ISA {

// Body<op> says: `takes`, the kinds of input; Lane<T>, what a vector lane holds; State<V>, one
// register's worth of running result; start, step (one more x at position `at`; c is the pivot or
// p), merge; Total<L>, the wide scalar that short blocks are absorbed into; join; finish; Out<T>.
// Bodies with the same Loop differ in the last two only and share compiled loops.
template <ReduceOp op>
struct Body;

template <>
struct Body<ReduceOp::Sum> : Adding<Body<ReduceOp::Sum>, kAnyInput> {};

template <>
struct Body<ReduceOp::NanSum> : Adding<Body<ReduceOp::NanSum>, kRealInput> {
  template <class V>
  static V map(V x, V) {
    return select(x == x, x, V(0));
  }
};

template <>
struct Body<ReduceOp::Mean> : Body<ReduceOp::Sum> {
  static constexpr int takes = kInexactInput;
  template <class L>
  static auto finish(const Total<L>& t, int64_t n, double) {
    return t.value / double(n);
  }
};

// Counts by dividing two sums; the count fits a float lane because a block is short.
template <>
struct Body<ReduceOp::NanMean> {
  using Loop = Body;
  static constexpr int takes = kFloatInput;
  static constexpr bool uses_c = false, reads_halves = false;
  template <class T>
  using Lane = LaneOf<T>;
  template <class T>
  using Out = T;
  template <class V>
  struct State {
    V sum, count;
  };
  template <class L>
  struct Total {
    double sum = 0, count = 0;
  };
  template <class V>
  static State<V> start() {
    return {V(0), V(0)};
  }
  template <class V>
  static void step(State<V>& s, V x, V, Index<V>) {
    s.sum = s.sum + select(x == x, x, V(0));
    s.count = s.count + select(x == x, V(1), V(0));
  }
  template <class V>
  static void merge(State<V>& a, const State<V>& b) {
    a.sum = a.sum + b.sum;
    a.count = a.count + b.count;
  }
  template <class L>
  static void absorb(Total<L>& t, const State<L>& s, const Block<L>&) {
    t.sum += s.sum;
    t.count += s.count;
  }
  template <class L>
  static void join(Total<L>& a, const Total<L>& b) {
    a.sum += b.sum;
    a.count += b.count;
  }
  template <class L>
  static double finish(const Total<L>& t, int64_t, double) {
    return t.sum / t.count;
  }
};

template <>
struct Body<ReduceOp::Prod> : Folding<Body<ReduceOp::Prod>, kAnyInput> {
  template <class T>
  using Lane = WideLaneOf<T>;
  template <class T>
  using Out = SumOut<T>;
  template <class T>
  using Wide = WideOf<T>;
  template <class T>
  static T first() {
    return T(1);
  }
  template <class V>
  static V combine(V a, V b) {
    return wrap_mul(a, b);
  }
};

template <>
struct Body<ReduceOp::AMax> : Selecting<Body<ReduceOp::AMax>, kRealInput | kBoolInput, Largest> {};
template <>
struct Body<ReduceOp::AMin> : Selecting<Body<ReduceOp::AMin>, kRealInput | kBoolInput, Smallest> {};

template <>
struct Body<ReduceOp::AMinMax> {
  using Loop = Body;
  static constexpr int takes = kRealInput | kBoolInput;
  static constexpr bool uses_c = false, reads_halves = false;
  template <class T>
  using Lane = LaneOf<T>;
  template <class T>
  using Out = T;
  template <class V>
  struct State {
    V low, high;
  };
  template <class T>
  using Out2 = T;
  template <class V>
  static State<V> start() {
    return {V(Smallest::first<ScalarOf<V>>()), V(Largest::first<ScalarOf<V>>())};
  }
  template <class L>
  struct Total {
    State<L> state = start<L>();
  };
  template <class V>
  static void step(State<V>& s, V x, V, Index<V>) {
    s = {Smallest::combine(s.low, x), Largest::combine(s.high, x)};
  }
  template <class V>
  static void merge(State<V>& a, const State<V>& b) {
    a = {Smallest::combine(a.low, b.low), Largest::combine(a.high, b.high)};
  }
  template <class L>
  static void absorb(Total<L>& t, const State<L>& s, const Block<L>&) {
    merge(t.state, s);
  }
  template <class L>
  static void join(Total<L>& a, const Total<L>& b) {
    merge(a.state, b.state);
  }
  template <class L>
  static Two<L, L> finish(const Total<L>& t, int64_t, double) {
    return {t.state.low, t.state.high};
  }
};

template <>
struct Body<ReduceOp::MaxIndex> : Finding<Body<ReduceOp::MaxIndex>, Largest> {};
template <>
struct Body<ReduceOp::MinIndex> : Finding<Body<ReduceOp::MinIndex>, Smallest> {};

template <>
struct Body<ReduceOp::ArgMax> : Body<ReduceOp::MaxIndex> {
  template <class T>
  using Out = int64_t;
  template <class L>
  static int64_t finish(const Total<L>& t, int64_t, double) {
    return t.at;
  }
};
template <>
struct Body<ReduceOp::ArgMin> : Body<ReduceOp::MinIndex> {
  template <class T>
  using Out = int64_t;
  template <class L>
  static int64_t finish(const Total<L>& t, int64_t, double) {
    return t.at;
  }
};

// A NaN is true, as everything that is not zero.
template <>
struct Body<ReduceOp::Any> : Selecting<Body<ReduceOp::Any>, kAnyInput, Largest> {
  template <class T>
  using Out = bool;
  template <class T>
  static T first() {
    return T(0);
  }
  template <class V>
  static V map(V x, V) {
    return select(x != V(0), V(1), V(0));
  }
  template <class L>
  static bool done(const Total<L>& t) {
    return t.value == L(1);
  }
};

template <>
struct Body<ReduceOp::All> : Selecting<Body<ReduceOp::All>, kAnyInput, Smallest> {
  template <class T>
  using Out = bool;
  template <class T>
  static T first() {
    return T(1);
  }
  template <class V>
  static V map(V x, V) {
    return select(x != V(0), V(1), V(0));
  }
  template <class L>
  static bool done(const Total<L>& t) {
    return t.value == L(0);
  }
};

template <>
struct Body<ReduceOp::CountNonzero> : Adding<Body<ReduceOp::CountNonzero>, kAnyInput> {
  template <class T>
  using Lane = LaneOf<T>;
  template <class T>
  using Out = int64_t;
  template <class V>
  static V map(V x, V) {
    return select(x != V(0), V(1), V(0));
  }
};

template <>
struct Body<ReduceOp::Var> : Spread<Body<ReduceOp::Var>, Body<ReduceOp::Sum>> {};

template <>
struct Body<ReduceOp::Std> : Body<ReduceOp::Var> {
  template <class L>
  static double finish(const Total<L>& t, int64_t, double correction) {
    return __builtin_sqrt(variance(t, correction));
  }
};

template <>
struct Body<ReduceOp::VarMean> : Body<ReduceOp::Var> {
  template <class L>
  static Two<double, WideOf<L>> finish(const Total<L>& t, int64_t, double correction) {
    return {variance(t, correction), mean(t)};
  }
};

template <>
struct Body<ReduceOp::StdMean> : Body<ReduceOp::Var> {
  template <class L>
  static Two<double, WideOf<L>> finish(const Total<L>& t, int64_t, double correction) {
    return {__builtin_sqrt(variance(t, correction)), mean(t)};
  }
};

template <>
struct Body<ReduceOp::Norm0> : Body<ReduceOp::CountNonzero> {
  static constexpr int takes = kInexactInput;
  template <class T>
  using Out = RealOf<T>;
};

template <>
struct Body<ReduceOp::Norm1> : Adding<Body<ReduceOp::Norm1>, kInexactInput> {
  template <class T>
  using Out = RealOf<T>;
  template <class V>
  static auto map(V x, V) {
    return abs(x);
  }
};

template <>
struct Body<ReduceOp::Norm2> : Adding<Body<ReduceOp::Norm2>, kInexactInput> {
  template <class T>
  using Out = RealOf<T>;
  template <class V>
  static auto map(V x, V) {
    return squared(x);
  }
  template <class L>
  static double finish(const Total<L>& t, int64_t, double) {
    return __builtin_sqrt(real_part(t.value));
  }
};

template <>
struct Body<ReduceOp::NormP> : Adding<Body<ReduceOp::NormP>, kInexactInput> {
  static constexpr bool uses_c = true, reads_halves = false;
  template <class T>
  using Out = RealOf<T>;
  template <class V>
  static auto map(V x, V p) {
    return power(abs(x), p);
  }
  template <class L>
  static double finish(const Total<L>& t, int64_t, double p) {
    return __builtin_pow(real_part(t.value), 1 / p);
  }
};

template <>
struct Body<ReduceOp::NormInf> : Selecting<Body<ReduceOp::NormInf>, kInexactInput, Largest> {
  template <class T>
  using Out = RealOf<T>;
  template <class T>
  static T first() {
    return T(0);
  }
  template <class V>
  static auto map(V x, V) {
    return abs(x);
  }
};

template <>
struct Body<ReduceOp::NormNegInf> : Selecting<Body<ReduceOp::NormNegInf>, kInexactInput, Smallest> {
  template <class T>
  using Out = RealOf<T>;
  template <class V>
  static auto map(V x, V) {
    return abs(x);
  }
};

// log(sum(exp(x))) as pivot + log(sum(exp(x - pivot))); the pivot is the block's largest value, or
// 0 where that is infinite, since inf - inf would be NaN.
template <>
struct Body<ReduceOp::LogSumExp> {
  using Loop = Body;
  static constexpr int takes = kFloatInput;
  static constexpr bool uses_c = true, reads_halves = false;
  using Pivot = Body<ReduceOp::AMax>;
  template <class T>
  using Lane = LaneOf<T>;
  template <class T>
  using Out = T;
  template <class V>
  struct State {
    V sum;
  };
  template <class L>
  struct Total {
    double pivot = 0, sum = 0;
  };
  template <class L>
  static L pivot(const Pivot::Total<L>& t, int64_t) {
    return t.value - t.value == 0 ? t.value : L(0);
  }
  template <class V>
  static State<V> start() {
    return {V(0)};
  }
  template <class V>
  static void step(State<V>& s, V x, V pivot, Index<V>) {
    s.sum = s.sum + exp(x - pivot);
  }
  template <class V>
  static void merge(State<V>& a, const State<V>& b) {
    a.sum = a.sum + b.sum;
  }
  template <class L>
  static void absorb(Total<L>& t, const State<L>& s, const Block<L>& block) {
    Total<L> more;
    more.pivot = block.c;
    more.sum = s.sum;
    join(t, more);
  }
  template <class L>
  static void join(Total<L>& a, const Total<L>& b) {
    bool finite = a.sum - a.sum == 0 && b.sum - b.sum == 0;
    if (!finite) {
      a.sum = a.sum + b.sum;
    } else if (a.sum == 0) {
      a = b;
    } else if (b.sum != 0) {
      double pivot = a.pivot > b.pivot ? a.pivot : b.pivot;
      a.sum = a.sum * __builtin_exp(a.pivot - pivot) + b.sum * __builtin_exp(b.pivot - pivot);
      a.pivot = pivot;
    }
  }
  template <class L>
  static double finish(const Total<L>& t, int64_t, double) {
    return t.pivot + __builtin_log(t.sum);
  }
};

}  // namespace flambeau::FL_ISA
#endif
