// What the bodies of reduce.h are made of: kinds of input, lane and result types, and the five
// shapes that nearly every reduction has (adding, folding, selecting, finding an index, spread
// around a mean).
#pragma once
#include "flambeau/kernels/lanes.h"

namespace flambeau::FL_ISA {

// Kinds of input that a body takes, as bits.
inline constexpr int kBoolInput = 1, kIntInput = 2, kFloatInput = 4, kComplexInput = 8;
inline constexpr int kRealInput = kIntInput | kFloatInput,
                     kInexactInput = kFloatInput | kComplexInput;
inline constexpr int kAnyInput = 15;

template <class T>
inline constexpr int kKind = std::is_same_v<T, bool>                     ? kBoolInput
                             : kIsCplx<T>                                ? kComplexInput
                             : std::is_floating_point_v<T> || kIsHalf<T> ? kFloatInput
                                                                         : kIntInput;

// Products of integers need 64 bits at once; sums of a short block only from 32-bit inputs on.
template <class T>
using WideLaneOf = std::conditional_t<(kKind<T> <= kIntInput), int64_t, LaneOf<T>>;
template <class T>
using SumLaneOf = std::conditional_t<(kKind<T> <= kIntInput && sizeof(T) >= 4), int64_t, LaneOf<T>>;
template <class T>
using SumOut = std::conditional_t<(kKind<T> <= kIntInput), int64_t, T>;

// What blocks are gathered in: a double total of float blocks is exact enough for any length.
template <class L>
struct WideOfType {
  using type = std::conditional_t<std::is_floating_point_v<L>, double,
                                  std::conditional_t<std::is_unsigned_v<L>, uint64_t, int64_t>>;
};
template <class T>
struct WideOfType<Cplx<T>> {
  using type = Cplx<double>;
};
template <class L>
using WideOf = typename WideOfType<L>::type;

template <class L>
WideOf<L> widened(L x) {
  if constexpr (kIsCplx<L>) {
    return {double(x.re), double(x.im)};
  } else {
    return WideOf<L>(x);
  }
}
template <class L>
double real_part(L x) {
  if constexpr (kIsCplx<L>) {
    return double(x.re);
  } else {
    return double(x);
  }
}

// Positions that go with a register, or with one lane of it, have lanes of the same size.
template <class V>
struct IndexOf {
  using type = std::conditional_t<sizeof(V) == 4, int32_t, int64_t>;
};
template <class T>
struct IndexOf<Vec<T>> {
  using type = IntVec<T>;
};
template <class V>
using Index = typename IndexOf<V>::type;

template <class V>
struct ScalarOfType {
  using type = V;
};
template <class T>
struct ScalarOfType<Vec<T>> {
  using type = T;
};
template <class V>
using ScalarOf = typename ScalarOfType<V>::type;

template <class V>
V squared(V x) {
  if constexpr (kIsCplx<V>) {
    return V(x.re * x.re + x.im * x.im);
  } else {
    return x * x;
  }
}

// The order is real, also where x is complex.
template <class V>
V power(V x, V p) {
  if constexpr (kIsCplx<V>) {
    return V(__builtin_pow(x.re, p.re));
  } else {
    return pow(x, p);
  }
}

template <class A, class B>
struct Two {
  A first;
  B second;
};

// Where a block lies and what pivot it used.
template <class L>
struct Block {
  int64_t begin, count;
  L c;
};

// One running value: combine(value, map(x)). Self gives first<T>() and combine.
template <class Self, int kinds>
struct Folding {
  using Loop = Self;
  static constexpr int takes = kinds;
  static constexpr bool uses_c = false, reads_halves = false;
  template <class T>
  using Lane = LaneOf<T>;
  template <class T>
  using Out = T;
  template <class L>
  using Wide = WideOf<L>;
  template <class V>
  struct State {
    V value;
  };
  template <class L>
  struct Total {
    typename Self::template Wide<L> value = Self::template first<typename Self::template Wide<L>>();
  };
  template <class V>
  static V map(V x, V) {
    return x;
  }
  template <class V>
  static State<V> start() {
    return {V(Self::template first<ScalarOf<V>>())};
  }
  template <class V>
  static void step(State<V>& s, V x, V c, Index<V>) {
    s.value = Self::combine(s.value, Self::map(x, c));
  }
  template <class V>
  static void merge(State<V>& a, const State<V>& b) {
    a.value = Self::combine(a.value, b.value);
  }
  template <class L>
  static void absorb(Total<L>& t, const State<L>& s, const Block<L>&) {
    using W = typename Self::template Wide<L>;
    if constexpr (std::is_same_v<W, L>) {
      t.value = Self::combine(t.value, s.value);
    } else {
      t.value = Self::combine(t.value, widened(s.value));
    }
  }
  template <class L>
  static void join(Total<L>& a, const Total<L>& b) {
    a.value = Self::combine(a.value, b.value);
  }
  template <class L>
  static auto finish(const Total<L>& t, int64_t, double) {
    return t.value;
  }
};

template <class Self, int kinds>
struct Adding : Folding<Self, kinds> {
  static constexpr bool reads_halves = true, adds = true;
  template <class T>
  using Lane = SumLaneOf<T>;
  template <class T>
  using Out = SumOut<T>;
  template <class T>
  static T first() {
    return T(0);
  }
  template <class V>
  static V combine(V a, V b) {
    return wrap_add(a, b);
  }
};

template <class T>
constexpr T lowest() {
  if constexpr (kIsCplx<T> || std::is_floating_point_v<T>) {
    return T(-__builtin_inf());
  } else {
    return std::is_signed_v<T> ? T(T(1) << (8 * sizeof(T) - 1)) : T(0);
  }
}
template <class T>
constexpr T highest() {
  if constexpr (kIsCplx<T> || std::is_floating_point_v<T>) {
    return T(__builtin_inf());
  } else {
    return T(~lowest<T>());
  }
}

// A NaN beats everything, and the first one stays.
struct Largest {
  template <class T>
  static constexpr T first() {
    return lowest<T>();
  }
  template <class V>
  static V combine(V a, V b) {
    if constexpr (requires { typename V::Lanes; }) {
      return max(a, b);
    } else {
      return a > b || a != a ? a : b;
    }
  }
  template <class V>
  static auto beats(V a, V b) {
    return !(a <= b) && b == b;
  }
};
struct Smallest {
  template <class T>
  static constexpr T first() {
    return highest<T>();
  }
  template <class V>
  static V combine(V a, V b) {
    if constexpr (requires { typename V::Lanes; }) {
      return min(a, b);
    } else {
      return a < b || a != a ? a : b;
    }
  }
  template <class V>
  static auto beats(V a, V b) {
    return !(a >= b) && b == b;
  }
};

template <class Self, int kinds, class Order>
struct Selecting : Folding<Self, kinds> {
  template <class L>
  using Wide = L;
  template <class T>
  static T first() {
    return Order::template first<T>();
  }
  template <class V>
  static V combine(V a, V b) {
    return Order::combine(a, b);
  }
};

// The extreme value and where it first stands.
template <class Self, class Order>
struct Finding {
  using Loop = Self;
  static constexpr int takes = kRealInput | kBoolInput;
  static constexpr bool uses_c = false, reads_halves = false;
  template <class T>
  using Lane = LaneOf<T>;
  template <class T>
  using Out = T;
  template <class T>
  using Out2 = int64_t;
  template <class V>
  struct State {
    V value;
    Index<V> at;
  };
  template <class L>
  struct Total {
    L value = Order::template first<L>();
    int64_t at = -1;
  };
  template <class V>
  static State<V> start() {
    return {V(Order::template first<ScalarOf<V>>()), Index<V>(0)};
  }
  template <class V>
  static void step(State<V>& s, V x, V, Index<V> at) {
    auto better = Order::beats(x, s.value);
    s.value = select(better, x, s.value);
    s.at = select(better, at, s.at);
  }
  template <class V>
  static void merge(State<V>& a, const State<V>& b) {
    auto same = a.value == b.value || (a.value != a.value && b.value != b.value);
    auto better = Order::beats(b.value, a.value) || (same && b.at < a.at);
    a.value = select(better, b.value, a.value);
    a.at = select(better, b.at, a.at);
  }
  // Blocks arrive in order, so a tie stays with the earlier one.
  template <class L>
  static void absorb(Total<L>& t, const State<L>& s, const Block<L>& block) {
    join(t, Total<L>{s.value, block.begin + s.at});
  }
  template <class L>
  static void join(Total<L>& a, const Total<L>& b) {
    if (b.at >= 0 && (a.at < 0 || Order::beats(b.value, a.value))) a = b;
  }
  template <class L>
  static Two<L, int64_t> finish(const Total<L>& t, int64_t, double) {
    return {t.value, t.at};
  }
};

// Sum of squares around the block's own mean, corrected by the sum of what is left (a mean in float
// is not exact). Blocks are joined by Chan, Golub & LeVeque 1979.
template <class Self, class Sum>
struct Spread {
  using Loop = Self;
  static constexpr int takes = kInexactInput;
  static constexpr bool uses_c = true, reads_halves = false;
  using Pivot = Sum;
  template <class T>
  using Lane = LaneOf<T>;
  template <class T>
  using Out = RealOf<T>;
  template <class T>
  using Out2 = T;
  template <class V>
  struct State {
    V squares, rest;
  };
  template <class L>
  struct Total {
    double n = 0, squares = 0;
    WideOf<L> mean = WideOf<L>(0);
  };
  template <class L>
  static L pivot(const typename Sum::template Total<L>& t, int64_t n) {
    auto mean = t.value / double(n);
    if constexpr (kIsCplx<L>) {
      return L(RealOf<L>(mean.re), RealOf<L>(mean.im));
    } else {
      return L(mean);
    }
  }
  template <class V>
  static State<V> start() {
    return {V(0), V(0)};
  }
  template <class V>
  static void step(State<V>& s, V x, V c, Index<V>) {
    V d = x - c;
    s.squares = s.squares + squared(d);
    s.rest = s.rest + d;
  }
  template <class V>
  static void merge(State<V>& a, const State<V>& b) {
    a.squares = a.squares + b.squares;
    a.rest = a.rest + b.rest;
  }
  template <class L>
  static void absorb(Total<L>& t, const State<L>& s, const Block<L>& block) {
    double n = double(block.count);
    WideOf<L> rest = widened(s.rest) / n;
    Total<L> more;
    more.n = n;
    more.mean = widened(block.c) + rest;
    more.squares = real_part(s.squares) - n * real_part(squared(rest));
    join(t, more);
  }
  template <class L>
  static void join(Total<L>& a, const Total<L>& b) {
    if (a.n == 0) {
      a = b;
    } else if (b.n != 0) {
      double n = a.n + b.n;
      WideOf<L> delta = b.mean - a.mean;
      a.mean = a.mean + delta * (b.n / n);
      a.squares += b.squares + real_part(squared(delta)) * (a.n * b.n / n);
      a.n = n;
    }
  }
  template <class L>
  static double variance(const Total<L>& t, double correction) {
    double freedom = t.n - correction;
    return t.squares / (freedom > 0 ? freedom : 0);
  }
  template <class L>
  static WideOf<L> mean(const Total<L>& t) {
    return t.n == 0 ? WideOf<L>(__builtin_nan("")) : t.mean;
  }
  template <class L>
  static double finish(const Total<L>& t, int64_t, double correction) {
    return variance(t, correction);
  }
};

}  // namespace flambeau::FL_ISA
