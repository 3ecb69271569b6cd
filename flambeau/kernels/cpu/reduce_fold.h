// The inner loops of every reduction: a contiguous run into one result, and rows of a table into a
// result per column.
#pragma once
#include "flambeau/kernels/reduce.h"

namespace flambeau::FL_ISA {

// States are handled as bundles of registers where only lanes matter, not what they mean.
template <class S>
inline constexpr int kRegisters = int(sizeof(S) / kVecBytes);
template <class S>
struct Bundle {
  Raw<int32_t> r[kRegisters<S>];
};

// Lane i of every register moves to lane i - by.
template <class L, class S>
S rotate_lanes(const S& s, int by) {
  constexpr int words = kVecBytes / 4, step = sizeof(L) / 4;
  auto bundle = __builtin_bit_cast(Bundle<S>, s);
  Raw<int32_t> from;
  for (int i = 0; i < words; ++i) from[i] = (i + by * step) % words;
  for (auto& r : bundle.r) r = __builtin_shuffle(r, from);
  return __builtin_bit_cast(S, bundle);
}

// The first n lanes of a, the others of b.
template <class L, class S>
S first_lanes_of(const S& a, const S& b, int64_t n) {
  constexpr int words = kVecBytes / 4, step = sizeof(L) / 4;
  auto x = __builtin_bit_cast(Bundle<S>, a), y = __builtin_bit_cast(Bundle<S>, b);
  Raw<int32_t> place;
  for (int i = 0; i < words; ++i) place[i] = i;
  Raw<int32_t> taken = place < int32_t(n * step);
  for (int k = 0; k < kRegisters<S>; ++k) x.r[k] = taken ? x.r[k] : y.r[k];
  return __builtin_bit_cast(S, x);
}

template <class B, class L>
using StateOf = typename B::template State<VecOf<L>>;
template <class B, class L>
using ItemOf = typename B::template State<L>;
template <class B, class L>
using TotalOf = typename B::template Total<L>;

// One lane of a state in memory.
template <class B, class L>
ItemOf<B, L> lane_item(const StateOf<B, L>& s, int lane) {
  ItemOf<B, L> item;
  for (size_t k = 0; k < sizeof(item) / sizeof(L); ++k) {
    __builtin_memcpy((char*)&item + k * sizeof(L),
                     (const char*)&s + (k * VecOf<L>::kLanes + size_t(lane)) * sizeof(L),
                     sizeof(L));
  }
  return item;
}

template <class L>
Index<VecOf<L>> lane_numbers() {
  Index<VecOf<L>> at(0);
  if constexpr (!kIsCplx<L>) {
    for (int i = 0; i < VecOf<L>::kLanes; ++i) at.v[i] = i;
  }
  return at;
}

template <class B, class L>
concept AddsFloats = requires {
  B::adds;
}
&&std::is_floating_point_v<L>;

// The sum of a run of floats: four groups of 32 bytes whatever the registers hold, gathered after
// 16 steps. That is PyTorch's order, so that runs of up to 32 KiB have the same bits as there, and
// on AVX2 as on AVX-512.
template <class B, class L>
struct RunSum {
  static constexpr int kGroup = 32 / int(sizeof(L)), kGroups = 4, kStep = kGroups * kGroup;
  static constexpr int64_t kWidth = Vec<L>::kLanes, kGathered = 16;
  static constexpr int kVectors = kStep / int(kWidth);
  typedef L Group [[gnu::vector_size(32)]];
  struct Groups {
    Group v[kGroups];
  };
  struct Sums {
    Vec<L> v[kVectors];
  };

  template <class T>
  static L of(const T* x, int64_t n, Vec<L> c) {
    if (n < kGroup) return few(x, n, c);
    Sums sums = {};
    int64_t i = 0;
    while (i + kStep <= n) i += add_steps(sums, x + i, least((n - i) / kStep, kGathered), c);
    auto groups = __builtin_bit_cast(Groups, sums);
    L total = 0;
    if (i < n) add_rest(groups.v[0], total, x + i, n - i, c);
#pragma GCC unroll 4
    for (int g = 1; g < kGroups; ++g) groups.v[0] += groups.v[g];
#pragma GCC unroll 8
    for (int k = 0; k < kGroup; ++k) total += groups.v[0][k];
    return total;
  }

  template <class T>
  static int64_t add_steps(Sums& sums, const T* x, int64_t steps, Vec<L> c) {
    Sums near = {};
    for (int64_t s = 0; s < steps; ++s) {
#pragma GCC unroll 8
      for (int k = 0; k < kVectors; ++k) {
        near.v[k] = near.v[k] + B::map(load_lanes<L>(x + s * kStep + k * kWidth), c);
      }
    }
#pragma GCC unroll 8
    for (int k = 0; k < kVectors; ++k) sums.v[k] = sums.v[k] + near.v[k];
    return steps * kStep;
  }

  // The first n of a group; where n is less, the others count for nothing.
  template <class T>
  static Group group(const T* x, int64_t n, Vec<L> c) {
    if constexpr (kWidth < kGroup) {
      L lanes[kGroup] = {};
      for (int64_t i = 0; i < n; i += kWidth) {
        B::map(load_lanes<L>(x + i, least(n - i, kWidth)), c).store(lanes + i);
      }
      return __builtin_bit_cast(Group, lanes);
    } else {
      struct Parts {
        Group v[kWidth / kGroup];
      };
      return __builtin_bit_cast(Parts, B::map(load_lanes<L>(x, n), c)).v[0];
    }
  }

  // Less than a step: whole groups join the first one, single elements start the total.
  template <class T>
  static void add_rest(Group& first, L& total, const T* x, int64_t n, Vec<L> c) {
    for (; n >= kGroup; x += kGroup, n -= kGroup) first += group(x, kGroup, c);
    if (n == 0) return;
    const Group rest = group(x, n, c);
    for (int64_t i = 0; i < n; ++i) total += rest[i];
  }

  // Less than a group.
  template <class T>
  static L few(const T* x, int64_t n, Vec<L> c) {
    const Group lanes = group(x, n, c);
    L total = 0;
    if (n > 0) total += lanes[0];
    for (int64_t i = kGroups; i < n; ++i) total += lanes[i];
    for (int64_t i = 1; i < least(n, kGroups); ++i) total += lanes[i];
    return total;
  }
};

// A contiguous run as one item. Four chains hide the latency of the step.
template <class B, class L, class T>
[[gnu::flatten]] ItemOf<B, L> fold_run(const T* x, int64_t n, L c_scalar) {
  if constexpr (AddsFloats<B, L>) return {RunSum<B, L>::of(x, n, Vec<L>(c_scalar))};
  using V = VecOf<L>;
  constexpr int W = V::kLanes;
  V c(c_scalar);
  auto s0 = B::template start<V>(), s1 = s0, s2 = s0, s3 = s0;
  auto at = lane_numbers<L>();
  using I = decltype(at);
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    B::step(s0, load_lanes<L>(x + i), c, at);
    B::step(s1, load_lanes<L>(x + i + W), c, at + I(W));
    B::step(s2, load_lanes<L>(x + i + 2 * W), c, at + I(2 * W));
    B::step(s3, load_lanes<L>(x + i + 3 * W), c, at + I(3 * W));
    at = at + I(4 * W);
  }
  if (i > 0) {
    B::merge(s0, s1);
    B::merge(s2, s3);
    B::merge(s0, s2);
  }
  for (; i + W <= n; i += W) {
    B::step(s0, load_lanes<L>(x + i), c, at);
    at = at + I(W);
  }
  if constexpr (W > 1) {
    if (i < n) {
      auto stepped = s0;
      B::step(stepped, load_lanes<L>(x + i, n - i), c, at);
      s0 = first_lanes_of<L>(stepped, s0, n - i);
    }
#pragma GCC unroll 8
    for (int half = W / 2; half > 0; half /= 2) B::merge(s0, rotate_lanes<L>(s0, half));
  }
  return lane_item<B, L>(s0, 0);
}

// `rows` rows of `cols` columns into states of one register per W columns. `row_stride` is in
// elements; c has a value per column, or is null. The states stay in the first cache; four rows a
// sweep spare most of their loads and stores.
template <class B, class L, class T>
[[gnu::flatten]] void fold_columns(const T* x, int64_t row_stride, int64_t rows, int64_t cols,
                                   const L* c, StateOf<B, L>* states) {
  using V = VecOf<L>;
  using I = Index<V>;
  constexpr int W = V::kLanes;
  int64_t full = cols / W, tail = cols % W;
  for (int64_t v = 0; v < full + (tail > 0); ++v) states[v] = B::template start<V>();
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* row = x + r * row_stride;
    I at(r);
    for (int64_t v = 0; v < full; ++v, row += W) {
      auto s = states[v];
      V cv = c ? V::load(c + v * W) : V(0);
      B::step(s, load_lanes<L>(row), cv, at);
      B::step(s, load_lanes<L>(row + row_stride), cv, at + I(1));
      B::step(s, load_lanes<L>(row + 2 * row_stride), cv, at + I(2));
      B::step(s, load_lanes<L>(row + 3 * row_stride), cv, at + I(3));
      states[v] = s;
    }
    if (tail) {
      V cv = c ? V::load_partial(c + full * W, tail) : V(0);
      for (int k = 0; k < 4; ++k) {
        B::step(states[full], load_lanes<L>(row + k * row_stride, tail), cv, at + I(k));
      }
    }
  }
  for (; r < rows; ++r) {
    const T* row = x + r * row_stride;
    for (int64_t v = 0; v < full; ++v, row += W) {
      B::step(states[v], load_lanes<L>(row), c ? V::load(c + v * W) : V(0), I(r));
    }
    if (tail) {
      V cv = c ? V::load_partial(c + full * W, tail) : V(0);
      B::step(states[full], load_lanes<L>(row, tail), cv, I(r));
    }
  }
}

}  // namespace flambeau::FL_ISA
