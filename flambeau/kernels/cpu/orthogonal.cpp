// QR by blocks of reflections: few columns at a time are reflected one by one, all others by matrix
// products. Source: Schreiber and Van Loan 1989.
#include "flambeau/kernels/cpu/orthogonal.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/reflections.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace {

// Columns first.. of a, turned into rows of v, become reflections; what is left of R goes back.
template <class T>
void reflect_panel(T* a, int64_t n, Reflections<T>& all, int64_t first, T* tau) {
  const int64_t m = all.m, w = all.width(first);
  T* v = all.v;
  for (int64_t i = first; i < m; i++)
    for (int64_t j = first; j < first + w; j++) v[j * m + i] = a[i * n + j];
  T dots[kBlockReflections];
  for (int64_t k = first; k < first + w; k++) {
    T *x = v + k * m + k, *next = x + m;
    const int64_t rest = first + w - k - 1, length = m - k;
    tau[k] = reflect(x, length);
    const T beta = x[0];
    x[0] = T(1);
    dot_rows(next, m, rest, x, length, dots);
    for (int64_t j = 0; j < rest; j++) dots[j] = conj(tau[k] * dots[j]);
    subtract_from_rows(next, m, rest, dots, 1, x, length);
    x[0] = beta;
  }
  for (int64_t i = first; i < m; i++)
    for (int64_t j = first; j < first + w; j++) a[i * n + j] = v[j * m + i];
  all.close(first, tau + first);
}

template <class T>
void qr_one(T* a, T* tau, T* q, int64_t m, int64_t n, int64_t columns) {
  const int64_t k = least(m, n);
  const size_t elements = Reflections<T>::elements(m, k);
  T* memory = static_cast<T*>(scratch(
      Scratch::Reflectors, sizeof(T) * (elements + Reflections<T>::room(most(n, columns)))));
  Reflections<T> all(memory, m, k);
  T* room = memory + elements;
  for (int64_t first = 0; first < k; first += kBlockReflections) {
    reflect_panel(a, n, all, first, tau);
    const int64_t next = first + all.width(first);
    all.apply(first, a + next, n, n - next, /*adjoint=*/true, room);
  }
  if (!q) return;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < columns; j++) q[i * columns + j] = T(i == j);
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
