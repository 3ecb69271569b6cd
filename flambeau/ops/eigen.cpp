// Eigenvalues of general matrices: Hessenberg form, Francis' implicit double shifts, back
// substitution. One code for real and complex matrices; a real one keeps real arithmetic, so that
// its eigenvalues are real or conjugate pairs. Source: Golub and Van Loan 2013, sections 7.4
// to 7.6.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/matrices.h"

namespace flambeau::ops {
namespace {

using Complex = std::complex<double>;
constexpr double kPrecision = 0x1p-52;
constexpr int64_t kSteps = 60;  // for each eigenvalue; three are usual

double length_of(double x) { return std::fabs(x); }
double length_of(Complex x) { return std::abs(x); }

// Square roots of real numbers below zero stay out of real arithmetic.
bool has_root(double x) { return x >= 0; }
bool has_root(Complex) { return true; }

// I - 2 v v^H / (v^H v), which maps a given vector to a multiple of e1.
template <class T>
class Reflector {
 public:
  Reflector(const T* x, int64_t count, int64_t step = 1) : v_(size_t(count)) {
    double rest = 0;
    for (int64_t i = 0; i < count; i++) {
      v_[size_t(i)] = x[i * step];
      if (i) rest += std::norm(x[i * step]);
    }
    if (rest == 0) return;
    double first = length_of(v_[0]), length = std::sqrt(first * first + rest);
    T phase = first > 0 ? v_[0] / first : T(1);
    v_[0] += phase * length;
    scale_ = 2 / (rest + std::norm(v_[0]));
  }
  // On rows first... of a (n x n), from a column on; and on columns first..., of rows below `rows`.
  void left(T* a, int64_t n, int64_t first, int64_t from) const {
    if (scale_ == 0) return;
    for (int64_t j = from; j < n; j++) {
      T dot(0);
      for (size_t i = 0; i < v_.size(); i++)
        dot += conjugate(v_[i]) * a[(first + int64_t(i)) * n + j];
      dot *= scale_;
      for (size_t i = 0; i < v_.size(); i++) a[(first + int64_t(i)) * n + j] -= v_[i] * dot;
    }
  }
  void right(T* a, int64_t n, int64_t first, int64_t rows) const {
    if (scale_ == 0) return;
    for (int64_t i = 0; i < rows; i++) {
      T* row = a + i * n + first;
      T dot(0);
      for (size_t j = 0; j < v_.size(); j++) dot += row[j] * v_[j];
      dot *= scale_;
      for (size_t j = 0; j < v_.size(); j++) row[j] -= dot * conjugate(v_[j]);
    }
  }

 private:
  std::vector<T> v_;
  double scale_ = 0;
};

// A = Q H Q^H with H (in a) upper triangular, but for 2 x 2 blocks of conjugate pairs where T is
// real.
template <class T>
class Schur {
 public:
  Schur(T* a, T* q, int64_t n) : a_(a), q_(q), n_(n) {
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) q[i * n + j] = T(i == j);
    for (int64_t k = 0; k + 2 < n; k++) {
      apply(Reflector<T>(&at(k + 1, k), n - k - 1, n), k + 1, k, n);
      for (int64_t i = k + 2; i < n; i++) at(i, k) = T(0);
    }
    for (int64_t i = 0; i < n * n; i++) size_ = std::max(size_, length_of(a[i]));
  }

  // False if the iteration did not end.
  bool run() {
    int64_t steps = 0;
    for (int64_t high = n_ - 1; high > 0;) {
      int64_t low = start_of(high);
      if (high - low > 1) {
        if (++steps > kSteps) return false;
        chase(low, high, steps % 10 == 0);
        continue;
      }
      if (high > low) split(low);
      high = low - 1;
      steps = 0;
    }
    return true;
  }

 private:
  T& at(int64_t i, int64_t j) { return a_[i * n_ + j]; }

  void apply(const Reflector<T>& r, int64_t first, int64_t from, int64_t rows) {
    r.left(a_, n_, first, from);
    r.right(a_, n_, first, rows);
    r.right(q_, n_, first, n_);
  }

  // Where the unreduced block that ends at `high` begins; what is negligible before it becomes
  // zero.
  int64_t start_of(int64_t high) {
    for (int64_t l = high; l > 0; l--) {
      double scale = length_of(at(l - 1, l - 1)) + length_of(at(l, l));
      if (scale == 0) scale = size_;
      if (length_of(at(l, l - 1)) > kPrecision * scale) continue;
      at(l, l - 1) = T(0);
      return l;
    }
    return 0;
  }

  // One step with both eigenvalues of the last 2 x 2 block as shifts, or with others where that
  // went on too long.
  void chase(int64_t low, int64_t high, bool unusual) {
    T s = at(high - 1, high - 1) + at(high, high);
    T t = at(high - 1, high - 1) * at(high, high) - at(high - 1, high) * at(high, high - 1);
    if (unusual) {
      double w = length_of(at(high, high - 1)) + length_of(at(high - 1, high - 2));
      s = T(1.5 * w);
      t = T(w * w);
    }
    T a = at(low, low), below = at(low + 1, low);
    T x[3] = {a * a + at(low, low + 1) * below - s * a + t, below * (a + at(low + 1, low + 1) - s),
              below * at(low + 2, low + 1)};
    for (int64_t k = low; k < high; k++) {
      int64_t count = std::min<int64_t>(3, high - k + 1);
      apply(Reflector<T>(x, count), k, std::max(k - 1, low), std::min(k + 4, high + 1));
      if (k > low)
        for (int64_t i = 1; i < count; i++) at(k + i, k - 1) = T(0);
      for (int64_t i = 0; i < 3 && k + 1 + i <= high; i++) x[i] = at(k + 1 + i, k);
    }
  }

  // Makes the 2 x 2 block at `low` triangular, unless its eigenvalues are a conjugate pair of a
  // real matrix.
  void split(int64_t low) {
    T a = at(low, low), b = at(low, low + 1), c = at(low + 1, low), d = at(low + 1, low + 1);
    T half = (a - d) * 0.5, square = half * half + b * c;
    if (!has_root(square)) return;
    T root = std::sqrt(square);
    if (std::real(half * conjugate(root)) < 0) root = -root;
    T shifted = half + root;  // the eigenvalue less d: no cancellation
    T x[2] = {shifted, c};
    if (shifted == T(0) && c == T(0)) return;
    apply(Reflector<T>(x, 2), low, low, low + 2);
    at(low + 1, low) = T(0);
  }

  T *a_, *q_;
  int64_t n_;
  double size_ = 0;
};

// Eigenvalues of a (quasi-)triangular matrix, row by row.
template <class T>
std::vector<Complex> diagonal_values(const T* a, int64_t n) {
  std::vector<Complex> found(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i++) {
    found[size_t(i)] = a[i * n + i];
    if (i + 1 == n || a[(i + 1) * n + i] == T(0)) continue;
    Complex half = (a[i * n + i] - a[(i + 1) * n + i + 1]) * 0.5;
    Complex middle = (a[i * n + i] + a[(i + 1) * n + i + 1]) * 0.5;
    Complex root = std::sqrt(half * half + Complex(a[i * n + i + 1] * a[(i + 1) * n + i]));
    root = Complex(0, std::fabs(root.imag()));
    found[size_t(i)] = middle + root;
    found[size_t(++i)] = middle - root;
  }
  return found;
}

// The vector y with (a - value) y = 0 that ends at the block of row k.
template <class T>
void back_substitute(const T* a, int64_t n, int64_t k, Complex value, double tiny, Complex* y) {
  auto pair_above = [&](int64_t i) { return i > 0 && a[i * n + i - 1] != T(0); };
  std::fill(y, y + n, Complex(0));
  int64_t i = k;
  if (k + 1 < n && a[(k + 1) * n + k] != T(0)) i = k + 1;
  y[i] = 1;
  if (pair_above(i)) {  // a block of two: its own eigenvector
    y[i - 1] = (value - Complex(a[i * n + i])) / Complex(a[i * n + i - 1]);
    i--;
  }
  auto right_side = [&](int64_t row, int64_t from) {
    Complex sum = 0;
    for (int64_t j = from; j < n; j++) sum -= Complex(a[row * n + j]) * y[j];
    return sum;
  };
  auto pivot = [&](Complex p) { return std::abs(p) < tiny ? Complex(tiny) : p; };
  for (i--; i >= 0; i--) {
    Complex d = Complex(a[i * n + i]) - value, r = right_side(i, i + 1);
    if (!pair_above(i)) {
      y[i] = r / pivot(d);
      continue;
    }
    Complex up = Complex(a[(i - 1) * n + i - 1]) - value, over = a[(i - 1) * n + i];
    Complex under = a[i * n + i - 1], above = right_side(i - 1, i + 1);
    Complex det = pivot(up * d - over * under);
    y[i] = (up * r - under * above) / det;
    y[i - 1] = (above * d - over * r) / det;
    i--;
  }
}

// Of length one, with a real largest element.
void normalise(Complex* v, int64_t n) {
  double length = 0, most = 0;
  Complex largest = 1;
  for (int64_t i = 0; i < n; i++) {
    length += std::norm(v[i]);
    if (std::norm(v[i]) > most) most = std::norm(v[i]), largest = v[i];
  }
  Complex scale = std::conj(largest) / std::abs(largest) / std::sqrt(length);
  for (int64_t i = 0; i < n; i++) {
    bool is_largest = v[i] == largest;
    v[i] *= scale;
    if (is_largest) v[i] = Complex(v[i].real(), 0);
  }
}

// Values (n) and the vectors as columns (n x n) of a, which is overwritten.
template <class T>
bool solve_eigen(T* a, int64_t n, Complex* values, Complex* vectors) {
  std::vector<T> q(size_t(n * n));
  if (!Schur<T>(a, q.data(), n).run()) return false;
  std::vector<Complex> found = diagonal_values(a, n);
  double size = 0;
  for (int64_t i = 0; i < n * n; i++) size = std::max(size, length_of(a[i]));
  double tiny = std::max(kPrecision * size, 1e-300);
  std::vector<Complex> y(static_cast<size_t>(n)), v(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; k++) {
    values[k] = found[size_t(k)];
    back_substitute(a, n, k, values[k], tiny, y.data());
    for (int64_t i = 0; i < n; i++) {
      v[size_t(i)] = 0;
      for (int64_t j = 0; j < n; j++) v[size_t(i)] += Complex(q[size_t(i * n + j)]) * y[size_t(j)];
    }
    normalise(v.data(), n);
    for (int64_t i = 0; i < n; i++) vectors[i * n + k] = v[size_t(i)];
  }
  return true;
}

}  // namespace

Ints eig_values_shape(const Tensor& self) {
  check_square("linalg.eig", self);
  return batch_sizes(self, 1);
}
DType eig_complex(const Tensor& self) {
  return real_of(self.dtype()) == DType::Float64 ? DType::Complex128 : DType::Complex64;
}

void eig_kernel(Tensor& eigenvalues, Tensor& eigenvectors, const Tensor& self) {
  int64_t n = self.size(-1);
  Tensor wide = widened(self);
  Tensor found = new_tensor(eigenvalues.sizes(), DType::Complex128, self.device());
  Tensor columns = new_tensor(eigenvectors.sizes(), DType::Complex128, self.device());
  check_finite("linalg.eig", self);
  visit_wide(self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < count_of(batch_sizes(self)); b++) {
      bool ended = solve_eigen(values<T>(wide) + b * n * n, n, values<Complex>(found) + b * n,
                               values<Complex>(columns) + b * n * n);
      FL_CHECK(ended, LinAlgError, "linalg.eig: the iteration did not end for matrix {} of {}", b,
               self.sizes());
    }
  });
  copy_elements(eigenvalues, found);
  copy_elements(eigenvectors, columns);
}

Tensor eigvals_impl(const Tensor& self) { return std::get<0>(linalg_eig(self)); }

}  // namespace flambeau::ops
