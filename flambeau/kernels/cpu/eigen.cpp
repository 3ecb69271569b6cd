// Eigenvalues of Hermitian matrices: reflections make the matrix tridiagonal, half of the work as
// matrix products; QL steps with implicit shifts, in double, find the values, and their rotations
// are applied to the vectors many at a time. Sources: Dongarra, Sorensen and Hammarling 1989; Golub
// and Van Loan 2013, section 8.3.
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/reflections.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/cpu/spectral.h"
#include "flambeau/kernels/cpu/spectrum.h"
#include "flambeau/kernels/cpu/turns.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kWidth = kBlockReflections;
constexpr int64_t kSteps = 60;  // for each eigenvalue; less than two are usual

// One matrix on its way to tridiagonal form.
template <class T>
class Tridiagonal {
 public:
  // a holds the transpose of the Hermitian matrix, below its diagonal.
  static int64_t room(int64_t n) { return (3 * kWidth + kParts) * n; }
  Tridiagonal(T* a, int64_t n, T* room, double* d, double* e) : a_(a), n_(n), d_(d), e_(e) {
    v_ = room, w_ = v_ + kWidth * n, again_ = w_ + kWidth * n, parts_ = again_ + kWidth * n;
  }

  void run(Reflections<T>* kept, T* tau) {
    for (int64_t first = 0; first < n_; first += kWidth) {
      const int64_t last = least(n_, first + kWidth);
      for (int64_t k = first; k < last; k++) {
        tau[k] = reduce(first, k);
        if (kept && k + 1 < n_)
          copy_row(v_ + (k - first) * n_ + k + 1, n_ - k - 1, kept->v + k * (n_ - 1) + k);
      }
      if (kept && first + 1 < n_) kept->close(first, tau + first);
      if (last < n_) subtract_panel(last);
    }
  }

 private:
  // A matrix of fewer rows is multiplied by one thread, others in parts.
  static constexpr int64_t kAlone = 512, kParts = 4;

  // Column k, with what the panel that began at `first` has changed, becomes d, e and a
  // reflection; its tau.
  T reduce(int64_t first, int64_t k) {
    const int64_t j = k - first, rest = n_ - k - 1;
    T* x = v_ + j * n_;
    for (int64_t i = k; i < n_; i++) x[i] = conj(a_[i * n_ + k]);
    T f[kWidth], g[kWidth];
    for (int64_t i = 0; i < j; i++) f[i] = conj(w_[i * n_ + k]), g[i] = conj(v_[i * n_ + k]);
    subtract_rows(x + k, n_ - k, f, 1, v_ + k, n_, j);
    subtract_rows(x + k, n_ - k, g, 1, w_ + k, n_, j);
    d_[k] = double(real_part(x[k]));
    if (!rest) return T(0);
    T *v = x + k + 1, *w = w_ + j * n_ + k + 1;
    const T tau = reflect(v, rest);
    e_[k] = double(real_part(v[0]));
    v[0] = T(1);
    for (int64_t i = 0; i <= k; i++) x[i] = w_[j * n_ + i] = T(0);
    multiply_rest(k + 1, v, w);
    dot_rows(w_ + k + 1, n_, j, v, rest, f);
    dot_rows(v_ + k + 1, n_, j, v, rest, g);
    subtract_rows(w, rest, f, 1, v_ + k + 1, n_, j);
    subtract_rows(w, rest, g, 1, w_ + k + 1, n_, j);
    for (int64_t i = 0; i < rest; i++) w[i] = w[i] * tau;
    T along;
    dot_rows(w, 0, 1, v, rest, &along);
    along = tau * along * T(RealOf<T>(0.5));
    subtract_rows(w, rest, &along, 1, v, 0, 1);
    copy_row(x, n_, again_ + j * n_);
    return tau;
  }

  // w = the matrix from row and column `from` on, times v; of it the lower triangle is read, once.
  void multiply_rest(int64_t from, const T* v, T* w) const {
    const int64_t rest = n_ - from;
    const T* corner = a_ + from * (n_ + 1);
    for (int64_t i = 0; i < rest; i++) w[i] = T(0);
    if (rest < kAlone) return multiply_triangle(corner, 0, rest, v, w);
    // Parts of about equal size, in whole fours of rows, whatever the number of threads.
    constexpr double kCuts[kParts + 1] = {0, 0.5, 0.7071, 0.866, 1};
    auto cut = [=](int64_t p) {
      return p == kParts ? rest : int64_t(kCuts[p] * double(rest)) / 4 * 4;
    };
    parallel_for(kParts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; p++) {
        T* part = parts_ + p * n_;
        for (int64_t i = 0; i < cut(p + 1); i++) part[i] = T(0);
        multiply_triangle(corner, cut(p), cut(p + 1), v, part);
      }
    });
    const T minus(-1);
    for (int64_t p = 0; p < kParts; p++)
      subtract_rows(w, cut(p + 1), &minus, 1, parts_ + p * n_, 0, 1);
  }

  // w += rows first..last of the lower triangle, and their adjoints, times v.
  void multiply_triangle(const T* a, int64_t first, int64_t last, const T* v, T* w) const {
    int64_t i = first;
    for (; i + 4 <= last; i += 4) {
      multiply_four(a + i * n_, i, v, w);
      for (int64_t r = i; r < i + 4; r++) multiply_row(a + r * n_, i, r, v, w);
    }
    for (; i < last; i++) multiply_row(a + i * n_, 0, i, v, w);
  }
  // Elements first..i of row i.
  void multiply_row(const T* row, int64_t first, int64_t i, const T* v, T* w) const {
    T sum = T(real_part(row[i])) * v[i];
    for (int64_t c = first; c < i; c++) {
      sum += conj(row[c]) * v[c];
      w[c] += row[c] * v[i];
    }
    w[i] += sum;
  }
  // Four rows up to column `count`, which is the number of the first.
  void multiply_four(const T* a, int64_t count, const T* v, T* w) const {
    using V = Vec<RealOf<T>>;
    const Factor<T> f[4] = {Factor<T>(v[count]), Factor<T>(v[count + 1]), Factor<T>(v[count + 2]),
                            Factor<T>(v[count + 3])};
    const RealOf<T>* rows[4] = {reals(a), reals(a + n_), reals(a + 2 * n_), reals(a + 3 * n_)};
    const RealOf<T>* x = reals(v);
    RealOf<T>* y = reals(w);
    DotSum<T> sums[4];
    const int64_t all = count * kReals<T>;
    int64_t i = 0;
    for (; i + V::kLanes <= all; i += V::kLanes) {
      const V part = V::load(x + i), turned = DotSum<T>::turned(part);
      V sum = V::load(y + i);
#pragma GCC unroll 4
      for (int r = 0; r < 4; r++) {
        const V element = V::load(rows[r] + i);
        sums[r].add(element, part, turned);
        sum = f[r].add(element, sum);
      }
      sum.store(y + i);
    }
    if (const int64_t left = all - i) {
      const V part = V::load_partial(x + i, left), turned = DotSum<T>::turned(part);
      V sum = V::load_partial(y + i, left);
      for (int r = 0; r < 4; r++) {
        const V element = V::load_partial(rows[r] + i, left);
        sums[r].add(element, part, turned);
        sum = f[r].add(element, sum);
      }
      sum.store_partial(y + i, left);
    }
    for (int r = 0; r < 4; r++) w[count + r] += sums[r].total();
  }

  void subtract_panel(int64_t from) {
    const int64_t rest = n_ - from;
    // Rows v, w, v: those of the left factor are conjugates, made in place, since the panel ends.
    const T* right = w_ + from;
    T* left = v_;
    if (kReals < T >> 1) {
      left = static_cast<T*>(scratch(Scratch::Panel, sizeof(T) * size_t(2 * kWidth * n_)));
      for (int64_t i = 0; i < 2 * kWidth * n_; i++) left[i] = conj(v_[i]);
    }
    // Only blocks that touch the lower triangle are needed.
    constexpr int64_t kBlock = 192;
    for (int64_t i = 0; i < rest; i += kBlock) {
      const int64_t rows = least(kBlock, rest - i);
      multiply_into(a_ + (from + i) * n_ + from, n_, rows, i + rows, 2 * kWidth, left + from + i, 1,
                    n_, right, n_, -1, 1);
    }
  }

  T *a_, *v_, *w_, *again_, *parts_;
  int64_t n_;
  double *d_, *e_;
};

// The eigenvalues of a tridiagonal matrix, d, with e beside the diagonal (n long).
template <class R>
class Values {
 public:
  Values(double* d, double* e, int64_t n, Turns<R>& turns) : d_(d), e_(e), n_(n), turns_(turns) {}

  // False if the iteration did not end.
  bool run() {
    int64_t steps = 0, before = -1;
    for (int64_t low = 0; low < n_;) {
      const int64_t high = end_of(low);
      if (high == low) {
        low++;
        continue;
      }
      if (steps++ == kSteps * n_) return false;
      // Small values are found first where they are: a block keeps its direction.
      if (high != before) downwards_ = __builtin_fabs(d_[high]) < __builtin_fabs(d_[low]);
      before = high;
      step(low, high);
    }
    turns_.flush();
    return true;
  }

 private:
  // Where the block that begins at `low` ends.
  int64_t end_of(int64_t low) const {
    constexpr double kPrecision = 0x1p-53, kNothing = 1e-150;
    int64_t i = low;
    for (; i + 1 < n_; i++) {
      const double size = __builtin_fabs(e_[i]);
      if (size <= kNothing || size <= kPrecision * __builtin_sqrt(__builtin_fabs(d_[i])) *
                                          __builtin_sqrt(__builtin_fabs(d_[i + 1])))
        break;
    }
    return i;
  }

  // One QL step on a block, or, where it runs downwards, on the block upside down.
  void step(int64_t low, int64_t high) {
    auto d = [&](int64_t i) -> double& { return d_[downwards_ ? low + high - i : i]; };
    auto e = [&](int64_t i) -> double& { return e_[downwards_ ? low + high - 1 - i : i]; };
    double g = (d(low + 1) - d(low)) / (2 * e(low)), r = __builtin_sqrt(g * g + 1);
    g = d(high) - d(low) + e(low) / (g + __builtin_copysign(r, g));
    double s = 1, c = 1, p = 0;
    turns_.begin(downwards_ ? low : high, downwards_ ? 1 : -1, high - low);
    for (int64_t i = high - 1; i >= low; i--) {
      const double f = s * e(i), b = c * e(i);
      r = __builtin_sqrt(f * f + g * g);
      if (i + 1 < high) e(i + 1) = r;
      if (r == 0) {
        d(i + 1) -= p;
        return;
      }
      const double inverse = 1 / r;
      s = f * inverse, c = g * inverse;
      g = d(i + 1) - p;
      r = (d(i) - g) * s + 2 * c * b;
      p = s * r;
      d(i + 1) = g + p;
      g = c * r - b;
      turns_.add(c, s);
    }
    d(low) -= p;
    e(low) = g;
  }

  double *d_, *e_;
  int64_t n_;
  bool downwards_ = false;
  Turns<R>& turns_;
};

// The transpose of the matrix on and below its diagonal, zeros above.
template <class T>
void complete(T* a, int64_t n, bool upper) {
  for (int64_t i = 0; i < n; i++) {
    a[i * n + i] = T(real_part(a[i * n + i]));
    for (int64_t j = 0; j < i; j++) {
      T &low = a[i * n + j], &high = a[j * n + i];
      low = upper ? high : conj(low);
      high = T(0);
    }
  }
}

template <class T>
bool eigh_one(T* a, double* values, int64_t n, bool upper, bool vectors) {
  using R = RealOf<T>;
  complete(a, n, upper);
  const double scale = scale_of(a, n * n);
  for (int64_t i = 0; scale != 1 && i < n * n; i++) a[i] = a[i] * T(R(scale));
  const int64_t row = padded_row<T>(n);
  const size_t set = vectors ? Reflections<T>::elements(n - 1, n - 1) : 0;
  const size_t room = size_t(most(Tridiagonal<T>::room(n), int64_t(Reflections<T>::room(n))));
  T* memory = static_cast<T*>(scratch(
      Scratch::Reflectors, sizeof(T) * (set + room + size_t(n)) + sizeof(double) * 3 * size_t(n)));
  double *d = reinterpret_cast<double*>(memory), *e = d + n;
  int64_t* order = reinterpret_cast<int64_t*>(e + n);
  T *tau = reinterpret_cast<T*>(order + n), *work = tau + n;
  Reflections<T> all(work + room, n - 1, n - 1);
  Tridiagonal<T>(a, n, work, d, e).run(vectors ? &all : nullptr, tau);
  R* y = nullptr;
  if (vectors) {
    set_identity(a, n, n);
    all.apply_all(a + n + 1, n, n - 1, /*adjoint=*/false, /*identity=*/true, work);
    y = static_cast<R*>(scratch(Scratch::Matrix, sizeof(R) * size_t(row * n)));
    turn_columns(a, n, n, n, y, row);
  }
  Turns<R> turns(Scratch::Turns, y, row, n);
  if (!Values<R>(d, e, n, turns).run()) return false;
  sort_places(d, n, order);
  for (int64_t j = 0; j < n; j++) values[j] = d[order[j]] / scale;
  if (vectors) gather_columns(y, row, order, n, n, a, n);
  return true;
}

}  // namespace

bool eigh_matrices(DType dtype, void* a, double* values, int64_t batch, int64_t n, bool upper,
                   bool vectors) {
  bool ended = true;
  if (!n) return true;
  visit_inexact(dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(batch, grain_of(9 * n * n * n), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; b++)
        if (!eigh_one(static_cast<T*>(a) + b * n * n, values + b * n, n, upper, vectors))
          __atomic_store_n(&ended, false, __ATOMIC_RELAXED);
    });
  });
  return ended;
}

}  // namespace flambeau::FL_ISA
