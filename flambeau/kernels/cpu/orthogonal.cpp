// QR by blocks of reflections: few columns at a time are reflected one by one, all others by matrix
// products. Source: Schreiber and Van Loan 1989.
#include "flambeau/kernels/cpu/orthogonal.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/reflections.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/cpu/spectrum.h"

namespace flambeau::FL_ISA {
namespace {

template <class T>
void qr_one(T* a, T* tau, T* q, int64_t m, int64_t n, int64_t columns) {
  const int64_t k = least(m, n);
  const size_t elements = Reflections<T>::elements(m, k);
  T* memory = static_cast<T*>(scratch(
      Scratch::Reflectors, sizeof(T) * (elements + Reflections<T>::room(most(n, columns)))));
  Reflections<T> all(memory, m, k);
  T* room = memory + elements;
  reflect_columns(a, n, all, tau, room);
  if (!q) return;
  set_identity(q, m, columns);
  all.apply_all(q, columns, columns, /*adjoint=*/false, /*identity=*/true, room);
}

}  // namespace

void qr_matrices(DType dtype, void* a, void* tau, void* q, int64_t batch, int64_t m, int64_t n,
                 int64_t columns) {
  const int64_t k = least(m, n);
  visit_inexact(dtype, [&](auto zero) {
    using T = decltype(zero);
    T *all_a = static_cast<T*>(a), *all_tau = static_cast<T*>(tau), *all_q = static_cast<T*>(q);
    parallel_for(batch, grain_of(4 * m * n * k), [=](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; b++)
        qr_one(all_a + b * m * n, all_tau + b * k, all_q ? all_q + b * m * columns : nullptr, m, n,
               columns);
    });
  });
}

}  // namespace flambeau::FL_ISA
