// Singular values by way of the bidiagonal form; a tall matrix is first made square by QR. Source:
// Golub and Van Loan 2013, section 8.6; Chan 1982.
#include "flambeau/kernels/cpu/bidiagonal.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/cpu/spectral.h"

namespace flambeau::FL_ISA {
namespace {

// One matrix a (m x n, m >= n): a = left diag(values) right, left (m x lefts), right (n x n).
template <class T>
class Decomposition {
 public:
  using R = RealOf<T>;
  Decomposition(int64_t m, int64_t n, int64_t lefts, bool vectors)
      : m_(m), n_(n), lefts_(lefts), vectors_(vectors), tall_(2 * m >= 3 * n && m > n) {
    core_ = tall_ ? n : m;
    row_ = padded_row<T>(core_), right_row_ = padded_row<T>(n);
    const size_t of_a = size_t(m * n), of_rows = vectors ? size_t((row_ + right_row_) * n) : 0;
    a_ = static_cast<T*>(scratch(Scratch::Matrix, sizeof(T) * of_a + sizeof(R) * (of_rows + 64)));
    // Rows that are turned begin on a register's border.
    const uintptr_t after = reinterpret_cast<uintptr_t>(a_ + of_a);
    y_ = reinterpret_cast<R*>((after + 63) / 64 * 64);
    right_y_ = y_ + row_ * n;
    const size_t first = tall_ ? Reflections<T>::elements(m, n) : 0;
    const size_t left = vectors ? Reflections<T>::elements(core_, n) : 0;
    const size_t right = vectors ? Reflections<T>::elements(n - 1, n - 1) : 0;
    const size_t room = greater(Bidiagonal<T>::room(core_, n), Reflections<T>::room(most(m, n)));
    T* memory = static_cast<T*>(
        scratch(Scratch::Reflectors, sizeof(T) * (first + left + right + room + size_t(3 * n)) +
                                         3 * sizeof(double) * size_t(n)));
    d_ = reinterpret_cast<double*>(memory), e_ = d_ + n;
    order_ = reinterpret_cast<int64_t*>(e_ + n);
    tau_ = reinterpret_cast<T*>(order_ + n);
    first_ = tau_ + 3 * n, left_ = first_ + first, right_ = left_ + left, room_ = right_ + right;
  }
  T* matrix() { return a_; }

  bool run(T* left, double* values, T* right) {
    const double scale = scale_of(a_, m_ * n_);
    for (int64_t i = 0; scale != 1 && i < m_ * n_; i++) a_[i] = a_[i] * T(R(scale));
    Reflections<T> before(first_, m_, tall_ ? n_ : 0), lefts(left_, core_, n_),
        rights(right_, n_ - 1, n_ - 1);
    if (tall_) {
      reflect_columns(a_, n_, before, tau_ + 2 * n_, room_);
      for (int64_t i = 1; i < n_; i++)
        for (int64_t j = 0; j < i; j++) a_[i * n_ + j] = T(0);
    }
    Bidiagonal<T>(a_, core_, n_, room_, d_, e_)
        .run(vectors_ ? &lefts : nullptr, tau_, vectors_ ? &rights : nullptr, tau_ + n_);
    if (vectors_) form_vectors(lefts, left, rights, right);
    Turns<R> left_turns(Scratch::Turns, vectors_ ? y_ : nullptr, row_, n_),
        right_turns(Scratch::Panel, vectors_ ? right_y_ : nullptr, right_row_, n_);
    if (!SingularValues<R>(d_, e_, n_, left_turns, right_turns).run()) return false;
    for (int64_t i = 0; i < n_; i++) e_[i] = -__builtin_fabs(d_[i]);  // largest first
    sort_places(e_, n_, order_);
    for (int64_t i = 0; i < n_; i++) values[i] = -e_[order_[i]] / scale;
    if (vectors_) put_vectors(before, left, right);
    return true;
  }

 private:
  static size_t greater(size_t a, size_t b) { return a > b ? a : b; }

  // The columns that core = Q B P^H begins with, turned into rows; left keeps the other columns.
  void form_vectors(const Reflections<T>& lefts, T* left, const Reflections<T>& rights, T* right) {
    const int64_t columns = tall_ ? n_ : lefts_;
    set_identity(left, core_, columns);
    lefts.apply_all(left, columns, columns, /*adjoint=*/false, /*identity=*/true, room_);
    turn_columns(left, columns, core_, n_, y_, row_);
    set_identity(right, n_, n_);
    rights.apply_all(right + n_ + 1, n_, n_ - 1, /*adjoint=*/false, /*identity=*/true, room_);
    turn_columns(right, n_, n_, n_, right_y_, right_row_);
  }

  void put_vectors(const Reflections<T>& before, T* left, T* right) {
    for (int64_t j = 0; j < n_; j++) {
      const T* from = reinterpret_cast<const T*>(right_y_ + order_[j] * right_row_);
      const bool negative = d_[order_[j]] < 0;
      for (int64_t i = 0; i < n_; i++) right[j * n_ + i] = negative ? -from[i] : from[i];
    }
    if (tall_) set_identity(left, m_, lefts_);
    gather_columns(y_, row_, order_, core_, n_, left, lefts_);
    if (tall_) before.apply_all(left, lefts_, lefts_, /*adjoint=*/false, /*identity=*/false, room_);
  }

  int64_t m_, n_, lefts_;
  bool vectors_, tall_;
  int64_t core_, row_, right_row_, *order_;
  T *a_, *tau_, *first_, *left_, *right_, *room_;
  R *y_, *right_y_;
  double *d_, *e_;
};

template <class T>
bool svd_one(const T* a, T* u, double* values, T* vh, int64_t rows, int64_t columns, bool full) {
  const bool wide = rows < columns, vectors = u != nullptr;
  const int64_t m = most(rows, columns), n = least(rows, columns), lefts = full ? m : n;
  Decomposition<T> found(m, n, lefts, vectors);
  if (!wide) {
    copy_row(a, m * n, found.matrix());
    return found.run(u, values, vh);
  }
  // The adjoint: its left vectors are the right ones of a.
  mirror(a, columns, rows, columns, found.matrix(), n);
  if (!vectors) return found.run(nullptr, values, nullptr);
  T* turned = static_cast<T*>(scratch(Scratch::Rows, sizeof(T) * size_t(m * lefts + n * n)));
  T* right = turned + m * lefts;
  if (!found.run(turned, values, right)) return false;
  mirror(turned, lefts, m, lefts, vh, m);
  mirror(right, n, n, n, u, n);
  return true;
}

}  // namespace

bool svd_matrices(DType dtype, const void* a, void* u, double* values, void* vh, int64_t batch,
                  int64_t rows, int64_t columns, bool full) {
  const int64_t n = least(rows, columns), m = most(rows, columns);
  const int64_t of_u = rows * (full ? rows : n), of_v = columns * (full ? columns : n);
  bool ended = true;
  visit_inexact(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* all = static_cast<const T*>(a);
    T *all_u = static_cast<T*>(u), *all_v = static_cast<T*>(vh);
    parallel_for(batch, grain_of(20 * m * n * n), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; b++)
        if (!svd_one(all + b * rows * columns, u ? all_u + b * of_u : nullptr, values + b * n,
                     u ? all_v + b * of_v : nullptr, rows, columns, full))
          __atomic_store_n(&ended, false, __ATOMIC_RELAXED);
    });
  });
  return ended;
}

}  // namespace flambeau::FL_ISA
