// Planning of elementwise iterations.
#include "flambeau/ops/iteration.h"

namespace flambeau {

Iteration::Iteration(IntList sizes) : ndim_(int(sizes.size())) {
  for (int d = 0; d < ndim_; d++) sizes_[d] = sizes[size_t(ndim_ - 1 - d)];
}

void Iteration::add(const Tensor& t) {
  Operand& o = operands[count++];
  o.data = t->data;
  o.dtype = t.dtype();
  for (int d = 0; d < ndim_; d++) {
    int from = int(t->ndim) - 1 - d;
    o.strides[d] = from < 0 || t->sizes[from] == 1 ? 0 : t->strides[from] * itemsize(t.dtype());
  }
}

// By the strides of the result, ties by the first input that tells.
bool Iteration::comes_before(int a, int b) const {
  for (int k = 0; k < count; k++) {
    int64_t x = operands[k].strides[a], y = operands[k].strides[b];
    if (x != y && x && y) return x < y;
  }
  return false;
}

void Iteration::plan() {
  for (int i = 1; i < ndim_; i++) {
    for (int j = i; j > 0 && comes_before(j, j - 1); j--) {
      std::swap(sizes_[j], sizes_[j - 1]);
      for (int k = 0; k < count; k++) std::swap(operands[k].strides[j], operands[k].strides[j - 1]);
    }
  }
  int kept = 0;
  for (int d = 0; d < ndim_; d++) {
    if (sizes_[d] == 1) continue;
    bool joins = kept > 0;
    for (int k = 0; k < count && joins; k++) {
      const int64_t* s = operands[k].strides;
      joins = s[kept - 1] * sizes_[kept - 1] == s[d];
    }
    if (joins) {
      sizes_[kept - 1] *= sizes_[d];
      continue;
    }
    sizes_[kept] = sizes_[d];
    for (int k = 0; k < count; k++) operands[k].strides[kept] = operands[k].strides[d];
    kept++;
  }
  if (kept == 0) {
    sizes_[0] = 1;
    for (int k = 0; k < count; k++) operands[k].strides[0] = 0;
    kept = 1;
  }
  ndim_ = kept;
}

}  // namespace flambeau
