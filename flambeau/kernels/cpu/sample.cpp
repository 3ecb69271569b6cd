// Samplers whose parameters differ from element to element, permutations and choices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "flambeau/kernels/cpu/random.h"
#include "flambeau/kernels/cpu/random_types.h"

namespace flambeau {
namespace {

template <class F>
void for_float(const char* op, DType dtype, const F& body) {
  if (!visit_float(dtype, body)) refuse(op, dtype);
}

// Multiplication method: counts how many uniform factors keep the product above e^-rate.
int64_t poisson_small(Generator& generator, double rate) {
  double limit = std::exp(-rate);
  int64_t count = 0;
  for (double product = generator.uniform(); product > limit; product *= generator.uniform()) {
    count++;
  }
  return count;
}

// Transformed rejection with squeeze: Hörmann 1993, "The transformed rejection method for
// generating Poisson random variables", algorithm PTRS.
int64_t poisson_large(Generator& generator, double rate) {
  double b = 0.931 + 2.53 * std::sqrt(rate);
  double a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  double v_r = 0.9277 - 3.6224 / (b - 2);
  double log_rate = std::log(rate);
  for (;;) {
    double u = generator.uniform() - 0.5;
    double v = generator.uniform();
    double us = 0.5 - std::fabs(u);
    auto k = int64_t(std::floor((2 * a / us + b) * u + rate + 0.43));
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    double left = std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b);
    if (left <= -rate + double(k) * log_rate - std::lgamma(double(k) + 1)) return k;
  }
}

int64_t poisson(Generator& generator, double rate) {
  FL_CHECK(rate >= 0, RuntimeError, "poisson: rates must not be negative, got {}", rate);
  if (rate == 0) return 0;
  return rate >= 10 ? poisson_large(generator, rate) : poisson_small(generator, rate);
}

// Adds geometric waiting times until they pass the number of trials (Devroye 1986, "second waiting
// time method").
template <class Real>
Real binomial_small(Generator& generator, Real count, Real p) {
  Real log_q = std::log1p(-p);
  Real waited = 0;
  for (Real successes = 0;; successes += 1) {
    waited += std::ceil(Real(std::log(Real(generator.uniform())) / log_q));
    if (waited > count) return successes;
  }
}

// log(k!) minus Stirling's approximation of it: a table, then the series.
template <class Real>
Real stirling_tail(Real k) {
  constexpr Real kTail[] = {Real(0.0810614667953272),  Real(0.0413406959554092),
                            Real(0.0276779256849983),  Real(0.02079067210376509),
                            Real(0.0166446911898211),  Real(0.0138761288230707),
                            Real(0.0118967099458917),  Real(0.0104112652619720),
                            Real(0.00925546218271273), Real(0.00833056343336287)};
  if (k <= 9) return kTail[size_t(k)];
  Real square = (k + 1) * (k + 1);
  return (Real(1.0 / 12) - (Real(1.0 / 360) - Real(1.0 / 1260) / square) / square) / (k + 1);
}

// Transformed rejection: Hörmann 1993, "The generation of binomial random variates", algorithm
// BTRS.
template <class Real>
Real binomial_large(Generator& generator, Real count, Real p) {
  Real deviation = std::sqrt(count * p * (1 - p));
  Real b = Real(1.15) + Real(2.53) * deviation;
  Real a = Real(-0.0873) + Real(0.0248) * b + Real(0.01) * p;
  Real c = count * p + Real(0.5);
  Real v_r = Real(0.92) - Real(4.2) / b;
  Real r = p / (1 - p);
  Real alpha = (Real(2.83) + Real(5.1) / b) * deviation;
  Real m = std::floor((count + 1) * p);
  for (;;) {
    Real u = Real(generator.uniform() - 0.5);
    Real v = Real(generator.uniform());
    Real us = Real(0.5) - std::fabs(u);
    Real k = std::floor((2 * a / us + b) * u + c);
    if (us >= Real(0.07) && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    Real bound = (m + Real(0.5)) * std::log((m + 1) / (r * (count - m + 1))) +
                 (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                 (k + Real(0.5)) * std::log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                 stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
    if (v <= bound) return k;
  }
}

template <class Real>
Real binomial(Generator& generator, Real count, Real p) {
  FL_CHECK(count >= 0, RuntimeError, "binomial: counts must not be negative, got {}",
           double(count));
  FL_CHECK(p >= 0 && p <= 1, RuntimeError, "binomial: probabilities must be in [0, 1], got {}",
           double(p));
  if (count == 0 || p == 0) return 0;
  if (p == 1) return count;
  Real rarer = p <= Real(0.5) ? p : 1 - p;
  Real successes = count * rarer >= 10 ? binomial_large(generator, count, rarer)
                                       : binomial_small(generator, count, rarer);
  return p <= Real(0.5) ? successes : count - successes;
}

// Marsaglia & Tsang 2000, "A simple method for generating gamma variables"; below 1 by their boost,
// alpha + 1 times a power.
// Torch's third is a float in every dtype, and what leads up to the loop is rounded to the dtype.
template <class Real>
double gamma(Generator& generator, Real alpha) {
  double scale = 1;
  if (alpha < 1) {
    if (alpha == 0) return 0;
    scale = std::pow(1 - generator.uniform(), double(1 / alpha));
    alpha += 1;
  }
  double d = alpha - Real(1.0f / 3);
  double c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x, y;
    do {
      x = generator.normal();
      y = 1 + c * x;
    } while (y <= 0);
    double v = y * y * y;
    double u = 1 - generator.uniform();
    double xx = x * x;
    if (u < 1 - 0.0331 * xx * xx) return scale * d * v;
    if (std::log(u) < 0.5 * xx + d * (1 - v + std::log(v))) return scale * d * v;
  }
}

// The smallest normal number and the distance from 1 to the next one below.
template <class T>
struct Limits {
  static constexpr double least = std::numeric_limits<T>::min();
  static constexpr double epsilon = std::numeric_limits<T>::epsilon();
};
template <>
struct Limits<Half> {
  static constexpr double least = 0x1p-14, epsilon = 0x1p-10;
};
template <>
struct Limits<BFloat16> {
  static constexpr double least = 0x1p-126, epsilon = 0x1p-7;
};

template <class T>
void dirichlet_row(Generator& generator, const T* alpha, T* out, double* gammas, int64_t columns) {
  double sum = 0;
  for (int64_t i = 0; i < columns; i++) {
    gammas[i] = std::max(Limits<T>::least, gamma(generator, to_double(alpha[i])));
    sum += gammas[i];
  }
  for (int64_t i = 0; i < columns; i++) {
    double share = gammas[i] / sum;
    double most = 1 - Limits<T>::epsilon / 2;
    out[i] = element<T>(std::min(most, std::max(Limits<T>::least, share)));
  }
}

template <class T>
void check_weights(const T* weights, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; row++) {
    double sum = 0;
    for (int64_t i = 0; i < columns; i++) {
      double weight = to_double(weights[row * columns + i]);
      FL_CHECK(std::isfinite(weight) && weight >= 0, RuntimeError,
               "multinomial: weights must be finite and not negative, got {} at ({}, {})", weight,
               row, i);
      sum += weight;
    }
    FL_CHECK(sum > 0, RuntimeError, "multinomial: the weights of row {} sum to {}, must be above 0",
             row, sum);
  }
}

// The first category whose cumulated share reaches a uniform number.
template <class Real, class T>
void choose_with_replacement(Generator& generator, const T* weights, Real* shares, int64_t columns,
                             int64_t samples, int64_t* out) {
  Real sum = 0;
  for (int64_t i = 0; i < columns; i++) shares[i] = sum += Real(to_double(weights[i]));
  for (int64_t i = 0; i < columns; i++) shares[i] /= sum;
  shares[columns - 1] = 1;
  for (int64_t s = 0; s < samples; s++) {
    double u = generator.uniform();
    int64_t low = 0;
    for (int64_t high = columns; low < high;) {
      int64_t middle = low + (high - low) / 2;
      if (shares[middle] < u)
        low = middle + 1;
      else
        high = middle;
    }
    out[s] = low;
  }
}

// Exponential race: the largest of weight / exponential numbers are a sample without replacement.
template <class T>
void choose_without(const T* times, int64_t columns, int64_t samples, int64_t* order,
                    int64_t* out) {
  for (int64_t i = 0; i < columns; i++) order[i] = i;
  auto wins = [=](int64_t a, int64_t b) {
    double x = to_double(times[a]), y = to_double(times[b]);
    return (std::isnan(x) && !std::isnan(y)) || x > y;
  };
  // torch's topk, for the order of equal values.
  if (samples * 64 <= columns) {
    std::partial_sort(order, order + samples, order + columns, wins);
  } else {
    std::nth_element(order, order + samples - 1, order + columns, wins);
    std::sort(order, order + samples - 1, wins);
  }
  std::copy(order, order + samples, out);
}

template <class T>
T divided(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a / b;
  else
    return element<T>(double(to_float(a) / to_float(b)));
}

template <class T>
void race(Generator& generator, const T* weights, int64_t rows, int64_t columns, int64_t samples,
          int64_t* out) {
  std::unique_ptr<T[]> times(new T[size_t(rows * columns)]);
  std::unique_ptr<int64_t[]> order(new int64_t[size_t(columns)]);
  for (int64_t i = 0; i < rows * columns; i++) {
    T time = element<T>(-std::log1p(-generator.uniform()));
    times[size_t(i)] = divided(weights[i], time);
  }
  for (int64_t row = 0; row < rows; row++) {
    choose_without(times.get() + row * columns, columns, samples, order.get(), out + row * samples);
  }
}

template <class T>
void permute(Generator& generator, T* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = element<T>(double(i));
  // From this size on torch takes 64 bits: the remainder of 32 would favour low numbers by more
  // than a twentieth.
  bool wide = n >= int64_t(std::numeric_limits<uint32_t>::max() / 20);
  // The draws do not depend on the swaps: memory is asked for a block ahead.
  constexpr int64_t kAhead = 64;
  int64_t others[kAhead];
  for (int64_t begin = 0; begin + 1 < n; begin += kAhead) {
    int64_t count = std::min(kAhead, n - 1 - begin);
    for (int64_t k = 0; k < count; k++) {
      int64_t i = begin + k;
      auto left = uint64_t(n - i);
      others[k] =
          i + int64_t(wide ? generator.random64() % left : generator.random() % uint32_t(left));
      __builtin_prefetch(out + others[k], 1);
    }
    for (int64_t k = 0; k < count; k++) std::swap(out[begin + k], out[others[k]]);
  }
}

}  // namespace

void sample_poisson(Generator& generator, DType dtype, const void* rate, void* out, int64_t n) {
  GeneratorLock lock(generator);
  for_float("poisson", dtype, [&](auto t) {
    using T = decltype(t);
    auto* rates = static_cast<const T*>(rate);
    auto* counts = static_cast<T*>(out);
    for (int64_t i = 0; i < n; i++) {
      counts[i] = element<T>(double(poisson(generator, to_double(rates[i]))));
    }
  });
}

void sample_binomial(Generator& generator, DType dtype, const void* count, const void* p, void* out,
                     int64_t n) {
  GeneratorLock lock(generator);
  for_float("binomial", dtype, [&](auto t) {
    using T = decltype(t);
    using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (int64_t i = 0; i < n; i++) {
      auto trials = Real(to_double(static_cast<const T*>(count)[i]));
      auto chance = Real(to_double(static_cast<const T*>(p)[i]));
      static_cast<T*>(out)[i] = element<T>(double(binomial(generator, trials, chance)));
    }
  });
}

void sample_gamma(Generator& generator, DType dtype, const void* alpha, void* out, int64_t n) {
  GeneratorLock lock(generator);
  for_float("gamma", dtype, [&](auto t) {
    using T = decltype(t);
    for (int64_t i = 0; i < n; i++) {
      using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
      double sample = gamma(generator, Real(to_double(static_cast<const T*>(alpha)[i])));
      static_cast<T*>(out)[i] = element<T>(std::max(Limits<T>::least, sample));
    }
  });
}

void sample_dirichlet(Generator& generator, DType dtype, const void* alpha, void* out, int64_t rows,
                      int64_t columns) {
  GeneratorLock lock(generator);
  std::unique_ptr<double[]> gammas(new double[size_t(columns)]);
  for_float("dirichlet", dtype, [&](auto t) {
    using T = decltype(t);
    for (int64_t row = 0; row < rows; row++) {
      dirichlet_row(generator, static_cast<const T*>(alpha) + row * columns,
                    static_cast<T*>(out) + row * columns, gammas.get(), columns);
    }
  });
}

void sample_multinomial(Generator& generator, DType dtype, const void* weights, int64_t rows,
                        int64_t columns, int64_t samples, bool replacement, int64_t* out) {
  FL_CHECK(replacement || samples <= columns, RuntimeError,
           "multinomial: without replacement there are at most {} samples, got {}", columns,
           samples);
  for_float("multinomial", dtype, [&](auto t) {
    using T = decltype(t);
    using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
    auto* rows_of = static_cast<const T*>(weights);
    check_weights(rows_of, rows, columns);
    GeneratorLock lock(generator);
    // A single sample needs no replacement, and torch draws it by the race.
    if (!replacement || samples == 1) {
      return race(generator, rows_of, rows, columns, samples, out);
    }
    std::unique_ptr<Real[]> shares(new Real[size_t(columns)]);
    for (int64_t row = 0; row < rows; row++) {
      choose_with_replacement(generator, rows_of + row * columns, shares.get(), columns, samples,
                              out + row * samples);
    }
  });
}

void fill_permutation(Generator& generator, DType dtype, void* out, int64_t n) {
  GeneratorLock lock(generator);
  auto each = [&](auto t) { permute(generator, static_cast<decltype(t)*>(out), n); };
  if (!visit_integer(dtype, each) && !visit_float(dtype, each)) refuse("randperm", dtype);
}

}  // namespace flambeau
