// What the normalisations share: mean and 1 / sqrt(variance) of a row, sums over rows cut by size,
// optional parameters.
#pragma once
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/rows.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {

inline constexpr int64_t kNormGrain = 1 << 14;  // elements a thread should get at least

struct Moments {
  double mean, var;
};

// One pass around the first element. Where that lies far from the mean the difference of two large
// sums would be rough: then a second pass, around the mean of the first. `add(acc, f)` runs an
// accumulator over all elements, f(sums, x, part).
template <class L, class Add>
[[gnu::always_inline]] inline Moments moments(int64_t n, L around, const Add& add) {
  for (bool again = false;; again = true) {
    Vec<L> c = around;
    Accumulator<L, 2> acc;
    add(acc, [c](Vec<L>* s, Vec<L> x, auto part) {
      Vec<L> d = kept(x - c, part);
      s[0] = s[0] + d;
      s[1] = fma(d, d, s[1]);
    });
    acc.flush();
    double rest = acc.total.v[0] / double(n), var = acc.total.v[1] / double(n) - rest * rest;
    if (FL_LIKELY(rest * rest <= 8 * var) || again)
      return {double(around) + rest, var < 0 ? 0 : var};
    around = L(double(around) + rest);
  }
}

inline double reciprocal_root(double x) { return 1 / __builtin_sqrt(x); }

// A parameter that may be absent.
template <class P, class Part>
Vec<ComputeOf<P>> load_or(const P* p, int64_t i, Part part, double otherwise) {
  return p ? load(p + i, part) : Vec<ComputeOf<P>>(otherwise);
}
template <class P>
ComputeOf<P> value_or(const P* p, int64_t i, double otherwise) {
  return p ? widen_one(p[i]) : ComputeOf<P>(otherwise);
}

// Two sums over `rows` rows for every column: pieces of rows (a float sum gathers 512 of them at
// most) write to memory of their own, which is then added up in order. add(first_row, last_row,
// sum0, sum1); done(col, total0, total1).
template <class L, class Add, class Done>
void sum_rows(int64_t rows, int64_t cols, const Add& add, const Done& done) {
  int64_t piece = least(512, most(8, (1 << 16) / cols)), pieces = ceil_div(rows, piece);
  L* sums = static_cast<L*>(scratch(Scratch::Rows, size_t(pieces * 2 * cols) * sizeof(L)));
  parallel_for(pieces, 1, [&](int64_t p0, int64_t p1) {
    for (int64_t p = p0; p < p1; ++p) {
      L* mine = sums + p * 2 * cols;
      for (int64_t k = 0; k < 2 * cols; ++k) mine[k] = 0;
      add(p * piece, least(rows, (p + 1) * piece), mine, mine + cols);
    }
  });
  parallel_for(cols, most(64, (1 << 14) / most(1, pieces)), [&](int64_t c0, int64_t c1) {
    for (int64_t c = c0; c < c1; ++c) {
      double total0 = 0, total1 = 0;
      for (int64_t p = 0; p < pieces; ++p) {
        total0 += double(sums[p * 2 * cols + c]);
        total1 += double(sums[(p * 2 + 1) * cols + c]);
      }
      done(c, total0, total1);
    }
  });
}

}  // namespace flambeau::FL_ISA
