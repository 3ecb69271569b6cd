// Trigonometric functions and their inverses: sin, cos, tan, asin, acos, atan, atan2, sinc.
#pragma once
#include "flambeau/kernels/math_base.h"
#include "flambeau/kernels/math_table.h"

namespace flambeau::FL_ISA {

// pi/2 in pieces. Those of 33 bits have exact products with n < 2^20 (Cody and Waite 1980; fdlibm,
// Sun 1993).
inline constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54;
inline constexpr double kHalfPi1 = 0x1.921fb544p+0, kHalfPi2 = 0x1.0b4611a6p-34,
                        kHalfPi3 = 0x1.3198a2ep-69, kHalfPi4 = 0x1.b839a252049c1p-104;
inline constexpr double kHalfPiLowest = -0x1.f1976b7ed8fbcp-110;
// Larger arguments go to the C library, which has the digits of pi to reduce them.
inline constexpr double kLargestAngle = 0x1p20;

// x - n pi/2 times the scale, a power of two, as a double that is good enough for a float result.
template <int Scale>
inline Vec<double> subtract_quarters(Vec<double> x, Vec<double> n) {
  if constexpr (kFused) {
    return fma(n, Vec<double>(-Scale * kHalfPiLow), fma(n, Vec<double>(-Scale * kHalfPi), x));
  } else {
    return ((x - n * (Scale * kHalfPi1)) - n * (Scale * kHalfPi2)) - n * (Scale * kHalfPi3);
  }
}

// sin r for |r| <= pi/2, good enough for a float.
inline Vec<double> sin_short(Vec<double> r) {
  Vec<double> z = r * r;
  Vec<double> p = polynomial(z, -0.166666595184529, 0.0083330653839680385, -0.00019809536601977015,
                             2.6056273083274511e-06);
  return r * fma(p, z, Vec<double>(1));
}

// Both functions of a float as (-1)^n sin(x - q pi/2): one polynomial over half a turn.
inline Vec<double> sin_for_float(Vec<double> x) {
  Vec<double> t = fma(x, Vec<double>(1 / kPi), Vec<double>(kRounder<double>));
  Vec<double> n = t - kRounder<double>;
  Vec<double> r = subtract_quarters<2>(x, n);
  return sin_short(r) ^ from_bits(shift_left<63>(bits(t)));
}
inline Vec<double> cos_for_float(Vec<double> x) {
  Vec<double> t = fma(x, Vec<double>(1 / kPi), Vec<double>(-0.5)) + kRounder<double>;
  Vec<double> q = 2 * (t - kRounder<double>)+1;
  Vec<double> r = subtract_quarters<1>(x, q);
  return sin_short(r) ^ from_bits(shift_left<63>(~bits(t)));
}

// tan(x - n pi/2) by a polynomial over a quarter turn; its negative reciprocal for odd n.
inline Vec<double> tan_for_float(Vec<double> x) {
  Vec<double> t = fma(x, Vec<double>(1 / kHalfPi), Vec<double>(kRounder<double>));
  Vec<double> r = subtract_quarters<1>(x, t - kRounder<double>), z = r * r;
  Vec<double> p = polynomial(z, 0.33333351736880773, 0.13332599560288216, 0.054066741911019983,
                             0.021248637974131079, 0.010919116783460317, -1.2143109781261744e-05,
                             0.0044247726011766532);
  Vec<double> y = r * fma(p, z, Vec<double>(1));
  return select((bits(t) & 1) == 0, y, -reciprocal_near(y));
}

// A double angle x = n pi/2 + high + low, |high| <= pi/4, for |x| <= kLargestAngle.
struct ReducedAngle {
  Vec<int64_t> n;
  Vec<double> high, low;
};
inline ReducedAngle reduce_angle(Vec<double> x) {
  Vec<double> t = fma(x, Vec<double>(1 / kHalfPi), Vec<double>(kRounder<double>));
  Vec<double> n = t - kRounder<double>;
  if constexpr (kFused) {
    // The first difference is exact: both sides are multiples of 2^-53 below 1.
    Vec<double> coarse = fma(n, Vec<double>(-kHalfPi), x);
    Vec<double> high = fma(n, Vec<double>(-kHalfPiLow), coarse);
    Vec<double> low = fma(n, Vec<double>(-kHalfPiLow), coarse - high);
    return {bits(t), high, fma(n, Vec<double>(-kHalfPiLowest), low)};
  } else {
    Doubled<double> a = sum_exact(x - n * kHalfPi1, n * -kHalfPi2);
    Doubled<double> b = sum_ordered(a.high, a.low - n * kHalfPi3 - n * kHalfPi4);
    return {bits(t), b.high, b.low};
  }
}

// sin(high + low) and cos(high + low).
inline Vec<double> sin_kernel(const ReducedAngle& r) {
  Vec<double> z = r.high * r.high;
  Vec<double> p =
      polynomial(z, -0.16666666666666632, 0.008333333333322316, -0.0001984126982972582,
                 2.7557313662265227e-06, -2.5050753295886291e-08, 1.5896506705133576e-10);
  return r.high + fma(p * z, r.high, r.low * fma(z, Vec<double>(-0.5), Vec<double>(1)));
}
inline Vec<double> cos_kernel(const ReducedAngle& r) {
  Vec<double> z = r.high * r.high, w = fma(z, Vec<double>(-0.5), Vec<double>(1));
  Vec<double> p =
      polynomial(z, 0.041666666666666602, -0.0013888888888873992, 2.4801587289395946e-05,
                 -2.7557314326313618e-07, 2.0875719596269094e-09, -1.1359450596808128e-11);
  Vec<double> lost = fma(z, Vec<double>(-0.5), 1 - w);
  return w + fma(z * z, p, fma(-r.high, r.low, lost));
}

inline Vec<double> sin(Vec<double> x) {
  if (FL_UNLIKELY(any_beyond(x, kLargestAngle))) {
    return map_lanes([](double v) { return __builtin_sin(v); }, x);
  }
  ReducedAngle r = reduce_angle(x);
  Vec<double> y = select((r.n & 1) == 0, sin_kernel(r), cos_kernel(r));
  return select(x == 0, x, y ^ from_bits(shift_left<62>(r.n & 2)));
}
inline Vec<double> cos(Vec<double> x) {
  if (FL_UNLIKELY(any_beyond(x, kLargestAngle))) {
    return map_lanes([](double v) { return __builtin_cos(v); }, x);
  }
  ReducedAngle r = reduce_angle(x);
  Vec<double> y = select((r.n & 1) == 0, cos_kernel(r), sin_kernel(r));
  return y ^ from_bits(shift_left<62>((r.n + 1) & 2));
}
inline Vec<double> tan(Vec<double> x) {
  if (FL_UNLIKELY(any_beyond(x, kLargestAngle))) {
    return map_lanes([](double v) { return __builtin_tan(v); }, x);
  }
  ReducedAngle r = reduce_angle(x);
  Vec<double> s = sin_kernel(r), c = cos_kernel(r);
  auto even = (r.n & 1) == 0;
  return select(x == 0, x, select(even, s, -c) / select(even, c, s));
}

inline Vec<float> sin_by_double(Vec<float> x) {
  if (FL_UNLIKELY(any_beyond(x, kLargestAngle))) {
    return map_lanes([](float v) { return __builtin_sinf(v); }, x);
  }
  return through_double([](Vec<double> v) { return sin_for_float(v); }, x);
}
inline Vec<float> cos_by_double(Vec<float> x) {
  if (FL_UNLIKELY(any_beyond(x, kLargestAngle))) {
    return map_lanes([](float v) { return __builtin_cosf(v); }, x);
  }
  return through_double([](Vec<double> v) { return cos_for_float(v); }, x);
}
inline Vec<float> tan_by_double(Vec<float> x) {
  if (FL_UNLIKELY(any_beyond(x, kLargestAngle))) {
    return map_lanes([](float v) { return __builtin_tanf(v); }, x);
  }
  return through_double([](Vec<double> v) { return tan_for_float(v); }, x);
}

#if defined(__AVX512F__)
// A float angle as r and n 32nds of a turn, and what sin r and cos r are beyond r and 1: for sums
// with a sine from the table (S. Gal 1986). The products of n with the first piece of pi/16 leave
// exact differences, those with the second are exact; what the second difference loses is carried
// along.
struct TurnedAngle {
  Vec<int32_t> n;
  Vec<float> r, sine_rest, cosine_rest;
};
inline constexpr double kLargestTurn = 800;  // n has 12 bits
inline TurnedAngle turn_back(Vec<float> x) {
  Vec<float> t = fma(x, Vec<float>(16 / kPi), Vec<float>(kRounder<float>));
  Vec<float> n = t - kRounder<float>;
  Vec<float> coarse = fma(n, Vec<float>(-0x1.921fb6p-3), x);
  Vec<float> r = fma(n, Vec<float>(0x1.778p-28), coarse);
  Vec<float> low = fma(n, Vec<float>(0x1.778p-28), coarse - r);
  low = fma(n, Vec<float>(-0x1.68c234p-42), low);
  Vec<float> z = r * r;
  Vec<float> sine_rest = fma(r * z, polynomial(z, -0.16666666, 0.0083329), low);
  return {bits(t), r, sine_rest, z * polynomial(z, -0.5, 0.04166)};
}
// The sine of r and an angle whose sine (with what rounding took) and cosine the table has. Of the
// large terms, the sine and the product with r, the sum's error is kept.
inline Doubled<float> turned_sine(const TurnedAngle& a, Vec<float> sine, Vec<float> lost,
                                  Vec<float> cosine) {
  Vec<float> high = fma(cosine, a.r, sine);
  Vec<float> low = fma(cosine, a.sine_rest, fma(sine, a.cosine_rest, lost));
  return {high, low + fma(cosine, a.r, sine - high)};
}

// y, but z(x) in the lanes whose angle is too large: an element's bits do not depend on its
// neighbours.
template <class F>
inline Vec<float> beyond_turns(Vec<float> x, Vec<float> y, F z) {
  if (FL_LIKELY(!any_beyond(x, kLargestTurn))) return y;
  return select(abs(x) <= kLargestTurn, y, z(x));
}

inline Vec<float> sin(Vec<float> x) {
  TurnedAngle a = turn_back(x);
  Vec<float> sine = look_up(kSines, a.n), cosine = look_up(kSines, a.n + 8);
  Doubled<float> s = turned_sine(a, sine, look_up(kSinesLost, a.n), cosine);
  return beyond_turns(x, select(x == 0, x, s.high + s.low), sin_by_double);
}
inline Vec<float> cos(Vec<float> x) {
  TurnedAngle a = turn_back(x);
  Vec<float> sine = look_up(kSines, a.n), cosine = look_up(kSines, a.n + 8);
  Doubled<float> c = turned_sine(a, cosine, look_up(kSinesLost, a.n + 8), -sine);
  return beyond_turns(x, c.high + c.low, cos_by_double);
}
inline Vec<float> tan(Vec<float> x) {
  TurnedAngle a = turn_back(x);
  Vec<float> sine = look_up(kSines, a.n), cosine = look_up(kSines, a.n + 8);
  Doubled<float> s = turned_sine(a, sine, look_up(kSinesLost, a.n), cosine);
  Doubled<float> c = turned_sine(a, cosine, look_up(kSinesLost, a.n + 8), -sine);
  c = sum_ordered(c.high, c.low);
  Vec<float> inverse = reciprocal_near(c.high), q = s.high * inverse;
  Vec<float> rest = fma(-q, c.high, s.high) + fma(-q, c.low, s.low);
  return beyond_turns(x, select(x == 0, x, fma(rest, inverse, q)), tan_by_double);
}
#else
inline Vec<float> sin(Vec<float> x) { return sin_by_double(x); }
inline Vec<float> cos(Vec<float> x) { return cos_by_double(x); }
inline Vec<float> tan(Vec<float> x) { return tan_by_double(x); }
#endif

// atan(a / b) for 0 <= a <= b.
inline Vec<double> atan_kernel(Vec<double> a, Vec<double> b) {
  Vec<double> q = a / b, z = q * q;
  Vec<double> p = polynomial(
      z, -0.33333333333333293, 0.19999999999991236, -0.14285714285086351, 0.11111111088050395,
      -0.090909085783992802, 0.076923001122319395, -0.066665873405022599, 0.058817400651171498,
      -0.052595527334233477, 0.04745380365446928, -0.042877408556493857, 0.038241543514909021,
      -0.032843246126575562, 0.026235234812993394, -0.018708695914930226, 0.011400239088755579,
      -0.0056670276301799263, 0.0021780288263982699, -0.00060171702568490699,
      0.00010568617736515505, -8.8273700398326061e-06);
  return fma(p * z, q, q);
}
// The same for floats, as accurate as they need. No float but infinity reaches 1e100.
inline Vec<double> atan_short(Vec<double> a, Vec<double> b) {
  Vec<double> q = a * reciprocal_near(select(b > 1e100, 1e100, b)), z = q * q;
  Vec<double> p = polynomial(z, -0.33333327435231624, 0.19999692671756036, -0.14280131472141755,
                             0.11060249023310338, -0.088188642612141765, 0.067596071995735071,
                             -0.044946928389717915, 0.022760745576453245, -0.0074228267011057893,
                             0.0011349160100641469);
  return fma(p * z, q, q);
}

template <class Kernel>
inline Vec<double> atan_by(Kernel kernel, Vec<double> x) {
  Vec<double> a = abs(x);
  auto steep = a > 1;
  Vec<double> p = kernel(select(steep, 1, a), select(steep, a, 1));
  return copysign(select(steep, kHalfPi - (p - kHalfPiLow), p), x);
}
template <class Kernel>
inline Vec<double> atan2_by(Kernel kernel, Vec<double> y, Vec<double> x) {
  Vec<double> ay = abs(y), ax = abs(x);
  auto steep = ay > ax;
  Vec<double> low = select(steep, ax, ay), high = select(steep, ay, ax);
  // Equal sides include 0 / 0 and inf / inf, where C answers as for 0 and 1.
  auto equal = low == high;
  Vec<double> p =
      kernel(select(equal, select(high == 0, 0, Vec<double>(1)), low), select(equal, 1, high));
  p = select(steep, kHalfPi - (p - kHalfPiLow), p);
  p = select(bits(x) < 0, kPi - (p - 2 * kHalfPiLow), p);
  return select(isnan(x) || isnan(y), kNaN, copysign(p, y));
}
inline Vec<double> atan(Vec<double> x) { return atan_by(atan_kernel, x); }
inline Vec<double> atan2(Vec<double> y, Vec<double> x) { return atan2_by(atan_kernel, y, x); }
#if defined(__AVX512F__)
// Above 1 a quarter turn less the arc of 1 / x. Of the large terms the sums' errors are kept.
inline Vec<float> atan(Vec<float> x) {
  Vec<float> a = abs(x);
  auto steep = a > 1;
  Vec<float> z = select(steep, reciprocal_near(clamp_above(a, 0x1p100)), a);
  Vec<float> t = fma(z, Vec<float>(15), Vec<float>(kRounder<float>));
  Vec<float> d = fma(t - kRounder<float>, Vec<float>(-0x1.111112p-4), z);
  Vec<float> p = look_up(kArcs[6], t);
#pragma GCC unroll 4
  for (int k = 5; k > 1; k--) p = fma(p, d, look_up(kArcs[k], t));
  Doubled<float> arc = sum_ordered(look_up(kArcs[0], t), d);
  arc.low = arc.low + fma(p, d, look_up(kArcs[1], t));
  Vec<float> turned = select(steep, Vec<float>(-0.0), 0);
  Doubled<float> y = sum_ordered(select(steep, Vec<float>(kHalfPi), 0), arc.high ^ turned);
  Vec<float> low = select(steep, Vec<float>(kHalfPi - double(float(kHalfPi))), 0);
  return with_sign_of(x, y.high + (y.low + (low + (arc.low ^ turned))));
}
#else
inline Vec<float> atan(Vec<float> x) {
  return through_double([](auto v) { return atan_by(atan_short, v); }, x);
}
#endif
inline Vec<float> atan2(Vec<float> y, Vec<float> x) {
  return through_double([](auto v, auto w) { return atan2_by(atan_short, v, w); }, y, x);
}

// Above 1/2: asin a = pi/2 - 2 asin(sqrt((1 - a) / 2)). The root's rounding error is part of the
// tail, since it would count twice.
struct AsinParts {
  Vec<double>::Mask large;
  Vec<double> root, tail;  // asin of the reduced argument is root + tail
};
inline AsinParts reduce_asin(Vec<double> a) {
  auto large = a > 0.5;
  Vec<double> z = select(large, 0.5 * (1 - a), a * a);
  Vec<double> root = select(large, sqrt(z), a);
  Vec<double> p = polynomial(z, 0.16666666666665383, 0.075000000003430725, 0.044642856823470335,
                             0.030381959331479743, 0.022371753522250754, 0.017359771079424362,
                             0.013884599001325035, 0.012173274937491672, 0.006510873841958786,
                             0.019573849319960007, -0.016293986554439525, 0.031958908734620317);
  Doubled<double> square = product_exact(root, root);
  Vec<double> lost = ((z - square.high) - square.low) / (2 * root);
  return {large, root, fma(root * z, p, select(large && z > 0, lost, 0))};
}
// pi/2 - (root + tail) times two.
inline Vec<double> asin_complement(const AsinParts& r) {
  Doubled<double> s = sum_ordered(Vec<double>(kHalfPi), -2 * r.root);
  return s.high + (s.low + (kHalfPiLow - 2 * r.tail));
}
inline Vec<double> asin(Vec<double> x) {
  AsinParts r = reduce_asin(abs(x));
  return copysign(select(r.large, asin_complement(r), r.root + r.tail), x);
}
inline Vec<double> acos(Vec<double> x) {
  AsinParts r = reduce_asin(abs(x));
  Vec<double> twice = 2 * (r.root + r.tail);
  Vec<double> large = select(x < 0, kHalfPi + (kHalfPiLow + asin_complement(r)), twice);
  Vec<double> small = kHalfPi - (copysign(r.root, x) - (kHalfPiLow - copysign(r.tail, x)));
  return select(r.large, large, small);
}
#if defined(__AVX512F__)
// In floats alone, where the root, what it lacks and the tail are kept apart.
struct AsinFloatParts {
  Vec<float>::Mask large;
  Vec<float> root, tail;
};
inline AsinFloatParts reduce_asin_float(Vec<float> a) {
  auto large = a > 0.5;
  Vec<float> z = select(large, fma(a, Vec<float>(-0.5), Vec<float>(0.5)), a * a);
  __mmask16 positive = _mm512_cmp_ps_mask(z.v, Vec<float>(0).v, _CMP_NEQ_UQ);
  Vec<float> near = Raw<float>(_mm512_maskz_rsqrt14_ps(positive, z.v));
  Vec<float> root = z * near, half = near * 0.5;
  Vec<float> rest = fma(-root, half, Vec<float>(0.5));
  root = fma(root, rest, root);
  half = fma(half, rest, half);
  Vec<float> lost = select(large, fma(-root, root, z) * half, 0);
  root = select(large, root, a);
  Vec<float> p = polynomial(z, 0.16666659872435632, 0.075005108983809882, 0.044515721805137687,
                            0.031817609319869863, 0.014402593455587297, 0.037565232003392963);
  return {large, root, fma(root * z, p, lost)};
}
// base + factor (root + tail), where the base is larger and the factor a power of two.
inline Vec<float> join_asin(const AsinFloatParts& parts, Vec<float> base, Vec<float> base_low,
                            Vec<float> factor) {
  Doubled<float> y = sum_ordered(base, parts.root * factor);
  return y.high + (y.low + fma(parts.tail, factor, base_low));
}
inline constexpr double kHalfPiLost = kHalfPi - double(float(kHalfPi));
inline Vec<float> asin(Vec<float> x) {
  AsinFloatParts parts = reduce_asin_float(abs(x));
  auto large = parts.large;
  return with_sign_of(
      x, join_asin(parts, select(large, Vec<float>(kHalfPi), 0),
                   select(large, Vec<float>(kHalfPiLost), 0), select(large, Vec<float>(-2), 1)));
}
inline Vec<float> acos(Vec<float> x) {
  AsinFloatParts parts = reduce_asin_float(abs(x));
  auto large = parts.large;
  // In quarter turns: 0 or 2 where the argument is large, by its sign, else 1.
  auto negative = x < 0;
  Vec<float> turns = select(large, select(negative, Vec<float>(2), 0), 1);
  Vec<float> factor = select(large, Vec<float>(2), -1) ^ (x & Vec<float>(-0.0));
  return join_asin(parts, turns * kHalfPi, turns * kHalfPiLost, factor);
}
#else
// For floats a shorter series and no correction.
inline AsinParts reduce_asin_short(Vec<double> a) {
  auto large = a > 0.5;
  Vec<double> z = select(large, 0.5 * (1 - a), a * a);
  Vec<double> root = select(large, sqrt_near(z), a);
  Vec<double> p = polynomial(z, 0.16666659872435632, 0.075005108983809882, 0.044515721805137687,
                             0.031817609319869863, 0.014402593455587297, 0.037565232003392963);
  return {large, root, root * z * p};
}
inline Vec<float> asin(Vec<float> x) {
  return through_double(
      [](Vec<double> v) {
        AsinParts r = reduce_asin_short(abs(v));
        Vec<double> y = r.root + r.tail;
        return copysign(select(r.large, kHalfPi - 2 * y, y), v);
      },
      x);
}
inline Vec<float> acos(Vec<float> x) {
  return through_double(
      [](Vec<double> v) {
        AsinParts r = reduce_asin_short(abs(v));
        Vec<double> y = r.root + r.tail;
        Vec<double> large = select(v < 0, kPi - 2 * y, 2 * y);
        return select(r.large, large, kHalfPi - copysign(y, v));
      },
      x);
}
#endif

// sin(pi x) / (pi x), 1 at 0.
template <Floating T>
inline Vec<T> sinc(Vec<T> x) {
  Vec<T> y = x * kPi;
  return select(x == 0, 1, sin(y) / y);
}

}  // namespace flambeau::FL_ISA
