// Symmetric indefinite systems: P L D L^T P^T with blocks of one and two on the diagonal. Source:
// Bunch and Kaufman 1977; pivots and layout as in LAPACK's lower form, with zeros above
// the diagonal.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/matrices.h"

namespace flambeau::ops {
namespace {

double size_of(double x) { return std::fabs(x); }
double size_of(std::complex<double> x) { return std::fabs(x.real()) + std::fabs(x.imag()); }

template <class T>
class Factors {
 public:
  Factors(T* a, int64_t n, bool hermitian) : a_(a), n_(n), hermitian_(hermitian) {}

  // The pivots; the first column of zeros, from 1, or 0.
  int32_t factor(int32_t* pivots) {
    int32_t info = 0;
    for (int64_t k = 0; k < n_;) {
      make_real(k);
      auto [other, two] = choose(k);
      if (other < 0) {
        if (!info) info = int32_t(k + 1);
        pivots[k] = int32_t(k + 1);
        k++;
        continue;
      }
      int64_t last = k + (two ? 1 : 0);
      if (other != last) exchange(k, last, other);
      if (two)
        eliminate_two(k);
      else
        eliminate_one(k);
      pivots[k] = pivots[last] = int32_t(two ? -(other + 1) : other + 1);
      k = last + 1;
    }
    return info;
  }

 private:
  T& at(int64_t i, int64_t j) { return a_[i * n_ + j]; }
  T turned(T x) const { return hermitian_ ? conjugate(x) : x; }
  double diagonal(int64_t i) {
    return hermitian_ ? std::fabs(std::real(at(i, i))) : size_of(at(i, i));
  }
  void make_real(int64_t i) {
    if (hermitian_) at(i, i) = T(std::real(at(i, i)));
  }

  // The row to exchange with and whether the block has two rows; -1 for a column of zeros.
  std::pair<int64_t, bool> choose(int64_t k) {
    const double alpha = (1 + std::sqrt(17.0)) / 8;
    double here = diagonal(k), most = 0;
    int64_t row = k;
    for (int64_t i = k + 1; i < n_; i++)
      if (size_of(at(i, k)) > most) most = size_of(at(i, k)), row = i;
    if (row == k) return {here == 0 ? -1 : k, false};  // nothing below, or nothing but NaN
    if (here >= alpha * most) return {k, false};
    double in_row = 0;
    for (int64_t j = k; j < row; j++) in_row = std::max(in_row, size_of(at(row, j)));
    for (int64_t i = row + 1; i < n_; i++) in_row = std::max(in_row, size_of(at(i, row)));
    if (here >= alpha * most * (most / in_row)) return {k, false};
    if (diagonal(row) >= alpha * in_row) return {row, false};
    return {row, true};
  }

  // Rows and columns `last` and `other` of what is left from k on.
  void exchange(int64_t k, int64_t last, int64_t other) {
    for (int64_t i = other + 1; i < n_; i++) std::swap(at(i, last), at(i, other));
    for (int64_t i = last + 1; i < other; i++) {
      T moved = turned(at(i, last));
      at(i, last) = turned(at(other, i));
      at(other, i) = moved;
    }
    at(other, last) = turned(at(other, last));
    std::swap(at(last, last), at(other, other));
    if (last > k) std::swap(at(last, k), at(other, k));
  }

  void eliminate_one(int64_t k) {
    T pivot = at(k, k);
    for (int64_t j = k + 1; j < n_; j++) {
      T factor = turned(at(j, k)) / pivot;
      for (int64_t i = j; i < n_; i++) at(i, j) -= at(i, k) * factor;
      make_real(j);
    }
    for (int64_t i = k + 1; i < n_; i++) at(i, k) /= pivot;
  }

  void eliminate_two(int64_t k) {
    make_real(k + 1);
    T a = at(k, k), b = at(k + 1, k), d = at(k + 1, k + 1);
    // Scaled by b, whose square may not be a number.
    T scaled_d = d / b, scaled_a = a / turned(b), det = scaled_a * scaled_d - T(1);
    for (int64_t j = k + 2; j < n_; j++) {
      T x = at(j, k), y = at(j, k + 1);  // (x, y) times the inverse of [[a, b'], [b, d]]
      T first = (scaled_d * x - y) / (turned(b) * det), second = (scaled_a * y - x) / (b * det);
      for (int64_t i = j; i < n_; i++)
        at(i, j) -= at(i, k) * turned(first) + at(i, k + 1) * turned(second);
      at(j, k) = first;
      at(j, k + 1) = second;
      make_real(j);
    }
  }

  T* a_;
  int64_t n_;
  bool hermitian_;
};

// b (n x k) becomes the solution, from the factors in a.
template <class T>
class System {
 public:
  System(const T* a, const int32_t* pivots, int64_t n, T* b, int64_t k, bool hermitian)
      : a_(a), pivots_(pivots), n_(n), b_(b), k_(k), hermitian_(hermitian) {}

  void solve() {
    for (int64_t i = 0; i < n_;) {
      bool two = pivots_[i] < 0;
      int64_t last = i + (two ? 1 : 0);
      swap_rows(last, std::abs(pivots_[i]) - 1);
      for (int64_t row = last + 1; row < n_; row++)
        for (int64_t j = i; j <= last; j++) subtract(row, j, at(row, j));
      two ? divide_two(i) : divide_one(i);
      i = last + 1;
    }
    for (int64_t i = n_ - 1; i >= 0;) {
      int64_t first = i - (pivots_[i] < 0 ? 1 : 0);
      for (int64_t row = i + 1; row < n_; row++)
        for (int64_t j = first; j <= i; j++) subtract(j, row, turned(at(row, j)));
      swap_rows(i, std::abs(pivots_[i]) - 1);
      i = first - 1;
    }
  }

 private:
  T at(int64_t i, int64_t j) const { return a_[i * n_ + j]; }
  T turned(T x) const { return hermitian_ ? conjugate(x) : x; }
  void swap_rows(int64_t i, int64_t j) {
    if (i != j) std::swap_ranges(b_ + i * k_, b_ + (i + 1) * k_, b_ + j * k_);
  }
  void subtract(int64_t row, int64_t from, T factor) {
    for (int64_t c = 0; c < k_; c++) b_[row * k_ + c] -= factor * b_[from * k_ + c];
  }
  void divide_one(int64_t i) {
    T pivot = hermitian_ ? T(std::real(at(i, i))) : at(i, i);
    for (int64_t c = 0; c < k_; c++) b_[i * k_ + c] /= pivot;
  }
  void divide_two(int64_t i) {
    T below = at(i + 1, i), above = turned(below);
    T a = at(i, i) / above, d = at(i + 1, i + 1) / below, det = a * d - T(1);
    for (int64_t c = 0; c < k_; c++) {
      T first = b_[i * k_ + c] / above, second = b_[(i + 1) * k_ + c] / below;
      b_[i * k_ + c] = (d * first - second) / det;
      b_[(i + 1) * k_ + c] = (a * second - first) / det;
    }
  }

  const T* a_;
  const int32_t* pivots_;
  int64_t n_;
  T* b_;
  int64_t k_;
  bool hermitian_;
};

// Pivots name rows, and negative ones come in twos.
void check_pivots(const int32_t* pivots, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    FL_CHECK(pivots[i] != 0 && std::abs(int64_t(pivots[i])) <= n, RuntimeError,
             "linalg.ldl_solve: pivots must lie in [1, {}] or [-{}, -1], got {}", n, n, pivots[i]);
    if (pivots[i] > 0) continue;
    FL_CHECK(i + 1 < n && pivots[i + 1] == pivots[i], RuntimeError,
             "linalg.ldl_solve: negative pivots come in equal twos, got {} alone in place {}",
             pivots[i], i);
    i++;
  }
}

}  // namespace

Ints ldl_shape(const Tensor& self, bool, bool) {
  check_square("linalg.ldl_factor", self);
  return self.sizes();
}
Ints ldl_pivots_shape(const Tensor& self, bool, bool) { return batch_sizes(self, 1); }
Ints ldl_info_shape(const Tensor& self, bool, bool) { return batch_sizes(self); }
DType ldl_int32(const Tensor&, bool, bool) { return DType::Int32; }

void ldl_kernel(Tensor& LD, Tensor& pivots, Tensor& info, const Tensor& self, bool hermitian,
                bool check_errors) {
  int64_t n = self.size(-1);
  Tensor wide = widened(self);
  visit_wide(self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < info.numel(); b++)
      info.data<int32_t>()[b] = Factors<T>(values<T>(wide) + b * n * n, n, hermitian)
                                    .factor(pivots.data<int32_t>() + b * n);
  });
  copy_elements(LD, tril(wide));
  if (check_errors)
    check_info("linalg.ldl_factor_ex", info, "no column may be zero; the first that is");
}

std::tuple<Tensor, Tensor> ldl_factor_impl(const Tensor& self, bool hermitian) {
  auto [factors, pivots, info] = linalg_ldl_factor_ex(self, hermitian, false);
  check_info("linalg.ldl_factor", info, "no column may be zero; the first that is");
  return {factors, pivots};
}

Ints ldl_solve_shape(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool) {
  constexpr auto op = "linalg.ldl_solve";
  check_square(op, LD);
  FL_CHECK(pivots.dtype() == DType::Int32 && pivots.sizes() == IntList(batch_sizes(LD, 1)),
           RuntimeError, "{}: factors of shape {} need int32 pivots of shape {}, got {} of {}", op,
           LD.sizes(), batch_sizes(LD, 1), pivots.dtype(), pivots.sizes());
  FL_CHECK(B.ndim() >= 2 && B.size(-2) == LD.size(-1) && B.dtype() == LD.dtype(), RuntimeError,
           "{}: {} of shape {} does not fit a right side of {} and shape {}", op, LD.dtype(),
           LD.sizes(), B.dtype(), B.sizes());
  Ints sizes = common_batch(op, LD, B);
  sizes.push_back(B.size(-2));
  sizes.push_back(B.size(-1));
  return sizes;
}

void ldl_solve_kernel(Tensor& result, const Tensor& LD, const Tensor& pivots, const Tensor& B,
                      bool hermitian) {
  NoGradGuard no_grad;
  int64_t n = LD.size(-1), k = B.size(-1);
  Ints batch = batch_sizes(result), square = batch, rows = batch;
  square.push_back(n);
  square.push_back(n);
  rows.push_back(n);
  Tensor a = widened(expand(LD, square)), x = widened(expand(B, result.sizes()));
  Tensor places = new_tensor(rows, DType::Int32, pivots.device());
  copy_elements(places, expand(pivots, rows));
  int64_t count = count_of(batch);
  for (int64_t b = 0; b < count; b++) check_pivots(places.data<int32_t>() + b * n, n);
  visit_wide(B.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < count; b++)
      System<T>(values<T>(a) + b * n * n, places.data<int32_t>() + b * n, n,
                values<T>(x) + b * n * k, k, hermitian)
          .solve();
  });
  copy_elements(result, x);
}

}  // namespace flambeau::ops
