// Bidiagonal form and its singular values. Sources: Dongarra, Sorensen and Hammarling 1989 (the
// blocked reduction), Demmel and Kahan 1990 (the iteration, accurate for small values too).
#pragma once
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/reflections.h"
#include "flambeau/kernels/cpu/spectrum.h"
#include "flambeau/kernels/cpu/turns.h"

namespace flambeau::FL_ISA {

// One matrix (m x n, m >= n) on its way to upper bidiagonal form. Inside a panel it is
// a - sum of u y^H + x v^H over the columns that are done.
template <class T>
class Bidiagonal {
 public:
  static size_t room(int64_t m, int64_t n) { return size_t(2 * kWidth * (m + n) + m); }

  Bidiagonal(T* a, int64_t m, int64_t n, T* memory, double* d, double* e)
      : a_(a), m_(m), n_(n), d_(d), e_(e) {
    u_ = memory, x_ = u_ + kWidth * m, y_ = x_ + kWidth * m, v_ = y_ + kWidth * n;
    factors_ = v_ + kWidth * n;
  }

  // The reflections from the left, and the conjugates of those from the right, one place shorter,
  // are kept where there is a place for them.
  void run(Reflections<T>* left, T* left_tau, Reflections<T>* right, T* right_tau) {
    for (int64_t first = 0; first < n_; first += kWidth) {
      const int64_t last = least(n_, first + kWidth);
      for (int64_t k = first; k < last; k++) {
        reduce_column(first, k, left_tau);
        if (left) copy_row(u_ + (k - first) * m_ + k, m_ - k, left->v + k * m_ + k);
        if (k + 1 == n_) continue;
        reduce_row(first, k, right_tau);
        if (right) copy_row(v_ + (k - first) * n_ + k + 1, n_ - k - 1, right->v + k * (n_ - 1) + k);
      }
      if (left) left->close(first, left_tau + first);
      if (right && first + 1 < n_) right->close(first, right_tau + first);
      if (last < n_)
        multiply_into(a_ + last * (n_ + 1), n_, m_ - last, n_ - last, 2 * kWidth, u_ + last, 1, m_,
                      y_ + last, n_, -1, 1);
    }
  }

 private:
  static constexpr int64_t kWidth = kBlockReflections;

  // out -= sum of conj(dots of rows of x with `with`) times rows of y.
  static void subtract_projections(T* out, int64_t count, const T* x, int64_t x_row, const T* with,
                                   int64_t length, const T* y, int64_t y_row, int64_t rows) {
    T dots[kWidth];
    dot_rows(x, x_row, rows, with, length, dots);
    for (int64_t i = 0; i < rows; i++) dots[i] = conj(dots[i]);
    subtract_rows(out, count, dots, 1, y, y_row, rows);
  }
  static void scale(T* x, int64_t count, T by) {
    for (int64_t i = 0; i < count; i++) x[i] = x[i] * by;
  }

  // Column k becomes d and a reflection u; y says what that does to the columns on its right.
  void reduce_column(int64_t first, int64_t k, T* tau) {
    const int64_t j = k - first, length = m_ - k, rest = n_ - k - 1;
    T* u = u_ + j * m_ + k;
    for (int64_t i = 0; i < length; i++) u[i] = a_[(k + i) * n_ + k];
    subtract_rows(u, length, y_ + k, n_, u_ + k, m_, j);
    subtract_rows(u, length, v_ + k, n_, x_ + k, m_, j);
    tau[k] = reflect(u, length);
    d_[k] = double(real_part(u[0]));
    u[0] = T(1);
    if (!rest) return;
    T* y = y_ + j * n_ + k + 1;
    multiply_columns(k, u, y);
    subtract_projections(y, rest, u_ + k, m_, u, length, y_ + k + 1, n_, j);
    subtract_projections(y, rest, x_ + k, m_, u, length, v_ + k + 1, n_, j);
    scale(y, rest, conj(tau[k]));
  }

  // Row k right of the diagonal becomes e and a reflection v; x says what that does to the rows
  // below.
  void reduce_row(int64_t first, int64_t k, T* tau) {
    const int64_t j = k - first, length = n_ - k - 1, rest = m_ - k - 1;
    T *v = v_ + j * n_ + k + 1, *x = x_ + j * m_ + k + 1;
    copy_row(a_ + k * n_ + k + 1, length, v);
    subtract_rows(v, length, u_ + k, m_, y_ + k + 1, n_, j + 1);
    subtract_rows(v, length, x_ + k, m_, v_ + k + 1, n_, j);
    tau[k] = reflect(v, length);
    e_[k] = double(real_part(v[0]));
    v[0] = T(1);
    multiply_rows(k + 1, v, x);
    subtract_projections(x, rest, y_ + k + 1, n_, v, length, u_ + k + 1, m_, j + 1);
    subtract_projections(x, rest, v_ + k + 1, n_, v, length, x_ + k + 1, m_, j);
    scale(x, rest, conj(tau[k]));
  }

  // y = u^H a, of rows from k on and columns after k.
  void multiply_columns(int64_t k, const T* u, T* y) {
    constexpr int64_t kStrip = 256, kRows = 8;
    const int64_t rows = m_ - k, columns = n_ - k - 1;
    for (int64_t i = 0; i < rows; i++) factors_[i] = -conj(u[i]);
    for (int64_t i = 0; i < columns; i++) y[i] = T(0);
    const T* corner = a_ + k * n_ + k + 1;
    parallel_for(ceil_div(columns, kStrip), ceil_div(1 << 16, rows * kStrip),
                 [=, this](int64_t begin, int64_t end) {
                   for (int64_t c = begin * kStrip; c < least(columns, end * kStrip); c += kStrip)
                     for (int64_t i = 0; i < rows; i += kRows)
                       subtract_rows(y + c, least(kStrip, columns - c), factors_ + i, 1,
                                     corner + i * n_ + c, n_, least(kRows, rows - i));
                 });
  }

  // x = a conj(v), of rows and columns from `from` on.
  void multiply_rows(int64_t from, const T* v, T* x) const {
    const int64_t rows = m_ - from, columns = n_ - from;
    const T* corner = a_ + from * (n_ + 1);
    parallel_for(ceil_div(rows, 4), ceil_div(1 << 14, columns),
                 [=, this](int64_t begin, int64_t end) {
                   const int64_t i = begin * 4, count = least(rows, end * 4) - i;
                   dot_rows(corner + i * n_, n_, count, v, columns, x + i);
                   for (int64_t r = i; r < i + count; r++) x[r] = conj(x[r]);
                 });
  }

  T *a_, *u_, *x_, *y_, *v_, *factors_;
  int64_t m_, n_;
  double *d_, *e_;
};

// d becomes the singular values, of any sign, of the bidiagonal matrix with e above the diagonal.
// The turns are those of left vectors and of right ones, as rows.
template <class R>
class SingularValues {
 public:
  SingularValues(double* d, double* e, int64_t n, Turns<R>& left, Turns<R>& right)
      : d_(d), e_(e), n_(n), left_(left), right_(right) {}

  // False if the iteration did not end.
  bool run() {
    constexpr int64_t kSteps = 60;  // for each value; two are usual
    find_threshold();
    int64_t steps = 0, low = 0, high = n_ - 1, before_low = -1, before_high = -1;
    while (high > 0) {
      low = start_of(high);
      if (low == high) {
        high--;
        continue;
      }
      if (steps++ == kSteps * n_) return false;
      // A block keeps its direction, from large values to small ones.
      if (low > before_high || high < before_low || before_high < 0)
        upwards_ = __builtin_fabs(d_[low]) < __builtin_fabs(d_[high]);
      before_low = low, before_high = high;
      low_ = low, high_ = high;
      if (!split()) step();
    }
    left_.flush();
    right_.flush();
    return true;
  }

 private:
  static constexpr double kPrecision = 0x1p-53, kTolerance = 10 * kPrecision;

  // The block upside down where small values stand first.
  double& d(int64_t i) { return d_[upwards_ ? low_ + high_ - i : i]; }
  double& e(int64_t i) { return e_[upwards_ ? low_ + high_ - 1 - i : i]; }

  // What is as good as zero beside the smallest singular value.
  void find_threshold() {
    double least_found = __builtin_fabs(d_[0]), mu = least_found;
    for (int64_t i = 1; i < n_ && mu > 0; i++) {
      mu = __builtin_fabs(d_[i]) * (mu / (mu + __builtin_fabs(e_[i - 1])));
      if (mu < least_found) least_found = mu;
    }
    threshold_ = kTolerance * least_found / __builtin_sqrt(double(n_));
    if (!(threshold_ > 1e-290)) threshold_ = 1e-290;
  }

  int64_t start_of(int64_t high) {
    int64_t i = high;
    while (i > 0 && __builtin_fabs(e_[i - 1]) > threshold_) i--;
    if (i > 0) e_[i - 1] = 0;
    return i;
  }

  // Zeros an element beside the diagonal that does not matter, if there is one; else finds smin_.
  bool split() {
    if (__builtin_fabs(e(high_ - 1)) <= kTolerance * __builtin_fabs(d(high_))) {
      e(high_ - 1) = 0;
      return true;
    }
    double mu = __builtin_fabs(d(low_));
    smallest_ = mu;
    for (int64_t i = low_; i < high_; i++) {
      const double size = __builtin_fabs(e(i));
      if (size <= kTolerance * mu) {
        e(i) = 0;
        return true;
      }
      mu = __builtin_fabs(d(i + 1)) * (mu / (mu + size));
      if (mu < smallest_) smallest_ = mu;
    }
    return false;
  }

  // The smaller singular value of [[f, g], [0, h]].
  static double smaller(double f, double g, double h) {
    f = __builtin_fabs(f), g = __builtin_fabs(g), h = __builtin_fabs(h);
    const double low = f < h ? f : h, high = f < h ? h : f;
    if (low == 0) return 0;
    const double sum = 1 + low / high, difference = (high - low) / high;
    if (g < high) {
      const double square = (g / high) * (g / high);
      return low * 2 /
             (__builtin_sqrt(sum * sum + square) +
              __builtin_sqrt(difference * difference + square));
    }
    const double ratio = high / g;
    if (ratio == 0) return low * high / g;
    return 2 * low * ratio /
           (__builtin_sqrt(1 + sum * ratio * sum * ratio) +
            __builtin_sqrt(1 + difference * ratio * difference * ratio));
  }

  // Zero where a shift would cost small values their digits.
  double shift() {
    double largest = 0;
    for (int64_t i = low_; i <= high_; i++) {
      largest = greater(largest, __builtin_fabs(d(i)));
      if (i < high_) largest = greater(largest, __builtin_fabs(e(i)));
    }
    if (double(n_) * kTolerance * (smallest_ / largest) <= kPrecision) return 0;
    const double found = smaller(d(high_ - 1), e(high_ - 1), d(high_)),
                 top = __builtin_fabs(d(low_));
    return top > 0 && found / top * (found / top) < kPrecision ? 0 : found;
  }
  static double greater(double a, double b) { return a > b ? a : b; }

  struct Turn {
    double c, s, r;
    // Maps (f, g) to (r, 0).
    Turn(double f, double g) : c(1), s(0), r(f) {
      if (g == 0) return;
      const double largest = greater(__builtin_fabs(f), __builtin_fabs(g));
      double unit = 1;
      if (largest < 1e-140) unit = 0x1p+600, f *= unit, g *= unit;
      const double length = __builtin_sqrt(f * f + g * g), inverse = 1 / length;
      c = f * inverse, s = g * inverse, r = length / unit;
    }
  };

  void step() {
    Turns<R>&one = upwards_ ? left_ : right_, &two = upwards_ ? right_ : left_;
    const int64_t from = upwards_ ? high_ : low_, direction = upwards_ ? -1 : 1;
    one.begin(from, direction, high_ - low_);
    two.begin(from, direction, high_ - low_);
    const double shifted = shift();
    shifted == 0 ? step_without(one, two) : step_with(shifted, one, two);
  }

  void step_without(Turns<R>& one, Turns<R>& two) {
    double c = 1, c_before = 1, s_before = 0;
    for (int64_t i = low_; i < high_; i++) {
      const Turn first(d(i) * c, e(i));
      c = first.c;
      if (i > low_) e(i - 1) = s_before * first.r;
      const Turn second(c_before * first.r, d(i + 1) * first.s);
      c_before = second.c, s_before = second.s;
      d(i) = second.r;
      one.add(first.c, first.s);
      two.add(second.c, second.s);
    }
    const double last = d(high_) * c;
    d(high_) = last * c_before;
    e(high_ - 1) = last * s_before;
  }

  void step_with(double shifted, Turns<R>& one, Turns<R>& two) {
    const double top = d(low_);
    double f = (__builtin_fabs(top) - shifted) * (__builtin_copysign(1.0, top) + shifted / top);
    double g = e(low_);
    for (int64_t i = low_; i < high_; i++) {
      const Turn first(f, g);
      if (i > low_) e(i - 1) = first.r;
      f = first.c * d(i) + first.s * e(i);
      e(i) = first.c * e(i) - first.s * d(i);
      g = first.s * d(i + 1);
      d(i + 1) *= first.c;
      const Turn second(f, g);
      d(i) = second.r;
      f = second.c * e(i) + second.s * d(i + 1);
      d(i + 1) = second.c * d(i + 1) - second.s * e(i);
      if (i + 1 < high_) {
        g = second.s * e(i + 1);
        e(i + 1) *= second.c;
      }
      one.add(first.c, first.s);
      two.add(second.c, second.s);
    }
    e(high_ - 1) = f;
  }

  double *d_, *e_;
  int64_t n_, low_ = 0, high_ = 0;
  bool upwards_ = false;
  double threshold_ = 0, smallest_ = 0;
  Turns<R>&left_, &right_;
};

}  // namespace flambeau::FL_ISA
