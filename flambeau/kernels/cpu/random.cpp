// Fills: one distribution, one set of parameters, many elements.
#include "flambeau/kernels/cpu/random.h"

#include <cmath>

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/cast.h"
#include "flambeau/kernels/cpu/random_bits.h"
#include "flambeau/kernels/cpu/random_types.h"

namespace flambeau {
namespace {

constexpr int64_t kWords = 2048;  // drawn at a time, on the stack
constexpr int64_t kNormals = int64_t(1)
                             << 18;  // numbers drawn before their pairs are computed in parallel
constexpr int64_t kBlocksPerChunk = 512;
constexpr int kPair = 16;  // a block of eight pairs, eight apart

template <class T, class Draw>
void fill(void* out, int64_t n, const Draw& draw) {
  T* p = static_cast<T*>(out);
  for (int64_t i = 0; i < n; i++) p[i] = element<T>(draw());
}

template <class Draw>
void fill_real(const char* op, DType dtype, void* out, int64_t n, const Draw& draw) {
  if (!visit_float(dtype, [&](auto t) { fill<decltype(t)>(out, n, draw); })) refuse(op, dtype);
}

void uniform_numbers(Generator& generator, float* out, int64_t n, float from, float to) {
  uint32_t words[kWords];
  for (; n > 0; n -= kWords, out += kWords) {
    int64_t part = n < kWords ? n : kWords;
    generator.random(words, part);
    uniform_floats(words, out, part, from, to);
  }
}

void uniform_numbers(Generator& generator, double* out, int64_t n, double from, double to) {
  uint32_t words[kWords];
  for (constexpr int64_t half = kWords / 2; n > 0; n -= half, out += half) {
    int64_t part = n < half ? n : half;
    generator.random(words, 2 * part);
    uniform_doubles(words, out, part, from, to);
  }
}

void narrow(const float* from, DType dtype, void* to, int64_t n) {
  cast_strided(DType::Float32, dtype, from, sizeof(float), to, itemsize(dtype), n);
}

// Computed in float. What is rounded up to the open end becomes the other one.
template <class T>
void uniform_halves(Generator& generator, T* out, int64_t n, float from, float to) {
  T first = element<T>(from), end = element<T>(to);
  float block[kWords];
  for (; n > 0; n -= kWords, out += kWords) {
    int64_t part = n < kWords ? n : kWords;
    uniform_numbers(generator, block, part, from, to);
    narrow(block, kDTypeOf<T>, out, part);
    for (int64_t i = 0; i < part; i++) {
      if (out[i].bits == end.bits) out[i] = first;
    }
  }
}

// Pairs of doubles; libm's functions, as torch has none of its own here.
void normal_pairs(double* data, int64_t blocks, double mean, double std) {
  for (int64_t b = 0; b < blocks; b++, data += kPair) {
    for (int j = 0; j < kPair / 2; j++) {
      double radius = std::sqrt(-2 * std::log(1 - data[j]));
      double angle = 2 * M_PI * data[j + kPair / 2];
      data[j] = std::fma(radius * std::cos(angle), std, mean);
      data[j + kPair / 2] = std::fma(radius * std::sin(angle), std, mean);
    }
  }
}

void normal_pairs(float* data, int64_t blocks, double mean, double std) {
  normal_blocks(data, blocks, float(mean), float(std));
}

// 16 numbers or more: all are drawn uniform, block after block becomes normal. An incomplete last
// block is replaced by the last 16 numbers, drawn again.
template <class T>
void normal_dense(Generator& generator, T* out, int64_t n, double mean, double std) {
  int64_t whole = n / kPair * kPair;
  for (int64_t begin = 0; begin < whole; begin += kNormals) {
    int64_t part = whole - begin < kNormals ? whole - begin : kNormals;
    T* data = out + begin;
    uniform_numbers(generator, data, part, 0, 1);
    parallel_for(part / kPair, kBlocksPerChunk, [=](int64_t first, int64_t last) {
      normal_pairs(data + first * kPair, last - first, mean, std);
    });
  }
  if (whole == n) return;
  uniform_numbers(generator, out + whole, n - whole, 0, 1);
  T* last = out + n - kPair;
  uniform_numbers(generator, last, kPair, 0, 1);
  normal_pairs(last, 1, mean, std);
}

// Halves are made of floats, block by block: nothing is drawn for the incomplete block but its 16
// replacements.
template <class T>
void normal_halves(Generator& generator, T* out, int64_t n, double mean, double std) {
  float block[kPair];
  for (int64_t begin = 0; begin < n; begin += kPair) {
    T* data = out + (begin + kPair <= n ? begin : n - kPair);
    uniform_numbers(generator, block, kPair, 0, 1);
    normal_pairs(block, 1, mean, std);
    narrow(block, kDTypeOf<T>, data, kPair);
  }
}

template <class T>
void normal(Generator& generator, T* out, int64_t n, double mean, double std, bool dense) {
  if (!dense || n < kPair) {
    fill<T>(out, n, [&] { return std::fma(generator.normal(), std, mean); });
  } else if constexpr (std::is_floating_point_v<T>) {
    normal_dense(generator, out, n, mean, std);
  } else {
    normal_halves(generator, out, n, mean, std);
  }
}

// The bits of 1 in a dtype.
uint64_t one_of(DType dtype) {
  uint64_t one = 1;
  visit_float(dtype, [&](auto t) {
    auto value = element<decltype(t)>(1);
    one = 0;
    std::memcpy(&one, &value, sizeof value);
  });
  return one;
}

// x mod d for 32-bit x without a division: Lemire, Kaser & Kurz 2019.
struct Remainder {
  uint64_t reciprocal;
  uint32_t divisor;
  explicit Remainder(uint32_t d) : reciprocal(~uint64_t(0) / d + 1), divisor(d) {}
  uint32_t operator()(uint32_t x) const {
    unsigned __int128 fraction = reciprocal * x;
    return uint32_t((fraction * divisor) >> 64);
  }
};

template <class T>
T integer_element(int64_t x) {
  if constexpr (std::is_integral_v<T>)
    return T(x);
  else if constexpr (std::is_floating_point_v<T>)
    return T(x);
  else
    return element<T>(double(float(x)));
}

// From 2^28 values on torch takes the remainder of two draws: of 32 bits it would no longer look
// uniform.
template <class T>
void integers(Generator& generator, T* out, int64_t n, int64_t base, uint64_t range) {
  if (range == 0 || range >= uint64_t(1) << 28) {
    for (int64_t i = 0; i < n; i++) {
      uint64_t x = generator.random64();
      out[i] = integer_element<T>(int64_t(range ? x % range + uint64_t(base) : x));
    }
    return;
  }
  Remainder remainder{uint32_t(range)};
  for (int64_t i = 0; i < n; i++) {
    out[i] = integer_element<T>(int64_t(remainder(generator.random()) + uint64_t(base)));
  }
}

template <class T>
constexpr int kMantissa = std::is_same_v<T, double>     ? 53
                          : std::is_same_v<T, float>    ? 24
                          : std::is_same_v<T, BFloat16> ? 8
                                                        : 11;

template <class T>
void all_integers(Generator& generator, T* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if constexpr (std::is_same_v<T, bool>) {
      out[i] = generator.random() & 1;
    } else if constexpr (std::is_same_v<T, double>) {
      out[i] = double(generator.random64() % ((uint64_t(1) << 53) + 1));
    } else if constexpr (!std::is_integral_v<T>) {
      out[i] = integer_element<T>(generator.random() % ((1u << kMantissa<T>)+1));
    } else if constexpr (sizeof(T) == 8) {
      uint64_t x = generator.random64();
      out[i] = T(std::is_signed_v<T> ? x & ~(uint64_t(1) << 63) : x);
    } else {
      uint32_t values = std::is_signed_v<T> ? 1u << (8 * sizeof(T) - 1) : 0;
      out[i] = T(values ? generator.random() % values : generator.random());
    }
  }
}

// A step of the dtype near x: 2^(exponent - mantissa bits + 1).
int64_t step_near(int64_t x, int mantissa) {
  uint64_t magnitude = x < 0 ? -uint64_t(x) : uint64_t(x);
  int exponent = 63 - __builtin_clzll(magnitude | 1);
  return exponent < mantissa ? 1 : int64_t(1) << (exponent - mantissa + 1);
}

template <class T>
int64_t rounded(int64_t x) {
  return int64_t(to_double(integer_element<T>(x)));
}

template <class T>
void check_probabilities(const T* p, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double value = to_double(p[i]);
    FL_CHECK(value >= 0 && value <= 1, RuntimeError,
             "bernoulli: probabilities must be in [0, 1], got {} at {}", value, i);
  }
}

template <class T, class P>
void bernoulli_each(Generator& generator, T* out, const P* p, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double u = std::is_same_v<P, double> ? generator.uniform() : generator.uniform_float();
    out[i] = element<T>(u < to_double(p[i]));
  }
}

}  // namespace

void fill_uniform(Generator& generator, DType dtype, void* out, int64_t n, double from, double to) {
  GeneratorLock lock(generator);
  if (is_complex(dtype)) dtype = real_of(dtype), n *= 2;
  bool done = visit_float(dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_floating_point_v<T>) {
      uniform_numbers(generator, static_cast<T*>(out), n, T(from), T(to));
    } else {
      uniform_halves(generator, static_cast<T*>(out), n, float(from), float(to));
    }
  });
  if (!done) refuse("uniform", dtype);
}

void fill_normal(Generator& generator, DType dtype, void* out, int64_t n, double mean, double std,
                 bool dense) {
  GeneratorLock lock(generator);
  if (is_complex(dtype)) {
    dtype = real_of(dtype);
    std /= M_SQRT2;
    n *= 2;
  }
  bool done = visit_float(dtype, [&](auto t) {
    normal(generator, static_cast<decltype(t)*>(out), n, mean, std, dense);
  });
  if (!done) refuse("normal", dtype);
}

void fill_bernoulli(Generator& generator, DType dtype, void* out, int64_t n, double p) {
  if (is_complex(dtype)) refuse("bernoulli", dtype);
  GeneratorLock lock(generator);
  // u < p for u = x / 2^53 is x < p * 2^53, rounded up.
  auto threshold = int64_t(std::ceil(p * 0x1p53));
  uint64_t one = one_of(dtype);
  auto* bytes = static_cast<char*>(out);
  uint32_t words[kWords];
  for (constexpr int64_t half = kWords / 2; n > 0; n -= half, bytes += half * itemsize(dtype)) {
    int64_t part = n < half ? n : half;
    generator.random(words, 2 * part);
    bernoulli_words(words, bytes, part, threshold, one, int(itemsize(dtype)));
  }
}

void fill_bernoulli(Generator& generator, DType dtype, void* out, int64_t n, DType p_dtype,
                    const void* p) {
  auto each = [&](auto t) {
    auto* to = static_cast<decltype(t)*>(out);
    bool done = visit_float(p_dtype, [&](auto s) {
      auto* from = static_cast<const decltype(s)*>(p);
      check_probabilities(from, n);
      GeneratorLock lock(generator);
      bernoulli_each(generator, to, from, n);
    });
    if (!done) refuse("bernoulli", p_dtype);
  };
  if (!visit_float(dtype, each) && !visit_integer(dtype, each)) refuse("bernoulli", dtype);
}

void fill_integers(Generator& generator, DType dtype, void* out, int64_t n, int64_t base,
                   uint64_t range) {
  GeneratorLock lock(generator);
  auto each = [&](auto t) { integers(generator, static_cast<decltype(t)*>(out), n, base, range); };
  if (!visit_integer(dtype, each) && !visit_float(dtype, each)) refuse("random", dtype);
}

void fill_integers(Generator& generator, DType dtype, void* out, int64_t n) {
  GeneratorLock lock(generator);
  auto each = [&](auto t) { all_integers(generator, static_cast<decltype(t)*>(out), n); };
  if (!visit_integer(dtype, each) && !visit_float(dtype, each)) refuse("random", dtype);
}

void narrow_to_dtype(DType dtype, int64_t& low, int64_t& high) {
  visit_float(dtype, [&](auto t) {
    using T = decltype(t);
    int64_t above = rounded<T>(low + 1);
    if (above < low) low = above + step_near(low + 1, kMantissa<T>);
    int64_t last = rounded<T>(high - 1);
    if (last >= high) high = last - step_near(high - 1, kMantissa<T>);
  });
}

void fill_exponential(Generator& generator, DType dtype, void* out, int64_t n, double lambda) {
  GeneratorLock lock(generator);
  fill_real("exponential", dtype, out, n,
            [&] { return -1 / lambda * std::log1p(-generator.uniform()); });
}

void fill_cauchy(Generator& generator, DType dtype, void* out, int64_t n, double median,
                 double sigma) {
  GeneratorLock lock(generator);
  fill_real("cauchy", dtype, out, n,
            [&] { return std::fma(sigma, std::tan(M_PI * (generator.uniform() - 0.5)), median); });
}

void fill_log_normal(Generator& generator, DType dtype, void* out, int64_t n, double mean,
                     double std) {
  GeneratorLock lock(generator);
  fill_real("log_normal", dtype, out, n,
            [&] { return std::exp(std::fma(generator.normal(), std, mean)); });
}

void fill_geometric(Generator& generator, DType dtype, void* out, int64_t n, double p) {
  GeneratorLock lock(generator);
  double scale = std::log1p(-p);
  auto draw = [&] { return std::ceil(std::log(generator.uniform()) / scale); };
  auto each = [&](auto t) { fill<decltype(t)>(out, n, draw); };
  if (!visit_float(dtype, each) && !visit_integer(dtype, each)) refuse("geometric", dtype);
}

}  // namespace flambeau
