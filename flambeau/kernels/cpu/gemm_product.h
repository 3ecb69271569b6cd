// One product with typed pointers, and the pieces of the matrix product that live in files of their
// own.
#pragma once
#include "flambeau/kernels/cpu/gemm.h"
#include "flambeau/kernels/cpu/tile_kernel.h"

namespace flambeau::FL_ISA {

template <class S>
struct Product {
  int64_t m, n, k;
  const S* a;
  int64_t a_row, a_col;
  const S* b;
  int64_t b_row, b_col;
  S* c;
  int64_t c_row, c_col;
  double alpha, beta;
  const S* bias;
  int64_t bias_row, bias_col;
  bool relu;

  int64_t work() const { return m * n * k; }
};

// c^T = b^T a^T: turns a product with one column into one with one row.
template <class S>
inline Product<S> turned(const Product<S>& g) {
  return {g.n, g.m,     g.k,     g.b,     g.b_col, g.b_row, g.a,        g.a_col,    g.a_row,
          g.c, g.c_col, g.c_row, g.alpha, g.beta,  g.bias,  g.bias_col, g.bias_row, g.relu};
}

// Stores a finished sum, in the type it was summed in.
template <class T, class S>
inline void settle(const Product<S>& g, int64_t i, int64_t j, T sum) {
  S* c = g.c + i * g.c_row + j * g.c_col;
  T v = T(g.alpha) * sum;
  if (g.bias) v += widen_one(g.bias[i * g.bias_row + j * g.bias_col]);
  if (g.beta != 0) v += T(g.beta) * widen_one(*c);
  if (g.relu) v = v < T(0) ? T(0) : v;  // keeps NaN
  *c = narrow_one<S>(v);
}

// The same for a run of `count` sums along a row of c whose columns are adjacent.
template <class T, class S>
inline void settle_row(const Product<S>& g, int64_t i, int64_t j, int64_t count, const T* sums) {
  S* c = g.c + i * g.c_row + j;
  const S* bias = g.bias ? g.bias + i * g.bias_row + j : nullptr;
  for (int64_t s = 0; s < count; s += tile::kLanes<T>) {
    const int64_t lanes = tile::least(tile::kLanes<T>, count - s);
    const tile::EdgeMask<T> mask(lanes);
    tile::Vector<T> v = T(g.alpha) * tile::load(sums + s, mask);
    if (bias) v += tile::load(bias + s, mask, lanes);
    if (g.beta != 0) v += T(g.beta) * tile::load(c + s, mask, lanes);
    if (g.relu) v = v < T(0) ? tile::Vector<T>{} : v;
    if (lanes == tile::kLanes<T>) {
      tile::store(c + s, v);
    } else {
      store_narrow(c + s, Vec<T>(v), lanes);
    }
  }
}

// Items that a chunk of about 256k multiply-adds spans: enough to pay for a
// hand-over.
inline int64_t grain_of(int64_t work_per_item) {
  constexpr int64_t kChunk = 1 << 18;
  return work_per_item >= kChunk ? 1 : kChunk / (work_per_item > 0 ? work_per_item : 1);
}

// Few rows times a matrix, memory bound: gemm_vector.cpp. True if the strides suited one of its
// loops.
bool multiply_rows(const Product<float>& g);
bool multiply_rows(const Product<double>& g);
bool multiply_rows(const Product<Half>& g);
bool multiply_rows(const Product<BFloat16>& g);

// By instructions for pairs of bfloat16: gemm_pairs.cpp. True if the processor has some and the
// size deserves them.
bool multiply_pairs(const Product<BFloat16>& g);
bool multiply_pairs(const Product<float>& g);

// Types without a register tile of their own: gemm_other.cpp.
void gemm_integer(const GemmArgs& g);
void gemm_complex(const GemmArgs& g);

}  // namespace flambeau::FL_ISA
