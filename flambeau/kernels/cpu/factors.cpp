// Recursive factorisations: halves, a triangular solution, and the matrix product that does nearly
// all of the work. Sources: Toledo 1997 (LU), Gustavson 1997 (Cholesky and triangular systems).
#include "flambeau/kernels/cpu/factors.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/lines.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace {

// Columns that are factored one by one, and orders of systems solved row by row.
constexpr int64_t kPanel = 16, kSystem = 32;
// Right sides that are solved together, whatever the number of threads.
constexpr int64_t kTogether = 256;

// About half of n, in whole blocks.
int64_t half_of(int64_t n, int64_t block) { return ceil_div(ceil_div(n, block), 2) * block; }

template <class F>
void each_matrix(int64_t batch, int64_t work, const F& f) {
  parallel_for(batch, grain_of(work), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) f(b);
  });
}

// ---- triangular systems ----

template <class T>
void solve_row_by_row(const T* a, int64_t a_row, int64_t n, T* x, int64_t x_row, int64_t k,
                      bool upper, bool unit) {
  for (int64_t step = 0; step < n; step++) {
    const int64_t i = upper ? n - 1 - step : step, first = upper ? i + 1 : 0;
    subtract_rows(x + i * x_row, k, a + i * a_row + first, 1, x + first * x_row, x_row, step);
    if (!unit) divide_row(x + i * x_row, k, a[i * a_row + i]);
  }
}

// One right side: dot products along the rows of a.
template <class T>
void solve_vector(const T* a, int64_t a_row, int64_t n, T* x, int64_t x_row, bool upper,
                  bool unit) {
  T packed[kSystem];
  for (int64_t i = 0; i < n; i++) packed[i] = conj(x[i * x_row]);
  for (int64_t step = 0; step < n; step++) {
    const int64_t i = upper ? n - 1 - step : step, first = upper ? i + 1 : 0;
    T dot(0);
    if (step) dot_rows(packed + first, 0, 1, a + i * a_row + first, step, &dot);
    T rest = conj(packed[i]) - dot;
    if (!unit) rest = rest / a[i * a_row + i];
    packed[i] = conj(rest);
    x[i * x_row] = rest;
  }
}

template <class T>
void solve(const T* a, int64_t a_row, int64_t n, T* x, int64_t x_row, int64_t k, bool upper,
           bool unit) {
  if (n <= kSystem) {
    if (k == 1) return solve_vector(a, a_row, n, x, x_row, upper, unit);
    return solve_row_by_row(a, a_row, n, x, x_row, k, upper, unit);
  }
  const int64_t half = half_of(n, kSystem), rest = n - half;
  const T* corner = a + half * (a_row + 1);
  T* below = x + half * x_row;
  if (upper) {
    solve(corner, a_row, rest, below, x_row, k, upper, unit);
    subtract_product(x, x_row, half, k, rest, a + half, a_row, below, x_row);
    solve(a, a_row, half, x, x_row, k, upper, unit);
  } else {
    solve(a, a_row, half, x, x_row, k, upper, unit);
    subtract_product(below, x_row, rest, k, half, a + half * a_row, a_row, x, x_row);
    solve(corner, a_row, rest, below, x_row, k, upper, unit);
  }
}

template <class T>
void solve_together(const T* a, int64_t a_row, int64_t n, T* x, int64_t x_row, int64_t k,
                    bool upper, bool unit) {
  parallel_for(ceil_div(k, kTogether), 1, [=](int64_t begin, int64_t end) {
    for (int64_t c = begin * kTogether; c < least(k, end * kTogether); c += kTogether)
      solve(a, a_row, n, x + c, x_row, least(kTogether, k - c), upper, unit);
  });
}

// ---- LU ----

template <class T>
void exchange(T* x, int64_t x_row, int64_t count, const int32_t* pivots, int64_t rows) {
  for (int64_t i = 0; i < rows && count; i++)
    if (pivots[i] != i + 1) swap_rows(x + i * x_row, x + (pivots[i] - 1) * x_row, count);
}

// Few columns (at most kPanel), turned so that each is one line.
template <class T>
int32_t factor_panel(T* a, int64_t a_row, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  T* turned = static_cast<T*>(scratch(Scratch::Panel, sizeof(T) * size_t(m * n)));
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) turned[j * m + i] = a[i * a_row + j];
  int32_t info = 0;
  for (int64_t k = 0; k < least(m, n); k++) {
    T* column = turned + k * m;
    int64_t best = k;
    RealOf<T> most_found = size_of(column[k]);
    for (int64_t i = k + 1; pivot && i < m; i++)
      if (size_of(column[i]) > most_found) best = i, most_found = size_of(column[i]);
    pivots[k] = int32_t(best + 1);
    for (int64_t j = 0; best != k && j < n; j++) {
      const T other = turned[j * m + best];
      turned[j * m + best] = turned[j * m + k];
      turned[j * m + k] = other;
    }
    if (column[k] == T(0)) {
      if (!info) info = int32_t(k + 1);
      continue;
    }
    divide_row(column + k + 1, m - k - 1, column[k]);
    subtract_from_rows(column + m + k + 1, m, n - k - 1, column + m + k, m, column + k + 1,
                       m - k - 1);
  }
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) a[i * a_row + j] = turned[j * m + i];
  return info;
}

template <class T>
int32_t factor_lu(T* a, int64_t a_row, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  if (n <= kPanel) return factor_panel(a, a_row, m, n, pivots, pivot);
  const int64_t left = n > m ? least(m, n - 1) : half_of(n, kPanel), right = n - left;
  const int64_t top = least(m, left);
  int32_t info = factor_lu(a, a_row, m, left, pivots, pivot);
  exchange(a + left, a_row, right, pivots, top);
  solve_together(a, a_row, top, a + left, a_row, right, /*upper=*/false, /*unit=*/true);
  if (m <= top) return info;
  T *below = a + top * a_row, *corner = below + left;
  subtract_product(corner, a_row, m - top, right, top, below, a_row, a + left, a_row);
  int32_t more = factor_lu(corner, a_row, m - top, right, pivots + top, pivot);
  const int64_t rest = least(m - top, right);
  exchange(below, a_row, left, pivots + top, rest);
  for (int64_t i = 0; i < rest; i++) pivots[top + i] += int32_t(top);
  return info ? info : more ? int32_t(more + top) : 0;
}

// ---- Cholesky ----

// The upper triangle of a becomes U with A = U^H U, the lower one U^H: rows of both are lines.
template <class T>
int32_t factor_small_cholesky(T* a, int64_t a_row, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    T* row = a + k * a_row;
    subtract_rows(row + k, n - k, row, 1, a + k, a_row, k);
    const RealOf<T> rest = real_part(row[k]);
    if (!(rest > 0)) return int32_t(k + 1);
    const RealOf<T> root = RealOf<T>(__builtin_sqrt(double(rest)));
    row[k] = T(root);
    divide_row(reals(row + k + 1), (n - k - 1) * kReals<T>, root);
    for (int64_t i = k + 1; i < n; i++) a[i * a_row + k] = conj(row[i]);
  }
  return 0;
}

template <class T>
int32_t factor_cholesky(T* a, int64_t a_row, int64_t n) {
  if (n <= kSystem) return factor_small_cholesky(a, a_row, n);
  const int64_t half = half_of(n, kSystem), rest = n - half;
  if (int32_t info = factor_cholesky(a, a_row, half)) return info;
  T *right = a + half, *below = a + half * a_row, *corner = below + half;
  solve_together(a, a_row, half, right, a_row, rest, /*upper=*/false, /*unit=*/false);
  mirror(right, a_row, half, rest, below, a_row);
  // Only blocks that touch the upper triangle are needed.
  constexpr int64_t kBlock = 128;
  for (int64_t i = 0; i < rest; i += kBlock)
    subtract_product(corner + i * (a_row + 1), a_row, least(kBlock, rest - i), rest - i, half,
                     below + i * a_row, a_row, right + i, a_row);
  const int32_t info = factor_cholesky(corner, a_row, rest);
  return info ? int32_t(info + half) : 0;
}

template <class T>
int32_t cholesky_one(T* a, int64_t n, bool upper) {
  constexpr int64_t kBlock = 64;
  for (int64_t i = 0; i < n && !upper; i += kBlock) {
    const int64_t rows = least(kBlock, n - i);
    for (int64_t r = i; r < i + rows; r++)
      for (int64_t c = i; c < r; c++) a[c * n + r] = conj(a[r * n + c]);
    mirror(a + (i + rows) * n + i, n, n - i - rows, rows, a + i * n + i + rows, n);
  }
  const int32_t info = factor_cholesky(a, n, n);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = upper ? 0 : i + 1; j < (upper ? i : n); j++) a[i * n + j] = T(0);
  return info;
}

}  // namespace

void lu_matrices(DType dtype, void* a, int64_t batch, int64_t m, int64_t n, int32_t* pivots,
                 int32_t* info, bool pivot) {
  const int64_t k = least(m, n);
  visit_inexact(dtype, [&](auto zero) {
    using T = decltype(zero);
    each_matrix(batch, m * n * k, [=](int64_t b) {
      info[b] = k ? factor_lu(static_cast<T*>(a) + b * m * n, n, m, n, pivots + b * k, pivot) : 0;
    });
  });
}

void exchange_rows(DType dtype, void* x, int64_t batch, int64_t n, int64_t k,
                   const int32_t* pivots) {
  visit_inexact(dtype, [&](auto zero) {
    using T = decltype(zero);
    each_matrix(batch, n * k, [=](int64_t b) {
      exchange(static_cast<T*>(x) + b * n * k, k, k, pivots + b * n, n);
    });
  });
}

void triangular_matrices(DType dtype, const void* a, void* x, int64_t batch, int64_t n, int64_t k,
                         bool upper, bool unit) {
  visit_inexact(dtype, [&](auto zero) {
    using T = decltype(zero);
    each_matrix(batch, n * n * k, [=](int64_t b) {
      solve_together(static_cast<const T*>(a) + b * n * n, n, n, static_cast<T*>(x) + b * n * k, k,
                     k, upper, unit);
    });
  });
}

void cholesky_matrices(DType dtype, void* a, int64_t batch, int64_t n, bool upper, int32_t* info) {
  visit_inexact(dtype, [&](auto zero) {
    using T = decltype(zero);
    each_matrix(batch, n * n * n, [=](int64_t b) {
      info[b] = cholesky_one(static_cast<T*>(a) + b * n * n, n, upper);
    });
  });
}

}  // namespace flambeau::FL_ISA
