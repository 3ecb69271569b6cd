// Householder reflections I - tau v v^H, one by one and in blocks I - V T V^H. Source: Schreiber
// and Van Loan 1989 (the compact WY form); signs as in LAPACK.
#pragma once
#include "flambeau/kernels/cpu/lines.h"

namespace flambeau::FL_ISA {

// The Euclidean length, also of numbers whose squares overflow or vanish.
template <class T>
double length_of(const T* x, int64_t count) {
  T sum(0);
  if (count > 0) dot_rows(x, 0, 1, x, count, &sum);
  const double square = double(real_part(sum));
  constexpr double kLow = sizeof(RealOf<T>) == 4 ? 1e-28 : 1e-280, kHigh = 1 / kLow;
  if (square > kLow && square < kHigh) return __builtin_sqrt(square);
  const RealOf<T>* part = reals(x);
  double largest = 0, rest = 0;
  for (int64_t i = 0; i < count * kReals<T>; i++) {
    const double size = __builtin_fabs(double(part[i]));
    if (!(size <= largest)) largest = size;
  }
  if (!(largest > 0) || largest > 1e308) return largest;  // zeros, an infinity or NaN
  for (int64_t i = 0; i < count * kReals<T>; i++) {
    const double scaled = double(part[i]) / largest;
    rest += scaled * scaled;
  }
  return largest * __builtin_sqrt(rest);
}

// Makes v of x, its first element understood to be 1, and gives tau: I - conj(tau) v v^H maps x to
// beta e1 with a real beta, which stands in x[0].
template <class T>
T reflect(T* x, int64_t count) {
  using R = RealOf<T>;
  const double below = length_of(x + 1, count - 1);
  const double re = double(real_part(x[0])), im = double(imaginary_part(x[0]));
  if (below == 0 && im == 0) return T(0);
  const double length = __builtin_hypot(__builtin_hypot(re, im), below);
  const T beta = T(R(-__builtin_copysign(length, re)));  // away from x[0]: nothing cancels
  const T tau = (beta - x[0]) / beta;
  divide_row(x + 1, count - 1, x[0] - beta);
  x[0] = beta;
  return tau;
}

inline constexpr int64_t kBlockReflections = 32;

// `count` reflections of length m, the k-th with its 1 in place k and zeros before, as rows.
template <class T>
struct Reflections {
  static constexpr int64_t kBlock = kBlockReflections;
  int64_t m, count;
  T *v, *t, *v_conj, *t_conj;  // row j of a block's t is column j of its T; conjugates

  // What a set needs, and what applying it to `columns` columns does.
  static size_t elements(int64_t m, int64_t count) {
    return size_t((kReals<T> > 1 ? 2 : 1) * (count * m + count * kBlock));
  }
  static size_t room(int64_t columns) { return size_t(2 * kBlock * columns); }

  Reflections(T* memory, int64_t length, int64_t how_many) : m(length), count(how_many) {
    v = v_conj = memory;
    t = t_conj = v + count * m;
    if (kReals<T> == 1) return;
    v_conj = t + count * kBlock;
    t_conj = v_conj + count * m;
  }
  int64_t width(int64_t first) const { return least(kBlock, count - first); }

  // Once rows first.. of v are there: clears what lies before their ones and makes T.
  void close(int64_t first, const T* tau) {
    const int64_t w = width(first);
    T* rows = v + first * m;
    T products[kBlock];
    for (int64_t j = 0; j < w; j++) {
      T *row = rows + j * m, *to = t + (first + j) * kBlock;
      for (int64_t i = first; i < first + j; i++) row[i] = T(0);
      row[first + j] = T(1);
      for (int64_t i = 0; i < kBlock; i++) to[i] = T(0);
      to[j] = tau[j];
      const int64_t from = first + j;  // before it v[j] is zero
      dot_rows(rows + from, m, j, row + from, m - from, products);
      for (int64_t i = 0; i < j; i++) products[i] = products[i] * tau[j];
      subtract_rows(to, j, products, 1, t + first * kBlock, kBlock, j);
    }
    if (kReals<T> == 1) return;
    for (int64_t j = first; j < first + w; j++) {
      for (int64_t i = first; i < m; i++) v_conj[j * m + i] = conj(v[j * m + i]);
      for (int64_t i = 0; i < kBlock; i++) t_conj[j * kBlock + i] = conj(t[j * kBlock + i]);
    }
  }

  // Rows `first`.. of c (m rows) times the block that begins there, or times its adjoint.
  void apply(int64_t first, T* c, int64_t c_row, int64_t columns, bool adjoint, T* memory) const {
    if (columns <= 0) return;
    const int64_t w = width(first), rows = m - first, at = first * m + first;
    T *products = memory, *turned = memory + w * columns, *below = c + first * c_row;
    multiply_into(products, columns, w, columns, rows, v_conj + at, m, 1, below, c_row, 1, 0);
    if (adjoint)
      multiply_into(turned, columns, w, columns, w, t_conj + first * kBlock, kBlock, 1, products,
                    columns, -1, 0);
    else
      multiply_into(turned, columns, w, columns, w, t + first * kBlock, 1, kBlock, products,
                    columns, -1, 0);
    multiply_into(below, c_row, rows, columns, w, v + at, 1, m, turned, columns, 1, 1);
  }

  // c (m x columns) times all of them, or all adjoints: Q c or Q^H c. Rows and columns of c before
  // a block are left alone if c is the identity.
  void apply_all(T* c, int64_t c_row, int64_t columns, bool adjoint, bool identity,
                 T* memory) const {
    const int64_t blocks = ceil_div(count, kBlock);
    for (int64_t step = 0; step < blocks; step++) {
      const int64_t first = (adjoint ? step : blocks - 1 - step) * kBlock;
      const int64_t skipped = identity ? first : 0;
      apply(first, c + skipped, c_row, columns - skipped, adjoint, memory);
    }
  }
};

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

// a (m x n) becomes R and, below the diagonal, the reflections.
template <class T>
void reflect_columns(T* a, int64_t n, Reflections<T>& all, T* tau, T* memory) {
  for (int64_t first = 0; first < all.count; first += kBlockReflections) {
    reflect_panel(a, n, all, first, tau);
    const int64_t next = first + all.width(first);
    all.apply(first, a + next, n, n - next, /*adjoint=*/true, memory);
  }
}

}  // namespace flambeau::FL_ISA
