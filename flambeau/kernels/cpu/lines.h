// Sums and dot products of rows, for the panels of matrix decompositions: real numbers fill a
// register, complex ones lie in it as pairs.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/cpu/gemm.h"
#include "flambeau/kernels/lanes.h"

namespace flambeau::FL_ISA {

// Real numbers of an element, and elements of a register.
template <class T>
inline constexpr int kReals = int(sizeof(T) / sizeof(RealOf<T>));
template <class T>
inline constexpr int kElements = Vec<RealOf<T>>::kLanes / kReals<T>;

template <class T>
inline RealOf<T>* reals(T* p) {
  return reinterpret_cast<RealOf<T>*>(p);
}
template <class T>
inline const RealOf<T>* reals(const T* p) {
  return reinterpret_cast<const RealOf<T>*>(p);
}
template <Floating T>
inline T conj(T x) {
  return x;
}
template <Floating T>
inline T real_part(T x) {
  return x;
}
template <class R>
inline R real_part(Cplx<R> x) {
  return x.re;
}
template <Floating T>
inline T imaginary_part(T) {
  return T(0);
}
template <class R>
inline R imaginary_part(Cplx<R> x) {
  return x.im;
}
// |re| + |im|, LAPACK's measure of a pivot.
template <class T>
inline RealOf<T> size_of(T x) {
  return RealOf<T>(__builtin_fabs(real_part(x)) + __builtin_fabs(imaginary_part(x)));
}

// Real and imaginary parts change places in every pair.
template <class R>
inline Vec<R> swap_pairs(Vec<R> x) {
  return swap_lanes<1>(x, std::make_integer_sequence<int, Vec<R>::kLanes>());
}
// -x, x, -x, x, ...
template <class R>
inline Vec<R> alternating(R x) {
  Vec<R> signs(x);
  for (int i = 0; i < Vec<R>::kLanes; i += 2) signs.v[i] = -x;
  return signs;
}

// A factor ready to multiply whole registers: sum + factor * x.
template <class T>
struct Factor {
  Vec<T> same;
  explicit Factor(T f) : same(f) {}
  Vec<T> add(Vec<T> x, Vec<T> sum) const { return fma(same, x, sum); }
};
template <class R>
struct Factor<Cplx<R>> {
  Vec<R> same, crossed;
  explicit Factor(Cplx<R> f) : same(f.re), crossed(alternating(f.im)) {}
  Vec<R> add(Vec<R> x, Vec<R> sum) const { return fma(crossed, swap_pairs(x), fma(same, x, sum)); }
};

// Strips of y that stay in registers while the rows of x pass by.
template <int Strips, class T>
inline void add_strips(RealOf<T>* y, const T* f, int64_t f_step, const RealOf<T>* x, int64_t x_row,
                       int64_t rows, int64_t last) {
  using V = Vec<RealOf<T>>;
  V sum[Strips];
  auto at = [](auto* p, int s) { return p + s * V::kLanes; };
  for (int s = 0; s < Strips; s++)
    sum[s] = s + 1 < Strips ? V::load(at(y, s)) : V::load_partial(at(y, s), last);
  for (int64_t j = 0; j < rows; j++, x += x_row, f += f_step) {
    const Factor<T> factor(-*f);
#pragma GCC unroll 4
    for (int s = 0; s < Strips; s++) {
      V part = s + 1 < Strips ? V::load(at(x, s)) : V::load_partial(at(x, s), last);
      sum[s] = factor.add(part, sum[s]);
    }
  }
  for (int s = 0; s < Strips; s++)
    s + 1 < Strips ? sum[s].store(at(y, s)) : sum[s].store_partial(at(y, s), last);
}

// y (count) -= f[0] x[0] + f[1] x[1] + ... over `rows` rows of x.
template <class T>
void subtract_rows(T* y, int64_t count, const T* f, int64_t f_step, const T* x, int64_t x_row,
                   int64_t rows) {
  constexpr int64_t kLanes = Vec<RealOf<T>>::kLanes;
  RealOf<T>* to = reals(y);
  const RealOf<T>* from = reals(x);
  const int64_t step = x_row * kReals<T>;
  int64_t left = count * kReals<T>;
  for (; left >= 4 * kLanes; left -= 4 * kLanes, to += 4 * kLanes, from += 4 * kLanes)
    add_strips<4, T>(to, f, f_step, from, step, rows, kLanes);
  if (left > 2 * kLanes)
    add_strips<2, T>(to, f, f_step, from, step, rows, kLanes), to += 2 * kLanes, from += 2 * kLanes,
        left -= 2 * kLanes;
  if (left > kLanes)
    add_strips<2, T>(to, f, f_step, from, step, rows, left - kLanes);
  else if (left > 0)
    add_strips<1, T>(to, f, f_step, from, step, rows, left);
}

// Row j of y (rows y_row apart) -= f[j] x.
template <class T>
void subtract_from_rows(T* y, int64_t y_row, int64_t rows, const T* f, int64_t f_step, const T* x,
                        int64_t count) {
  using V = Vec<RealOf<T>>;
  const RealOf<T>* from = reals(x);
  const int64_t all = count * kReals<T>;
  int64_t j = 0;
  for (; j + 4 <= rows; j += 4) {
    RealOf<T>* to[4];
    for (int r = 0; r < 4; r++) to[r] = reals(y + (j + r) * y_row);
    const Factor<T> factors[4] = {Factor<T>(-f[j * f_step]), Factor<T>(-f[(j + 1) * f_step]),
                                  Factor<T>(-f[(j + 2) * f_step]), Factor<T>(-f[(j + 3) * f_step])};
    int64_t i = 0;
    for (; i + V::kLanes <= all; i += V::kLanes) {
      const V part = V::load(from + i);
#pragma GCC unroll 4
      for (int r = 0; r < 4; r++) factors[r].add(part, V::load(to[r] + i)).store(to[r] + i);
    }
    if (i == all) continue;
    const V part = V::load_partial(from + i, all - i);
    for (int r = 0; r < 4; r++)
      factors[r].add(part, V::load_partial(to[r] + i, all - i)).store_partial(to[r] + i, all - i);
  }
  for (; j < rows; j++) subtract_rows(y + j * y_row, count, f + j * f_step, 1, x, 0, 1);
}

// The sum of conj(x) * y as it grows, and as a number.
template <class T>
struct DotSum {
  Vec<T> sum = Vec<T>(T(0));
  void add(Vec<T> x, Vec<T> y, Vec<T>) { sum = fma(x, y, sum); }
  static Vec<T> turned(Vec<T> y) { return y; }
  T total() const { return sum_lanes(sum); }
};
template <class R>
struct DotSum<Cplx<R>> {
  Vec<R> same = Vec<R>(R(0)), crossed = Vec<R>(R(0));
  void add(Vec<R> x, Vec<R> y, Vec<R> swapped) {
    same = fma(x, y, same);
    crossed = fma(x, swapped, crossed);
  }
  static Vec<R> turned(Vec<R> y) { return swap_pairs(y); }
  Cplx<R> total() const { return {sum_lanes(same), -sum_lanes(crossed * alternating(R(1)))}; }
};

template <int Rows, class T>
inline void dot_strip(const T* x, int64_t x_row, const T* y, int64_t count, T* out) {
  using V = Vec<RealOf<T>>;
  DotSum<T> sums[Rows][2];
  const RealOf<T>* rows[Rows];
  for (int r = 0; r < Rows; r++) rows[r] = reals(x + r * x_row);
  const RealOf<T>* by = reals(y);
  const int64_t all = count * kReals<T>;
  int64_t i = 0;
  for (; i + 2 * V::kLanes <= all; i += 2 * V::kLanes) {
#pragma GCC unroll 2
    for (int s = 0; s < 2; s++) {
      const V part = V::load(by + i + s * V::kLanes), turned = DotSum<T>::turned(part);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; r++)
        sums[r][s].add(V::load(rows[r] + i + s * V::kLanes), part, turned);
    }
  }
  for (; i < all; i += V::kLanes) {
    const int64_t n = least(V::kLanes, all - i);
    const V part = V::load_partial(by + i, n), turned = DotSum<T>::turned(part);
    for (int r = 0; r < Rows; r++) sums[r][0].add(V::load_partial(rows[r] + i, n), part, turned);
  }
  for (int r = 0; r < Rows; r++) out[r] = sums[r][0].total() + sums[r][1].total();
}

// out[j] = the sum of conj(x[j]) * y for each of `rows` rows of x.
template <class T>
void dot_rows(const T* x, int64_t x_row, int64_t rows, const T* y, int64_t count, T* out) {
  int64_t j = 0;
  for (; j + 4 <= rows; j += 4) dot_strip<4>(x + j * x_row, x_row, y, count, out + j);
  for (; j < rows; j++) dot_strip<1>(x + j * x_row, x_row, y, count, out + j);
}

template <Floating T>
void divide_row(T* x, int64_t count, T by) {
  using V = Vec<T>;
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) (V::load(x + i) / V(by)).store(x + i);
  if (i < count) (V::load_partial(x + i, count - i) / V(by)).store_partial(x + i, count - i);
}
// Divisions of complex numbers are slow: one makes a factor, where it and its square are numbers.
template <class R>
void divide_row(Cplx<R>* x, int64_t count, Cplx<R> by) {
  const R size = size_of(by);
  constexpr R kSmall = sizeof(R) == 4 ? R(1e-18) : R(1e-150);
  if (!(size > kSmall && size < 1 / kSmall)) {
    for (int64_t i = 0; i < count; i++) x[i] = x[i] / by;
    return;
  }
  const Cplx<R> inverse = Cplx<R>(1) / by;
  for (int64_t i = 0; i < count; i++) x[i] *= inverse;
}

template <class T>
void swap_rows(T* x, T* y, int64_t count) {
  using V = Vec<RealOf<T>>;
  RealOf<T>*a = reals(x), *b = reals(y);
  const int64_t all = count * kReals<T>;
  for (int64_t i = 0; i < all; i += V::kLanes) {
    const int64_t n = least(V::kLanes, all - i);
    const V first = V::load_partial(a + i, n), second = V::load_partial(b + i, n);
    second.store_partial(a + i, n);
    first.store_partial(b + i, n);
  }
}

// to (columns x rows) = the adjoint of from (rows x columns), tile by tile.
template <class T>
void mirror(const T* from, int64_t from_row, int64_t rows, int64_t columns, T* to, int64_t to_row) {
  constexpr int64_t kTile = 16;
  for (int64_t i = 0; i < rows; i += kTile)
    for (int64_t j = 0; j < columns; j += kTile)
      for (int64_t r = i; r < least(rows, i + kTile); r++)
        for (int64_t c = j; c < least(columns, j + kTile); c++)
          to[c * to_row + r] = conj(from[r * from_row + c]);
}

template <class T>
inline constexpr DType kDTypeOf = DType::Float32;
template <>
inline constexpr DType kDTypeOf<double> = DType::Float64;
template <>
inline constexpr DType kDTypeOf<Cplx<float>> = DType::Complex64;
template <>
inline constexpr DType kDTypeOf<Cplx<double>> = DType::Complex128;

// c (m x n) = keep * c + scale * a b, with a (m x k) of any strides and rows of b (k x n).
template <class T>
void multiply_into(T* c, int64_t c_row, int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row,
                   int64_t a_col, const T* b, int64_t b_row, double scale, double keep) {
  if (m <= 0 || n <= 0 || (k <= 0 && keep == 1)) return;
  GemmArgs g{kDTypeOf<T>, m, n, k};
  g.a = a, g.a_row = a_row, g.a_col = a_col;
  g.b = b, g.b_row = b_row;
  g.c = c, g.c_row = c_row;
  g.alpha = scale, g.beta = keep;
  gemm(g);
}
// c -= a b, all with adjacent columns.
template <class T>
void subtract_product(T* c, int64_t c_row, int64_t m, int64_t n, int64_t k, const T* a,
                      int64_t a_row, const T* b, int64_t b_row) {
  multiply_into(c, c_row, m, n, k, a, a_row, 1, b, b_row, -1, 1);
}

// f(zero) with the type of the elements.
template <class F>
void visit_inexact(DType dtype, const F& f) {
  switch (dtype) {
    case DType::Float32:
      return f(float());
    case DType::Float64:
      return f(double());
    case DType::Complex64:
      return f(Cplx<float>());
    default:
      return f(Cplx<double>());
  }
}

}  // namespace flambeau::FL_ISA
