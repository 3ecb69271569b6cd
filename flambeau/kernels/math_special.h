// The error function and its kin, and the gamma function's: erf, erfc, erfinv, lgamma, digamma.
#pragma once
#include "flambeau/kernels/math_short.h"

namespace flambeau::FL_ISA {

inline Vec<double> erf_small(Vec<double> x) {
  Vec<double> p =
      polynomial(x * x, 0.12837916709551259, -0.37612638903183743, 0.11283791670954368,
                 -0.026866170644945547, 0.0052239776230902759, -0.00085483268475691212,
                 0.00012055324633072723, -1.4925388942610138e-05, 1.6456634877214577e-06,
                 -1.6289508038948444e-07, 1.4124237127289746e-08, -8.6697419798513211e-10);
  return fma(p, x, x);
}
// e^(a^2) erfc a for 0 <= a <= 28: P(q) / (1 + 2a) with q = (a - 4) / (a + 4), after M. M. Shepherd
// and J. G. Laframboise 1981.
inline Vec<double> erfcx_positive(Vec<double> a) {
  Vec<double> q = (a - 4) / (a + 4);
  Vec<double> p = polynomial(
      q, 1.2329951186255526, -0.13962111684056289, 0.015379652102619764, 0.068097054254736597,
      -0.10103906603630115, 0.093732834996823902, -0.066330365812563755, 0.037167515561851619,
      -0.016197734048426043, 0.0050319697635749523, -0.0007577734048502036, -0.00019925556128365027,
      0.00015062247151748185, -2.4402941473957186e-05, -1.1225282881160508e-05,
      5.7172952468766971e-06, 3.0195613061961792e-07, -8.3424049260307075e-07,
      6.238933702089823e-08, 1.1456143861150136e-07, -7.7789648966721698e-09,
      -1.3386322883808266e-08, -1.7176335898975924e-09);
  return p / (1 + 2 * a);
}
// erfc a for a >= 0. The square is carried with its rounding error, which the exponential would
// magnify.
[[gnu::noinline]] inline Vec<double> erfc_positive(Vec<double> a) {
  a = clamp_above(a, 28);
  Doubled<double> square = product_exact(a, a);
  Vec<double> scaled = erfcx_positive(a);
  return exp(-square.high) * (scaled - scaled * square.low);
}

inline Vec<double> erf(Vec<double> x) {
  Vec<double> a = abs(x);
  return select(a < 0.875, erf_small(x), copysign(1 - erfc_positive(a), x));
}
// Up to 0.9277 x + x P(x^2); above it 1 - e^(-a + a R(a)), R a fit of log(erfc a) / a + 1 (after N.
// Juffa 2016).
inline Vec<float> erf(Vec<float> x) {
  Vec<float> a = abs(x), z = x * x;
  Vec<float> small = polynomial(z, 0.128379167, -0.376126338, 0.112836962, -0.0268593956,
                                0.00520094524, -0.000814097059, 8.36014774e-05);
  small = fma(small, x, x);
  Vec<float> t = clamp_above(a, 4);
  Vec<float> r = polynomial(t, -0.128555819, -0.635606528, -0.105298889, 0.022712093,
                            -0.00295349916, 5.80002187e-05, 4.39359271e-05, -4.80359257e-06);
  Vec<float> large = 1 - exp(fma(r, t, -t));
  return select(a < 0.9277, small, with_sign_of(x, large));
}

// The normal distribution's part beyond a >= 0.
#if defined(__AVX512F__)
inline Vec<float> normal_tail(Vec<float> a) {
  Vec<float> t = fma(a, Vec<float>(4), Vec<float>(kRounder<float>));
  Vec<float> d = fma(t - kRounder<float>, Vec<float>(-0.25), a),
             p = look_up(kNormalTails[5], bits(t));
#pragma GCC unroll 4
  for (int k = 4; k > 0; k--) p = fma(p, d, look_up(kNormalTails[k], bits(t)));
  // Beyond the end, where less than 1e-14 is left, it is zero.
  __mmask16 within = _mm512_cmp_ps_mask(a.v, Vec<float>(kNormalEnd).v, _CMP_NGE_UQ);
  return Raw<float>(_mm512_maskz_fmadd_ps(within, p.v, d.v, look_up(kNormalTails[0], bits(t)).v));
}
#else
// 2^P(a), P a fit of the logarithm, which falls without end where the function is zero.
inline Vec<float> normal_tail(Vec<float> a) {
  return exp2(polynomial(a, -0.9999999876, -1.151104881, -0.4592161714, -0.05245119805,
                         0.006953676639, 2.306604523e-6, -0.0002851885108, 7.949214225e-5,
                         -1.175305315e-5, 9.58083227e-7, -3.375036211e-8));
}
#endif
// The normal distribution function.
inline Vec<double> normal_distribution(Vec<double> x) {
  return 0.5 * (1 + erf(x * 0.70710678118654752));
}
inline Vec<float> normal_distribution(Vec<float> x) {
  Vec<float> tail = normal_tail(abs(x));
  return select(x < 0, tail, 1 - tail);
}
// x times it: for floats max(x, 0) - |x| tail, where |x| is bounded above zero; NaN at minus
// infinity.
inline Vec<double> normal_product(Vec<double> x) { return x * normal_distribution(x); }
inline Vec<float> normal_product(Vec<float> x) {
  Vec<float> a = abs(clamp_above(x, 15)), positive = greater_raw(x.v, Vec<float>(0).v);
  return with_sign_of(x, fma(-a, normal_tail(a), positive));
}

inline Vec<double> erfc(Vec<double> x) {
  Vec<double> a = abs(x), tail = erfc_positive(a);
  Vec<double> y = select(x < 0, 2 - tail, tail);
  return select(a < 0.5, 1 - erf_small(x), y);
}
// The same method with fewer terms, and one reciprocal for both quotients.
inline Vec<float> erfc(Vec<float> x) {
  return through_double(
      [](Vec<double> v) {
        Vec<double> a = abs(v);
        a = clamp_above(a, 10.2);
        Vec<double> slope = 1 + 2 * a, inverse = reciprocal_near((a + 3) * slope);
        Vec<double> p =
            polynomial((a - 3) * slope * inverse, 1.2530080592157717, -0.1356211401294054,
                       -0.047562409672361451, 0.12964643358054198, -0.11927079538121156,
                       0.068295750704340269, -0.023798538180681617, 0.0025665600598504985,
                       0.0020033513073936726, -0.00077511838550366001, -0.00026717953747261268);
        Vec<double> tail = exp_short(-a * a) * (a + 3) * inverse * p;
        return select(v < 0, 2 - tail, tail);
      },
      x);
}

// y / x for y = erfinv x as a function of w = -log(1 - x^2), or of its root where that is large: M.
// Giles 2010's forms with a fit of more digits.
inline Vec<double> erfinv_ratio(Vec<double> w) {
  Vec<double> central =
      polynomial(w - 2.5, 1.5014093535154389, 0.24664028763763005, -0.0041773394042342238,
                 -0.0012527446670796915, 0.00021828262890745002, -4.9619083709941401e-06,
                 -3.4346105715793435e-06, 4.6589140872073681e-07, 1.8037003129035681e-08,
                 -8.7727785637034495e-09, 3.3555190482284046e-10);
  Vec<double> tail =
      polynomial(sqrt_near(w) - 3, 2.8329768014536985, 1.0016752366457347, 0.0094453032285899217,
                 -0.0076427639788340341, 0.0056876984717478462, -0.0035670922976127808,
                 0.0014751123431419209, -0.00012004346682258541, -0.00027749426046468447,
                 0.00016055258099879503, -2.9514853123393072e-05);
  return select(w < 5, central, tail);
}
template <class T>
inline Vec<T> with_erfinv_limits(Vec<T> x, Vec<T> y) {
  Vec<T> a = abs(x);
  return select(a < 1, y, select(a == 1, copysign(Vec<T>(kInf), x), kNaN));
}
inline Vec<float> erfinv(Vec<float> x) {
  Vec<float> y = through_double(
      [](Vec<double> v) { return v * erfinv_ratio(-log_short((1 - v) * (1 + v))); }, x);
  return with_erfinv_limits(x, y);
}
// The approximation for floats, or a coarser one for the arguments next to 1 that no float has,
// then a step of Halley's method; the distance to 1 is the error there.
[[gnu::noinline]] inline Vec<double> erfinv(Vec<double> x) {
  Vec<double> a = abs(x), w = -log((1 - a) * (1 + a));
  Vec<double> far =
      polynomial(sqrt(w) - 4, 3.8397814755098962, 1.0095109373532882, 0.0012928959912867162,
                 -0.00094209011885101478, 0.0002563094365807585, -2.7694657991661929e-05,
                 9.0503864122391125e-05, -7.8916305830100314e-05, 1.7824841108668243e-05);
  Vec<double> y = a * select(w < 16, erfinv_ratio(w), far);
  Vec<double> error = select(a < 0.5, erf_small(y) - a, (1 - a) - erfc_positive(y));
  Vec<double> ratio = error / (1.1283791670955126 * exp(-y * y));
  return with_erfinv_limits(x, copysign(y - ratio / (1 + y * ratio), x));
}

// The C library's, in the form that does not write the global signgam.
[[gnu::noinline]] inline Vec<double> lgamma(Vec<double> x) {
  return map_lanes(
      [](double v) {
        int sign;
        return __builtin_lgamma_r(v, &sign);
      },
      x);
}
[[gnu::noinline]] inline Vec<float> lgamma(Vec<float> x) {
  return map_lanes(
      [](float v) {
        int sign;
        return __builtin_lgammaf_r(v, &sign);
      },
      x);
}

}  // namespace flambeau::FL_ISA
