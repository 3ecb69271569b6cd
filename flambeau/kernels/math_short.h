// Exponential, logarithm and reciprocal in doubles with the 28 or more bits that one rounding to
// float needs: the detour through double then costs little more than careful float arithmetic, and
// is right without case analysis.
#pragma once
#include "flambeau/kernels/math_base.h"
#include "flambeau/kernels/math_exp.h"
#include "flambeau/kernels/math_log.h"

namespace flambeau::FL_ISA {

// 2^t for |t| < 1022.
inline Vec<double> exp2_short(Vec<double> t) {
  Vec<double> rounder = kRounder<double>, n = (t + rounder) - rounder;
  Vec<double> p = polynomial(t - n, 1.0000000005530882, 0.69314720573817123, 0.24022646892808713,
                             0.055503287743417486, 0.0096184887802563193, 0.0013399932033602003,
                             0.00015345854823256162);
  return p * power_of_two(n);
}
// e^x for |x| < 708, in fewer steps than exp: one product holds ln 2 well enough.
inline Vec<double> exp_short(Vec<double> x) { return exp2_short(x * kLog2E); }

// log2 of a positive finite normal number; as accurate relatively near 1.
inline Vec<double> log2_short(Vec<double> x) {
  LogParts<double> parts = split_log(x, 4.0 / 3);
  Vec<double> p = polynomial(parts.f, 1.4426950408923316, -0.72134751956945331, 0.48089834396073411,
                             -0.36067397859255146, 0.28853944180610841, -0.24043366152698187,
                             0.20607597141999554, -0.1808060408843222, 0.16089125412372429,
                             -0.13746130917049651, 0.12356265647860189, -0.16610460460382892,
                             0.15754211364292986);
  return fma(p, parts.f, parts.k);
}
inline Vec<double> log_short(Vec<double> x) { return kLn2 * log2_short(x); }

// The hyperbolic functions of floats and their inverses. No intermediate result of theirs overflows
// in double.
inline Vec<float> sinh(Vec<float> x) {
  return through_double(
      [](Vec<double> v) {
        Vec<double> a = abs(v), z = v * v, e = exp_short(clamp_above(a, 100));
        Vec<double> p = polynomial(z, 0.16666666488730297, 0.0083333505974513469,
                                   0.00019836066338996359, 2.8174391914983089e-06);
        Vec<double> large = copysign(0.5 * (e - reciprocal_near(e)), v);
        return select(a < 1, fma(p * z, v, v), large);
      },
      x);
}
inline Vec<float> cosh(Vec<float> x) {
  return through_double(
      [](Vec<double> v) {
        Vec<double> a = abs(v), e = exp_short(clamp_above(a, 100));
        return 0.5 * (e + reciprocal_near(e));
      },
      x);
}

// Below 2^-14 the argument of the logarithm would keep too little of x, but x - x^3 / 6 is the
// function already.
inline Vec<float> asinh(Vec<float> x) {
  return through_double(
      [](Vec<double> v) {
        Vec<double> a = abs(v);
        Vec<double> y = log_short(a + sqrt(fma(a, a, Vec<double>(1))));
        y = select(a < 0x1p-14, a - a * a * a * (1.0 / 6), y);
        return copysign(select(a < kInf, y, a), v);
      },
      x);
}
inline Vec<float> acosh(Vec<float> x) {
  return through_double(
      [](Vec<double> v) {
        Vec<double> y = log_short(v + sqrt(v * v - 1));
        return select(v < kInf, select(v >= 1, y, kNaN), v);
      },
      x);
}
inline Vec<float> atanh(Vec<float> x) {
  return through_double(
      [](Vec<double> v) {
        Vec<double> a = abs(v), y = 0.5 * log_short((1 + a) / (1 - a));
        y = select(a < 0x1p-14, a + a * a * a * (1.0 / 3), y);
        return copysign(select(a < 1, y, select(a == 1, Vec<double>(kInf), kNaN)), v);
      },
      x);
}

}  // namespace flambeau::FL_ISA
