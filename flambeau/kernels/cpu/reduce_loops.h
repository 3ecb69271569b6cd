// The compiled loops of one body on one type behind plain function pointers, so that walking a
// tensor is written and compiled once (reduce.cpp) and not once per reduction and type.
#pragma once
#include "flambeau/kernels/cpu/reduce_fold.h"

namespace flambeau::FL_ISA {

inline constexpr int64_t kTileBytes =
    4096;  // one row of a tile of columns: wide, for the prefetchers
inline constexpr int64_t kMaxTileCols = kTileBytes / 4;
inline constexpr int64_t kMaxTotal = 32;  // bytes of the largest Total

struct Loops {
  int lanes, tile_cols, total_size, element_size;
  bool two_passes;
  void (*clear)(void* totals, int64_t n);
  // Absorbs contiguous runs, `stride` elements apart: run k goes into totals[k]. The first elements
  // have position `begin`.
  void (*runs)(const void* x, int64_t stride, int64_t rows, int64_t begin, int64_t count, double p,
               void* totals);
  // Absorbs rows of a table: column k goes into totals[k]. The stride is in elements.
  void (*columns)(const void* x, int64_t stride, int64_t begin, int64_t rows, int64_t cols,
                  double p, void* totals);
  void (*join)(void* a, const void* b);
  // Whether nothing can change any of these totals; null where that is never known.
  bool (*done)(const void* totals, int64_t n);
};

template <class B>
concept TwoPasses = requires {
  typename B::Pivot;
};
template <class B, class L>
concept EndsEarly = requires(const TotalOf<B, L>& t) {
  B::template done<L>(t);
};

// B's loops on lanes L, read from elements S.
template <class B, class L, class S>
struct LoopsOf {
  using Total = TotalOf<B, L>;
  static constexpr int W = VecOf<L>::kLanes;
  static constexpr int kCols = int(kTileBytes / int64_t(sizeof(L)));
  static_assert(sizeof(Total) <= kMaxTotal);

  static void clear(void* totals, int64_t n) {
    for (int64_t k = 0; k < n; ++k) static_cast<Total*>(totals)[k] = Total{};
  }

  static void runs(const void* x, int64_t stride, int64_t rows, int64_t begin, int64_t count,
                   double p, void* totals) {
    const S* run = static_cast<const S*>(x);
    for (int64_t r = 0; r < rows; ++r, run += stride) {
      L c = L(p);
      if constexpr (TwoPasses<B>) {
        using P = typename B::Pivot;
        TotalOf<P, L> pivot;
        P::template absorb<L>(pivot, fold_run<P, L>(run, count, c), Block<L>{begin, count, c});
        c = B::template pivot<L>(pivot, count);
      }
      B::template absorb<L>(static_cast<Total*>(totals)[r], fold_run<B, L>(run, count, c),
                            Block<L>{begin, count, c});
    }
  }

  static void columns(const void* x, int64_t stride, int64_t begin, int64_t rows, int64_t cols,
                      double p, void* totals) {
    const S* table = static_cast<const S*>(x);
    [[maybe_unused]] L c[B::uses_c ? kCols : 1] = {};
    if constexpr (TwoPasses<B>) {
      using P = typename B::Pivot;
      StateOf<P, L> states[kCols / W];
      fold_columns<P, L>(table, stride, rows, cols, static_cast<const L*>(nullptr), states);
      for (int64_t k = 0; k < cols; ++k) {
        TotalOf<P, L> pivot;
        P::template absorb<L>(pivot, lane_item<P, L>(states[k / W], int(k % W)),
                              Block<L>{begin, rows, L(0)});
        c[k] = B::template pivot<L>(pivot, rows);
      }
    } else if constexpr (B::uses_c) {
      for (int64_t k = 0; k < cols; ++k) c[k] = L(p);
    }
    StateOf<B, L> states[kCols / W];
    fold_columns<B, L>(table, stride, rows, cols, B::uses_c ? c : nullptr, states);
    for (int64_t k = 0; k < cols; ++k) {
      Block<L> block{begin, rows, L(0)};
      if constexpr (B::uses_c) block.c = c[k];
      B::template absorb<L>(static_cast<Total*>(totals)[k],
                            lane_item<B, L>(states[k / W], int(k % W)), block);
    }
  }

  static void join(void* a, const void* b) {
    B::template join<L>(*static_cast<Total*>(a), *static_cast<const Total*>(b));
  }

  static bool done(const void* totals, int64_t n) {
    if constexpr (EndsEarly<B, L>) {
      for (int64_t k = 0; k < n; ++k) {
        if (!B::template done<L>(static_cast<const Total*>(totals)[k])) return false;
      }
      return true;
    }
    return false;
  }

  static constexpr Loops value = {
      W,     kCols, sizeof(Total), sizeof(S), TwoPasses<B>,
      clear, runs,  columns,       join,      EndsEarly<B, L> ? done : nullptr};
};

}  // namespace flambeau::FL_ISA
