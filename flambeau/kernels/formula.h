// The names that formulas of the op table use, on SIMD registers and complex values. A literal
// stands for all lanes.
#pragma once
#include "flambeau/kernels/pointwise.h"

namespace flambeau::FL_ISA {

template <class S>
concept Literal = std::is_arithmetic_v<S>;

template <class M, class V>
requires(!Literal<V>) V where(M mask, V a, V b) { return select(mask, a, b); }
template <class M, class V, Literal S>
requires(!Literal<V>) V where(M mask, V a, S b) { return select(mask, a, V(b)); }
template <class M, class V, Literal S>
requires(!Literal<V>) V where(M mask, S a, V b) { return select(mask, V(a), b); }
template <class V>
V maximum(V a, V b) {
  return max(a, b);
}
template <class V, Literal S>
V maximum(V a, S b) {
  return max(a, V(b));
}
template <class V>
V minimum(V a, V b) {
  return min(a, b);
}
template <class V, Literal S>
V minimum(V a, S b) {
  return min(a, V(b));
}
template <class V>
V _depends(V a, V) {
  return a;
}
template <class V>
V sgn(V a) {
  return Sgn()(a);
}
template <class V>
V square(V a) {
  return a * a;
}

}  // namespace flambeau::FL_ISA
