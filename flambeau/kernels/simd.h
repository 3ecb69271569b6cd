// Vec<T>: one register of T, and Mask: one register of answers. Formulas written with them run on
// every instruction set: a kernel source is compiled once for each (kernel.h). Elementary functions
// are in math.h, complex numbers in cplx.h, half types in halves.h.
#pragma once
#include <type_traits>
#include <utility>

#include "flambeau/core/config.h"
#include "flambeau/kernels/simd_x86.h"

namespace flambeau::FL_ISA {

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T>;
template <class T>
concept Floating = kIsFloat<T>;
template <class T>
concept Integral = std::is_integral_v<T>;
template <class T>
concept Number = std::is_arithmetic_v<T>;

// One answer per lane of Size bytes: all bits set or none.
template <int Size>
struct Mask {
  using Lanes = Raw<typename IntOfSize<Size>::type>;
  static constexpr int kLanes = kVecBytes / Size;
  Lanes v;

  Mask() = default;
  Mask(Lanes raw) : v(raw) {}
  Mask(bool all) : v(all ? ~Lanes{} : Lanes{}) {}

  static Mask load(const bool* p) { return load_partial(p, kLanes); }
  static Mask load_partial(const bool* p, int64_t n) {
    Raw<int8_t, kLanes> bytes{};
    __builtin_memcpy(&bytes, p, size_t(n));
    return __builtin_convertvector(bytes != 0, Lanes);
  }
  void store(bool* p) const { store_mask(p, v); }
  void store_partial(bool* p, int64_t n) const {
    bool all[kLanes];
    store_mask(all, v);
    for (int64_t i = 0; i < n; ++i) p[i] = all[i];
  }
  bool lane(int i) const { return v[i] != 0; }

  friend Mask operator&&(Mask a, Mask b) { return a.v & b.v; }
  friend Mask operator||(Mask a, Mask b) { return a.v | b.v; }
  friend Mask operator&(Mask a, Mask b) { return a.v & b.v; }
  friend Mask operator|(Mask a, Mask b) { return a.v | b.v; }
  friend Mask operator^(Mask a, Mask b) { return a.v ^ b.v; }
  friend Mask operator!=(Mask a, Mask b) { return a.v ^ b.v; }
  friend Mask operator==(Mask a, Mask b) { return ~(a.v ^ b.v); }
  friend Mask operator!(Mask a) { return ~a.v; }
  friend Mask operator~(Mask a) { return ~a.v; }
  friend bool any(Mask a) { return any_raw(a.v); }
  friend bool all(Mask a) { return !any_raw(~a.v); }
};

template <class T>
struct Vec {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  using Scalar = T;
  using Lanes = Raw<T>;
  using Mask = FL_ISA::Mask<sizeof(T)>;
  // Integers wrap: they are computed in the unsigned type, where overflow is defined.
  using Unsigned = Raw<typename IntOfSize<sizeof(T)>::unsigned_type>;
  static constexpr int kLanes = kVecBytes / int(sizeof(T));
  static constexpr int kBits = 8 * sizeof(T);
  Lanes v;

  Vec() = default;
  Vec(Lanes raw) : v(raw) {}
  // s - 0 keeps the sign of -0, s + 0 would not.
  template <Number S>
  Vec(S s) : v(T(s) - Lanes{}) {}

  static Vec load(const T* p) {
    Vec x;
    __builtin_memcpy(&x.v, p, kVecBytes);
    return x;
  }
  static Vec load_partial(const T* p, int64_t n) { return load_first<T>(p, n); }
  void store(T* p) const { __builtin_memcpy(p, &v, kVecBytes); }
  void store_partial(T* p, int64_t n) const { store_first<T>(p, v, n); }
  T lane(int i) const { return v[i]; }
  void set_lane(int i, T value) { v[i] = value; }

  friend Vec operator+(Vec a, Vec b) {
    if constexpr (kIsFloat<T>) return a.v + b.v;
    return Lanes(Unsigned(a.v) + Unsigned(b.v));
  }
  friend Vec operator-(Vec a, Vec b) {
    if constexpr (kIsFloat<T>) return a.v - b.v;
    return Lanes(Unsigned(a.v) - Unsigned(b.v));
  }
  friend Vec operator*(Vec a, Vec b) {
    if constexpr (kIsFloat<T>) return a.v * b.v;
    return Lanes(Unsigned(a.v) * Unsigned(b.v));
  }
  friend Vec operator/(Vec a, Vec b) {
    if constexpr (kIsFloat<T>)
      return a.v / b.v;
    else
      return divide_integers(a, b);
  }
  friend Vec operator%(Vec a, Vec b) requires(!kIsFloat<T>) {
    return select(b == Vec(0), Vec(0), a - divide_integers(a, b) * b);
  }
  friend Vec operator-(Vec a) {
    if constexpr (kIsFloat<T>) return -a.v;
    return Lanes(-Unsigned(a.v));
  }
  friend Vec operator+(Vec a) { return a; }
  Vec& operator+=(Vec b) { return *this = *this + b; }
  Vec& operator-=(Vec b) { return *this = *this - b; }
  Vec& operator*=(Vec b) { return *this = *this * b; }
  Vec& operator/=(Vec b) { return *this = *this / b; }

  // Bits. On floating lanes too: the sign and mantissa games of math.h.
  friend Vec operator&(Vec a, Vec b) { return Lanes(Unsigned(a.v) & Unsigned(b.v)); }
  friend Vec operator|(Vec a, Vec b) { return Lanes(Unsigned(a.v) | Unsigned(b.v)); }
  friend Vec operator^(Vec a, Vec b) { return Lanes(Unsigned(a.v) ^ Unsigned(b.v)); }
  friend Vec operator~(Vec a) { return Lanes(~Unsigned(a.v)); }
  // As torch: a count outside [0, bits) shifts everything out.
  friend Vec operator<<(Vec a, Vec b) requires(!kIsFloat<T>) {
    Unsigned count = Unsigned(b.v);
    return Lanes(count < kBits ? Unsigned(a.v) << (count & (kBits - 1)) : Unsigned{});
  }
  friend Vec operator>>(Vec a, Vec b) requires(!kIsFloat<T>) {
    Unsigned count = Unsigned(b.v);
    Lanes shifted = a.v >> Lanes(count & (kBits - 1));
    Lanes emptied = std::is_signed_v<T> ? a.v >> (kBits - 1) : Lanes{};
    return count < kBits ? shifted : emptied;
  }

  friend Mask operator==(Vec a, Vec b) { return a.v == b.v; }
  friend Mask operator!=(Vec a, Vec b) { return a.v != b.v; }
  friend Mask operator<(Vec a, Vec b) { return a.v < b.v; }
  friend Mask operator<=(Vec a, Vec b) { return a.v <= b.v; }
  friend Mask operator>(Vec a, Vec b) { return a.v > b.v; }
  friend Mask operator>=(Vec a, Vec b) { return a.v >= b.v; }
  friend Vec select(Mask m, Vec a, Vec b) { return m.v ? a.v : b.v; }

  // A NaN on either side is the result, as in torch.minimum.
  friend Vec min(Vec a, Vec b) {
    if constexpr (kIsFloat<T>)
      return a.v == a.v ? lesser_raw(a.v, b.v) : a.v;
    else
      return a.v < b.v ? a.v : b.v;
  }
  friend Vec max(Vec a, Vec b) {
    if constexpr (kIsFloat<T>)
      return a.v == a.v ? greater_raw(a.v, b.v) : a.v;
    else
      return a.v > b.v ? a.v : b.v;
  }
  friend Vec abs(Vec a) {
    if constexpr (kIsFloat<T>) {
      return Lanes(Unsigned(a.v) & (~Unsigned{} >> 1));
    } else if constexpr (std::is_signed_v<T>) {
      return select(a < Vec(0), -a, a);
    } else {
      return a;
    }
  }
  // a * b + c in one rounding where the processor can (kFused).
  friend Vec fma(Vec a, Vec b, Vec c) {
    if constexpr (kIsFloat<T>) return fma_raw(a.v, b.v, c.v);
    return a * b + c;
  }
  friend Vec sqrt(Vec a) requires(kIsFloat<T>) { return sqrt_raw(a.v); }
  friend Vec floor(Vec a) { return rounded<kFloor>(a); }
  friend Vec ceil(Vec a) { return rounded<kCeil>(a); }
  friend Vec trunc(Vec a) { return rounded<kTrunc>(a); }
  friend Vec round(Vec a) { return rounded<kNearestEven>(a); }  // half to even
  friend Vec copysign(Vec magnitude, Vec sign) requires(kIsFloat<T>) {
    Unsigned low = ~Unsigned{} >> 1;
    return Lanes((Unsigned(magnitude.v) & low) | (Unsigned(sign.v) & ~low));
  }
  friend Vec conj(Vec a) { return a; }
  friend Vec real(Vec a) { return a; }
  friend Vec imag(Vec) { return Vec(0); }

 private:
  template <RoundMode Mode>
  static Vec rounded(Vec a) {
    if constexpr (kIsFloat<T>) return round_raw<Mode>(a.v);
    return a;
  }
  // By way of doubles where they hold the numbers: a quotient of less than 53 bits cannot round up
  // to an integer.
  static Lanes divide_lanes(Lanes a, Lanes b) {
    if constexpr (std::is_same_v<T, int32_t>) {
      return truncate_raw(widen_low(a) / widen_low(b), widen_high(a) / widen_high(b));
    } else {
#if defined(__AVX512F__)
      Unsigned magnitudes = Unsigned(abs(Vec(a)).v) | Unsigned(abs(Vec(b)).v);
      if (!any_raw((magnitudes >> 52) != 0)) {
        using Wide = Raw<double>;
        return __builtin_convertvector(
            __builtin_convertvector(a, Wide) / __builtin_convertvector(b, Wide), Lanes);
      }
#endif
      Lanes quotient;
      for (int i = 0; i < kLanes; ++i) quotient[i] = a[i] / b[i];
      return quotient;
    }
  }
  // Rounds to zero; x / 0 is 0 and min / -1 wraps, since the processor would trap.
  static Vec divide_integers(Vec a, Vec b) {
    Lanes divisor = b.v == 0 ? Lanes{} + 1 : b.v;
    if constexpr (std::is_signed_v<T>) divisor = b.v == -1 ? Lanes{} + 1 : divisor;
    Lanes quotient = divide_lanes(a.v, divisor);
    if constexpr (std::is_signed_v<T>) quotient = b.v == -1 ? (-a).v : quotient;
    return b.v == 0 ? Lanes{} : quotient;
  }
};

// The same bits as another type of the same size.
template <class To, class From>
To bits_as(From x) {
  return typename To::Lanes(x.v);
}
template <class T>
using IntVec = Vec<typename IntOfSize<sizeof(T)>::type>;
inline Vec<int32_t> bits(Vec<float> x) { return bits_as<Vec<int32_t>>(x); }
inline Vec<int64_t> bits(Vec<double> x) { return bits_as<Vec<int64_t>>(x); }
inline Vec<float> from_bits(Vec<int32_t> x) { return bits_as<Vec<float>>(x); }
inline Vec<double> from_bits(Vec<int64_t> x) { return bits_as<Vec<double>>(x); }

// Values as another type of the same size; towards integers truncated, and the range is the
// caller's care.
template <class To, class From>
Vec<To> convert(Vec<From> x) {
  return __builtin_convertvector(x.v, typename Vec<To>::Lanes);
}

// A register of floats as two of doubles, and back: for results that float arithmetic cannot reach.
struct DoublePair {
  Vec<double> low, high;
};
inline DoublePair widen(Vec<float> x) { return {widen_low(x.v), widen_high(x.v)}; }
inline Vec<float> narrow(DoublePair x) { return narrow_raw(x.low.v, x.high.v); }

// f of every lane, one by one: for rare functions.
template <class T, class F, class... More>
Vec<T> map_lanes(F f, Vec<T> x, More... more) {
  for (int i = 0; i < Vec<T>::kLanes; ++i) x.v[i] = f(x.v[i], more.v[i]...);
  return x;
}

// Folds the lanes of one register, halves onto halves, by f of two registers: the order depends on
// the width alone.
template <int Distance, class T, int... I>
Vec<T> swap_lanes(Vec<T> x, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(x.v, x.v, (I ^ Distance)...);
}
template <int Distance = kVecBytes, class T, class F>
T fold_lanes(Vec<T> x, F f) {
  constexpr int lanes = Vec<T>::kLanes;
  if constexpr (Distance >= lanes) {
    return fold_lanes<lanes / 2>(x, f);
  } else if constexpr (Distance == 0) {
    return x.v[0];
  } else {
    using Sequence = std::make_integer_sequence<int, lanes>;
    return fold_lanes<Distance / 2>(f(x, swap_lanes<Distance>(x, Sequence())), f);
  }
}
template <class T>
T sum_lanes(Vec<T> x) {
  return fold_lanes(x, [](Vec<T> a, Vec<T> b) { return a + b; });
}
template <class T>
T max_lanes(Vec<T> x) {
  return fold_lanes(x, [](Vec<T> a, Vec<T> b) { return max(a, b); });
}
template <class T>
T min_lanes(Vec<T> x) {
  return fold_lanes(x, [](Vec<T> a, Vec<T> b) { return min(a, b); });
}

}  // namespace flambeau::FL_ISA
