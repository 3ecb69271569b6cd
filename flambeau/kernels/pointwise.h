// Bodies of pointwise ops that need more care than a formula shows. V is a register on the CPU, a
// scalar on CUDA; backends bring select, any and the functions of math.h for it.
#pragma once
#include "flambeau/core/config.h"
#if !defined(__CUDACC__)
#include "flambeau/kernels/math.h"
#endif

namespace flambeau::FL_ISA {

// log(e^a + e^b). a - b is NaN when both are the same infinity: equal inputs get their own branch.
struct LogAddExp {
  template <class V>
  V operator()(V a, V b) const {
    V high = max(a, b);
    return select(a == b, high + V(kLn2), high + log1p(exp(-abs(a - b))));
  }
  // Ordered by real parts. Where both are infinite they cancel: minus infinity is the sum's limit.
  template <class T>
  Cplx<T> operator()(Cplx<T> a, Cplx<T> b) const {
    Cplx<T> high = a < b ? b : a, low = a < b ? a : b;
    if (isnan(a) || isnan(b)) return {T(kNaN), T(kNaN)};
    if (__builtin_isfinite(low.re) || low.re != high.re) return high + log1p(exp(low - high));
    return low.re < 0 ? low : log(exp(low) + exp(high));
  }
};
// The same to base 2.
struct LogAddExp2 {
  template <class V>
  V operator()(V a, V b) const {
    V high = max(a, b);
    return select(a == b, high + V(1), high + log1p(exp2(-abs(a - b))) * V(kLog2E));
  }
};

// log(sigmoid(x)): the exponential is of -|x| and cannot overflow.
struct LogSigmoid {
  template <class V>
  V operator()(V x) const {
    return min(x, V(0)) - log1p(exp(-abs(x)));
  }
};

// log(1 + e^(beta x)) / beta; above the threshold the line x, which it equals to working precision.
struct Softplus {
  template <class V>
  V operator()(V x, V beta, V threshold) const {
    V scaled = x * beta;
    return select(scaled > threshold, x, log1p(exp(scaled)) / beta);
  }
};
struct SoftplusBackward {
  template <class V>
  V operator()(V g, V x, V beta, V threshold) const {
    V scaled = x * beta;
    return select(scaled > threshold, g, g * sigmoid(scaled));
  }
};

// x times the normal distribution function, exact or by Hendrycks and Gimpel's tanh (2016).
struct Gelu {
  template <class V>
  V operator()(V x) const {
    return normal_product(x);
  }
};
struct GeluBackward {
  template <class V>
  V operator()(V g, V x) const {
    V density = V(0.39894228040143268) * exp(V(-0.5) * x * x);
    return g * (normal_distribution(x) + x * density);
  }
};
struct GeluTanh {
  template <class V>
  V operator()(V x) const {
    V inner = V(0.79788456080286536) * (x + V(0.044715) * x * x * x);
    return V(0.5) * x * (V(1) + tanh(inner));
  }
};
struct GeluTanhBackward {
  template <class V>
  V operator()(V g, V x) const {
    V square = x * x;
    V t = tanh(V(0.79788456080286536) * (x + V(0.044715) * square * x));
    V slope = V(0.79788456080286536) * (V(1) + V(3 * 0.044715) * square);
    return g * V(0.5) * ((V(1) + t) + x * (V(1) - t * t) * slope);
  }
};

// x log y, 0 where x is 0 unless y is NaN.
struct Xlogy {
  template <class V>
  V operator()(V x, V y) const {
    return select(x == V(0) && !isnan(y), V(0), x * log(y));
  }
};
struct Xlog1py {
  template <class V>
  V operator()(V x, V y) const {
    return select(x == V(0) && !isnan(y), V(0), x * log1p(y));
  }
};
// -x log x, its limit 0 at 0, -inf below.
struct Entr {
  template <class V>
  V operator()(V x) const {
    V inside = select(x == V(0), V(0), -x * log(x));
    return select(x < V(0), V(-kInf), inside);
  }
};

// -1, 0 or 1; 0 for NaN, as in torch.
struct Sign {
  template <class V>
  V operator()(V x) const {
    return select(x > V(0), V(1), select(x < V(0), V(-1), V(0)));
  }
};
// The sign of a real number, x / |x| of a complex one.
struct Sgn {
  template <class V>
  V operator()(V x) const {
    if constexpr (requires { x.im; })
      return select(x == V(0), V(0), x / abs(x));
    else
      return Sign()(x);
  }
};
// The argument of a real number: 0 or pi, NaN of NaN. -0 has 0, unlike atan2's answer.
struct Angle {
  template <class V>
  V operator()(V x) const {
    if constexpr (requires { x.im; })
      return angle(x);
    else
      return select(x < V(0), V(kPi), select(isnan(x), x, V(0)));
  }
};

// 0 below zero and for NaN, 1 above, `middle` at zero.
struct Heaviside {
  template <class V>
  V operator()(V x, V middle) const {
    return select(x == V(0), middle, select(x > V(0), V(1), V(0)));
  }
};

// start + w (end - start), from the nearer end: exact at w = 1 too.
struct Lerp {
  template <class V>
  V operator()(V start, V end, V weight) const {
    V span = end - start;
    return select(abs(weight) < V(0.5), start + weight * span, end - span * (V(1) - weight));
  }
};

// NaN anywhere is NaN; where low > high the answer is high.
struct Clamp {
  template <class V>
  V operator()(V x, V low, V high) const {
    return min(max(x, low), high);
  }
};
// A NaN on one side gives the other side, unlike max and min.
struct Fmax {
  template <class V>
  V operator()(V a, V b) const {
    return select(isnan(b), a, select(a >= b, a, b));
  }
};
struct Fmin {
  template <class V>
  V operator()(V a, V b) const {
    return select(isnan(b), a, select(a <= b, a, b));
  }
};

struct NanToNum {
  template <class V>
  V operator()(V x, V nan, V positive, V negative) const {
    auto replace = [](auto part, auto for_nan, auto for_positive, auto for_negative) {
      using P = decltype(part);
      P finite = select(part == P(-kInf), for_negative, part);
      return select(part != part, for_nan, select(part == P(kInf), for_positive, finite));
    };
    // The replacements are real numbers, and serve both parts of a complex one.
    if constexpr (requires { x.im; }) {
      return {replace(x.re, nan.re, positive.re, negative.re),
              replace(x.im, nan.re, positive.re, negative.re)};
    } else {
      return replace(x, nan, positive, negative);
    }
  }
};

struct Frac {
  template <class V>
  V operator()(V x) const {
    return x - trunc(x);
  }
};

// log(x / (1 - x)); x is first clamped to [eps, 1 - eps] unless eps is negative (which stands for
// None).
struct Logit {
  template <class V>
  V operator()(V x, V eps) const {
    V clamped = select(x < eps, eps, select(x > V(1) - eps, V(1) - eps, x));
    V p = select(eps < V(0), x, clamped);
    return log(p / (V(1) - p));
  }
};

// x 2^n, the power rounded first as in torch: it may overflow although the product would not.
struct Ldexp {
  template <class V>
  V operator()(V x, V n) const {
    return x * exp2(n);
  }
};

// The neighbour of x towards y. Floats of one sign are ordered as their bits, so it is one bit
// pattern further.
struct Nextafter {
  template <class V>
  V operator()(V x, V y) const {
    auto pattern = bits(x);
    using I = decltype(pattern);
    auto away = (y > x) == (x > V(0));
    V step = from_bits(select(away, pattern + I(1), pattern - I(1)));
    V smallest = copysign(from_bits(I(1)), y);
    V moved = select(x == y, y, select(x == V(0), smallest, step));
    return select(isnan(x) || isnan(y), V(kNaN), moved);
  }
};

template <class V>
struct Pair {
  V a, b;
};
// x = a 2^b with 1/2 <= |a| < 1; zeros, infinities and NaN stand for themselves with b = 0.
struct Frexp {
  template <class V>
  Pair<V> operator()(V x) const {
    auto parts = split_log(abs(x), 1);
    auto ordinary = x != V(0) && isfinite(x);
    return {select(ordinary, with_sign_of(x, parts.f + V(1)), x), select(ordinary, parts.k, V(0))};
  }
};

// Euclid's algorithm, in all lanes until the last is done.
struct Gcd {
  template <class V>
  V operator()(V a, V b) const {
    a = abs(a);
    b = abs(b);
    while (any(b != V(0))) {
      V rest = a % b;
      a = select(b == V(0), a, b);
      b = select(b == V(0), b, rest);
    }
    return a;
  }
};
struct Lcm {
  template <class V>
  V operator()(V a, V b) const {
    V divisor = Gcd()(a, b);
    return abs(select(divisor == V(0), V(0), a / divisor * b));
  }
};

struct Pow {
  template <class V>
  V operator()(V x, V exponent) const {
    return pow(x, exponent);
  }
};
// Whether x, the same in all lanes, is the number. The bits wait in an ordinary register for a test
// per register of elements, which answers of floating lanes would not.
template <class V>
inline bool is_everywhere(V x, double number) {
  if constexpr (requires { bits(x).lane(0); })
    return bits(x).lane(0) == bits(V(number)).lane(0);
  else
    return all(x == V(number));
}
// One exponent for all elements. torch computes some without pow, which shows: (-inf) ** 0.5 is
// NaN, (-0.) ** 0.5 is -0.
struct PowScalar {
  template <class V>
  V operator()(V x, V exponent) const {
    if (is_everywhere(exponent, 2)) return x * x;
    if (is_everywhere(exponent, 1)) return x;
    if (is_everywhere(exponent, 3)) return x * x * x;
    if constexpr (requires { sqrt(x); }) {
      if (is_everywhere(exponent, 0.5)) return sqrt(x);
      if (is_everywhere(exponent, -0.5)) return V(1) / sqrt(x);
      if (is_everywhere(exponent, -1)) return V(1) / x;
      if (is_everywhere(exponent, -2)) return V(1) / (x * x);
    }
    return pow(x, exponent);
  }
};

}  // namespace flambeau::FL_ISA
