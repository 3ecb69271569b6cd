// What the files of linear algebra share.
#pragma once
#include <complex>

#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

template <class T>
T conjugate(T x) {
  return x;
}
template <class T>
std::complex<T> conjugate(std::complex<T> x) {
  return std::conj(x);
}

// At least two dims and a dtype that decompositions are made for.
void check_matrix(std::string_view op, const Tensor& a);
void check_square(std::string_view op, const Tensor& a);
// LinAlgError where a factorisation stopped: `info` holds 0 or the place, one for each matrix.
void check_info(std::string_view op, const Tensor& info, std::string_view what);

// Q c or Q^H c, with the reflections that Q is made of packed as geqrf does.
Tensor times_reflections(const Tensor& packed, const Tensor& tau, const Tensor& c, bool adjointly);

// The sizes of a with other numbers of rows and columns; without the last dims.
Ints with_matrix(const Tensor& a, int64_t rows, int64_t columns);
Ints batch_sizes(const Tensor& a, int64_t dropped = 2);
// The leading sizes that both broadcast to.
Ints common_batch(std::string_view op, const Tensor& a, const Tensor& b);
inline int64_t count_of(IntList sizes) { return numel_of(sizes); }

inline DType wide_of(DType t) { return is_complex(t) ? DType::Complex128 : DType::Float64; }
// Contiguous copies, the second in double precision.
inline Tensor copied(const Tensor& a, DType dtype) {
  Tensor copy = new_tensor(a.sizes(), dtype, a.device());
  copy_elements(copy, a);
  return copy;
}
inline Tensor contiguous_copy(const Tensor& a) { return copied(a, a.dtype()); }
inline Tensor widened(const Tensor& a) { return copied(a, wide_of(a.dtype())); }
// f(zero of double or of complex<double>).
template <class F>
void visit_wide(DType dtype, F&& f) {
  if (is_complex(dtype))
    f(std::complex<double>());
  else
    f(double());
}
// Iterations do not end well with infinities.
void check_finite(std::string_view op, const Tensor& a);
template <class T>
T* values(const Tensor& t) {
  return reinterpret_cast<T*>(t->data);
}

}  // namespace flambeau::ops
