// Elementwise iteration over strided operands: dims sorted, merged and cut into rows.
#pragma once
#include <algorithm>

#include "flambeau/core/tensor.h"
#include "flambeau/core/threadpool.h"

namespace flambeau {

inline constexpr int kMaxOperands = 8;      // result and inputs
inline constexpr int64_t kGrain = 1 << 15;  // elements per chunk: about 20 us of cheap work

// Where an operand starts and how many bytes one step in each dim is.
struct Operand {
  char* data;
  DType dtype;
  int64_t strides[kMaxDims];  // innermost first; 0 where it is broadcast
};

class Iteration {
 public:
  explicit Iteration(IntList sizes);
  void add(const Tensor& t);  // broadcast to the sizes; the first operand is the one written
  void plan();                // smallest strides innermost, then dims that join become one

  int count = 0;
  Operand operands[kMaxOperands];
  int64_t inner() const { return sizes_[0]; }
  int64_t next() const { return ndim_ > 1 ? sizes_[1] : 1; }  // size of the dim after the innermost

  // Calls row(addresses, n) for runs along the innermost dim, in parallel.
  template <class F>
  void for_rows(const F& row) const {
    int64_t outer = 1;
    for (int d = 1; d < ndim_; d++) outer *= sizes_[d];
    if (outer == 1) {
      parallel_for(inner(), kGrain, [&](int64_t begin, int64_t end) { call(row, 0, begin, end); });
      return;
    }
    int64_t rows = kGrain / inner();
    parallel_for(outer, rows > 0 ? rows : 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) call(row, i, 0, inner());
    });
  }

  // Calls block(addresses, rows, n) for up to `most` neighbours along the next dim at once, in
  // parallel.
  template <class F>
  void for_blocks(int64_t most, const F& block) const {
    int64_t blocks = (next() + most - 1) / most, outer = blocks;
    for (int d = 2; d < ndim_; d++) outer *= sizes_[d];
    int64_t grain = kGrain / (most * inner());
    parallel_for(outer, grain > 0 ? grain : 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        int64_t first = i % blocks * most, rows = std::min(most, next() - first);
        auto all = [&](char* const* at, int64_t n) { block(at, rows, n); };
        call(all, i / blocks * next() + first, 0, inner());
      }
    });
  }

 private:
  template <class F>
  void call(const F& row, int64_t index, int64_t begin, int64_t end) const {
    char* at[kMaxOperands];
    for (int k = 0; k < count; k++) {
      int64_t rest = index, offset = begin * operands[k].strides[0];
      for (int d = 1; d < ndim_; d++) {
        offset += rest % sizes_[d] * operands[k].strides[d];
        rest /= sizes_[d];
      }
      at[k] = operands[k].data + offset;
    }
    row(at, end - begin);
  }
  bool comes_before(int a, int b) const;

  int ndim_;
  int64_t sizes_[kMaxDims];  // innermost first
};

}  // namespace flambeau
