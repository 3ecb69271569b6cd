// Promises of the registers, the loops and the pointwise bodies. A header of GoogleTest must not be
// compiled for one instruction set, so each check answers with the text of what is broken.
#include "flambeau/kernels/pointwise.h"

#include "flambeau/kernels/cpu/loops.h"
#include "flambeau/kernels/halves.h"
#include "tests/cpp/kernel_shims.h"

namespace flambeau::FL_ISA {
namespace {

struct Promises {
  const char* broken = "";
  void keep(bool kept, const char* text) {
    if (!kept && !*broken) broken = text;
  }
};

// The same value or both NaN, sign of zero included.
template <class T>
bool same(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (a != a || b != b) return a != a && b != b;
    return a == b && __builtin_signbit(a) == __builtin_signbit(b);
  } else {
    return a == b;
  }
}
template <class T>
bool is(Vec<T> x, T value) {
  for (int i = 0; i < Vec<T>::kLanes; ++i) {
    if (!same(x.lane(i), value)) return false;
  }
  return true;
}
template <class T>
Vec<T> counting() {
  Vec<T> x;
  for (int i = 0; i < Vec<T>::kLanes; ++i) x.set_lane(i, T(i + 1));
  return x;
}

template <class T>
void check_arithmetic(Promises& promises) {
  using V = Vec<T>;
  V x = counting<T>();
  promises.keep(all(1 + x == x + 1) && all(2 * x == x + x) && all(x - 1 < x), "literals mix in");
  promises.keep(is(select(x > 0, V(T(3)), 0), T(3)) && is(select(x > 0 && x < 0, x, 7), T(7)),
                "select takes literals");
  promises.keep(all(min(x, 2) <= 2) && all(max(x, 2) >= 2) && all(abs(x) == x), "min, max, abs");
  promises.keep(any(x == V::kLanes) && !all(x == V::kLanes) && !any(x > V::kLanes), "any and all");
  constexpr int n = V::kLanes;
  promises.keep(sum_lanes(x) == T(n * (n + 1) / 2), "sum_lanes");
  promises.keep(max_lanes(x) == T(n) && min_lanes(x) == T(1), "max_lanes, min_lanes");
  T memory[2 * n + 1];
  for (int count = 0; count <= n; ++count) {
    for (T& element : memory) element = T(9);
    x.store_partial(memory + 1, count);
    V back = V::load_partial(memory + 1, count);
    for (int i = 0; i < n; ++i) {
      promises.keep(back.lane(i) == (i < count ? T(i + 1) : T(0)), "partial load, rest zero");
      promises.keep(memory[1 + i] == (i < count ? T(i + 1) : T(9)),
                    "partial store, rest untouched");
    }
    promises.keep(memory[0] == T(9) && memory[n + 1] == T(9), "partial store stays inside");
  }
  bool answers[n + 1];
  for (int count = 0; count <= n; ++count) {
    for (bool& answer : answers) answer = true;
    (x == 2).store_partial(answers, count);
    for (int i = 0; i < n + 1; ++i)
      promises.keep(answers[i] == (i >= count || i == 1), "mask as bytes");
  }
  promises.keep(all(V::Mask::load(answers) == (x == 2)), "mask from bytes");
}

template <class T>
void check_floats(Promises& promises) {
  using V = Vec<T>;
  T nan = T(kNaN), inf = T(kInf);
  check_arithmetic<T>(promises);
  promises.keep(is(max(V(nan), V(1)), nan) && is(max(V(1), V(nan)), nan), "max keeps NaN");
  promises.keep(is(min(V(nan), V(1)), nan) && is(min(V(1), V(nan)), nan), "min keeps NaN");
  promises.keep(is(V(-0.0), T(-0.0)) && is(-V(0), T(-0.0)) && is(abs(V(-0.0)), T(0)), "zeros");
  promises.keep(is(copysign(V(3), V(-0.0)), T(-3)), "copysign");
  promises.keep(is(round(V(2.5)), T(2)) && is(round(V(-3.5)), T(-4)), "round to even");
  promises.keep(is(floor(V(-0.5)), T(-1)) && is(ceil(V(-0.5)), T(-0.0)), "floor and ceil");
  promises.keep(is(Vec<T>(1) / 0, inf) && all(isnan(V(0) / 0)), "division");
  promises.keep(all(isinf(V(-inf))) && !any(isfinite(V(nan))) && all(signbit(V(-0.0))), "kinds");
}

template <class T>
void check_integers(Promises& promises) {
  using V = Vec<T>;
  check_arithmetic<T>(promises);
  constexpr T least = std::is_signed_v<T> ? T(uint64_t(1) << (V::kBits - 1)) : T(0),
              most = T(~least);
  promises.keep(is(V(7) / 0, T(0)) && is(V(7) % 0, T(0)), "division by zero is zero");
  promises.keep(is(V(most) + 1, least), "addition wraps");
  promises.keep(is(V(1) << V::kBits, T(0)) && is(V(1) << 3, T(8)) && is(V(8) >> 2, T(2)), "shifts");
  promises.keep(is(pow(V(3), 4), T(81)) && is(pow(V(0), 0), T(1)), "integer powers");
  promises.keep(is(Gcd()(V(12), V(18)), T(6)) && is(Gcd()(V(0), V(0)), T(0)), "gcd");
  promises.keep(is(Lcm()(V(4), V(6)), T(12)) && is(Lcm()(V(0), V(6)), T(0)), "lcm");
  for (T a : {T(most - 1), T(most / 3), T(1 << 30), T(1234567)}) {
    for (T b : {T(3), T(7919), T(most / 2), T(most)}) {
      promises.keep(is(V(a) / V(b), T(a / b)) && is(V(a) % V(b), T(a % b)), "large quotients");
      promises.keep(is(V(b) / V(a), T(b / a)), "quotients near one");
    }
  }
  if constexpr (std::is_signed_v<T>) {
    promises.keep(is(V(-7) / 2, T(-3)) && is(V(-7) % 2, T(-1)), "division truncates");
    promises.keep(is(floor_divide(V(-7), 2), T(-4)) && is(remainder(V(-7), 2), T(1)), "floor");
    promises.keep(is(remainder(V(7), -2), T(-1)) && is(remainder(V(6), -2), T(0)), "remainder");
    promises.keep(is(V(least) / -1, least) && is(V(least) % -1, T(0)), "least / -1 does not trap");
    promises.keep(is(V(-8) >> V::kBits, T(-1)) && is(V(8) << -1, T(0)), "shift out of range");
    promises.keep(is(pow(V(2), -1), T(0)) && is(pow(V(-1), -3), T(-1)), "negative powers");
    promises.keep(is(abs(V(-5)), T(5)) && is(Gcd()(V(-12), V(18)), T(6)), "signs");
  }
}

void check_complex(Promises& promises) {
  using C = Cplx<double>;
  C i(0, 1), z(3, -4);
  promises.keep(i * i == -1 && z / z == 1 && 1 + z == C(4, -4) && conj(z) == C(3, 4), "field");
  promises.keep(abs(z) == 5 && real(z) == 3 && imag(z) == -4 && Sgn()(C(0)) == 0, "parts");
  promises.keep(abs(exp(C(0, kPi)) + 1) < 1e-15, "Euler");
  promises.keep(abs(log(exp(z)) - C(3, -4 + 2 * kPi)) < 1e-14, "log");
  promises.keep(abs(sqrt(C(-4)) - C(0, 2)) < 1e-15 && abs(pow(i, 2) + 1) < 1e-15, "roots, powers");
  promises.keep(C(1e300, 1e300) / C(1e300, 1e300) == 1, "division does not overflow");
  promises.keep(abs(expm1(C(1e-20, 1e-20)) - C(1e-20, 1e-20)) < 1e-34, "expm1 near zero");
  promises.keep(abs(log1p(C(1e-20, 1e-20)) - C(1e-20, 1e-20)) < 1e-34, "log1p near zero");
  promises.keep(select(true, z, 0) == z && !isnan(z) && isinf(C(0, kInf)), "selection");
}

struct Axpy {
  template <class V>
  static V call(const V* x, const V* p) {
    return p[0] * x[0] + x[1];
  }
};
struct Less {
  template <class V>
  static auto call(const V* x, const V*) {
    return x[0] < x[1];
  }
};
struct Modulus {
  template <class V>
  static V call(const V* x, const V*) {
    return abs(x[0]);
  }
};
struct SumAndProduct {
  template <class V>
  static Pair<V> call(const V* x, const V*) {
    return {x[0] + x[1], x[0] * x[1]};
  }
};

template <class T>
void check_loop(Promises& promises) {
  for (int64_t n = 0; n <= 70; ++n) {
    T a[80], b[80], out[80], second[80];
    bool less[80];
    for (int i = 0; i < 80; ++i)
      a[i] = T(i), b[i] = T(35), out[i] = second[i] = T(5), less[i] = true;
    const void* in[] = {a, b};
    void* outs[] = {out, second};
    T two = T(2);
    loop2<SumAndProduct, T, T, 2, 0>(outs, in, n, nullptr);
    loop<Less, T, bool, 2, 0>(less, in, n, nullptr);
    for (int i = 0; i < 80; ++i) {
      promises.keep(out[i] == (i < n ? T(i + 35) : T(5)), "first output");
      promises.keep(second[i] == (i < n ? T(i * 35) : T(5)), "second output");
      promises.keep(less[i] == (i < n ? i < 35 : true), "mask output");
    }
    loop<Axpy, T, T, 2, 1>(a, in, n, &two);
    for (int i = 0; i < 80; ++i)
      promises.keep(a[i] == T(i < n ? 2 * i + 35 : i), "in place, parameter");
  }
}

}  // namespace

const char* broken_register_promise() {
  Promises promises;
  check_floats<float>(promises);
  check_floats<double>(promises);
  check_integers<int32_t>(promises);
  check_integers<int64_t>(promises);
  check_integers<uint64_t>(promises);
  check_complex(promises);
  return promises.broken;
}

const char* broken_loop_promise() {
  Promises promises;
  check_loop<float>(promises);
  check_loop<double>(promises);
  check_loop<int32_t>(promises);
  check_loop<int64_t>(promises);
  Cplx<float> z[3] = {{3, 4}, {0, -2}, {-1, 0}};
  float moduli[4] = {0, 0, 0, 9};
  const void* in[] = {z};
  loop<Modulus, Cplx<float>, float, 1, 0>(moduli, in, 3, nullptr);
  promises.keep(moduli[0] == 5 && moduli[1] == 2 && moduli[2] == 1 && moduli[3] == 9,
                "real output");
  return promises.broken;
}

const char* broken_body_promise() {
  Promises promises;
  using V = Vec<float>;
  const float inf = float(kInf), nan = float(kNaN);
  promises.keep(is(LogAddExp()(V(-inf), V(-inf)), -inf) && is(LogAddExp()(V(inf), V(inf)), inf) &&
                    is(LogAddExp()(V(-inf), V(1)), 1.0f) && is(LogAddExp()(V(nan), V(1)), nan),
                "logaddexp at infinities");
  promises.keep(is(LogSigmoid()(V(-100)), -100.0f) && is(LogSigmoid()(V(inf)), 0.0f), "logsigmoid");
  promises.keep(is(Softplus()(V(25), V(2), V(20)), 25.0f), "softplus above its threshold");
  auto near = [](V x, double wanted) { return __builtin_fabs(x.lane(0) / wanted - 1) < 1e-5; };
  promises.keep(near(Gelu()(V(-5)), -1.4332578593838e-06) &&
                    near(Gelu()(V(0.5)), 0.34573123063700655) && near(Gelu()(V(-1e-30f)), -5e-31) &&
                    is(Gelu()(V(-1e30f)), -0.0f) && is(Gelu()(V(inf)), inf) &&
                    is(Gelu()(V(nan)), nan),
                "gelu in both tails");
  promises.keep(is(Xlogy()(V(0), V(0)), 0.0f) && is(Xlogy()(V(0), V(nan)), nan), "xlogy");
  promises.keep(is(Entr()(V(0)), 0.0f) && is(Entr()(V(-1)), -inf), "entr");
  promises.keep(is(Sign()(V(nan)), 0.0f) && is(Sign()(V(-2)), -1.0f), "sign");
  promises.keep(is(Angle()(V(-0.0)), 0.0f) && is(Angle()(V(-2)), float(kPi)), "angle");
  promises.keep(is(Heaviside()(V(-0.0), V(7)), 7.0f) && is(Heaviside()(V(nan), V(7)), 0.0f),
                "heaviside");
  promises.keep(is(Lerp()(V(2), V(0.1f), V(1)), 0.1f), "lerp is exact at its end");
  promises.keep(is(Clamp()(V(5), V(2), V(1)), 1.0f) && is(Clamp()(V(nan), V(2), V(1)), nan),
                "clamp");
  promises.keep(is(Fmax()(V(nan), V(1)), 1.0f) && is(Fmin()(V(1), V(nan)), 1.0f), "fmax, fmin");
  promises.keep(is(NanToNum()(V(-inf), V(1), V(2), V(3)), 3.0f), "nan_to_num");
  promises.keep(NanToNum()(Cplx<float>(nan, inf), Cplx<float>(1), Cplx<float>(2), Cplx<float>(3)) ==
                    Cplx<float>(1, 2),
                "complex nan_to_num");
  promises.keep(is(Logit()(V(2), V(-1)), nan) && is(Logit()(V(1), V(-1)), inf), "logit");
  promises.keep(is(Nextafter()(V(0), V(-1)), -0x1p-149f) &&
                    is(Nextafter()(V(inf), V(0)), 0x1.fffffep127f) &&
                    is(Nextafter()(V(-1), V(-2)), -0x1.000002p0f) &&
                    is(Nextafter()(V(1), V(0)), 0x1.fffffep-1f),
                "nextafter");
  promises.keep(is(PowScalar()(V(-0.0), V(0.5)), -0.0f) && is(PowScalar()(V(-inf), V(0.5)), nan),
                "sqrt power");
  promises.keep(is(Frexp()(V(-12)).a, -0.75f) && is(Frexp()(V(-12)).b, 4.0f) &&
                    is(Frexp()(V(0x1p-149f)).a, 0.5f) && is(Frexp()(V(0x1p-149f)).b, -148.0f) &&
                    is(Frexp()(V(inf)).a, inf) && is(Frexp()(V(-0.0)).b, 0.0f),
                "frexp");
  promises.keep(is(PowScalar()(V(1.1f), V(2)), 1.1f * 1.1f), "square");
  return promises.broken;
}

}  // namespace flambeau::FL_ISA
