// The elementary functions against the C library in long double, on every instruction set of this
// processor. The largest errors, in units in the last place of the exact result, are recorded as
// properties of the tests.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "tests/cpp/kernel_shims.h"

namespace flambeau {
namespace {

using Exact = long double;

Exact sigmoid(Exact x) { return 1 / (1 + std::exp(-x)); }
Exact remainder_of_divisor(Exact x, Exact y) {
  Exact r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

struct Function {
  const char* name;
  double float_limit, double_limit;  // largest error allowed, in units in the last place
  Exact (*exact)(Exact, Exact);
};
constexpr Function kFunctions[] = {
    {"exp", 1, 1, [](Exact x, Exact) { return std::exp(x); }},
    {"exp2", 1, 1.2, [](Exact x, Exact) { return std::exp2(x); }},
    {"expm1", 1, 1.2, [](Exact x, Exact) { return std::expm1(x); }},
    {"log", 1, 1, [](Exact x, Exact) { return std::log(x); }},
    {"log2", 1, 1, [](Exact x, Exact) { return std::log2(x); }},
    {"log10", 1, 1, [](Exact x, Exact) { return std::log10(x); }},
    {"log1p", 1, 1, [](Exact x, Exact) { return std::log1p(x); }},
    {"sin", 1, 1, [](Exact x, Exact) { return std::sin(x); }},
    {"cos", 1, 1, [](Exact x, Exact) { return std::cos(x); }},
    {"tan", 1, 2.5, [](Exact x, Exact) { return std::tan(x); }},
    {"asin", 1, 1.5, [](Exact x, Exact) { return std::asin(x); }},
    {"acos", 1, 1.5, [](Exact x, Exact) { return std::acos(x); }},
    {"atan", 1, 2.5, [](Exact x, Exact) { return std::atan(x); }},
    {"sinh", 1, 2.5, [](Exact x, Exact) { return std::sinh(x); }},
    {"cosh", 1, 2, [](Exact x, Exact) { return std::cosh(x); }},
    {"tanh", 1.02, 2.5, [](Exact x, Exact) { return std::tanh(x); }},
    {"asinh", 1, 2.5, [](Exact x, Exact) { return std::asinh(x); }},
    {"acosh", 1, 3, [](Exact x, Exact) { return std::acosh(x); }},
    {"atanh", 1, 2.5, [](Exact x, Exact) { return std::atanh(x); }},
    {"sigmoid", 2.5, 2.5, [](Exact x, Exact) { return sigmoid(x); }},
    {"erf", 1.03, 1.5, [](Exact x, Exact) { return std::erf(x); }},
    {"erfc", 1, 4, [](Exact x, Exact) { return std::erfc(x); }},
    {"rsqrt", 1.5, 1.5, [](Exact x, Exact) { return 1 / std::sqrt(x); }},
    {"sqrt", 0.5, 0.501, [](Exact x, Exact) { return std::sqrt(x); }},
    {"reciprocal", 0.5, 0.501, [](Exact x, Exact) { return 1 / x; }},
    {"floor", 0, 0, [](Exact x, Exact) { return std::floor(x); }},
    {"ceil", 0, 0, [](Exact x, Exact) { return std::ceil(x); }},
    {"trunc", 0, 0, [](Exact x, Exact) { return std::trunc(x); }},
    {"round", 0, 0, [](Exact x, Exact) { return std::nearbyint(x); }},
    {"pow", 1, 1, [](Exact x, Exact y) { return std::pow(x, y); }},
    {"atan2", 1, 2.5, [](Exact x, Exact y) { return std::atan2(x, y); }},
    {"hypot", 1, 2.5, [](Exact x, Exact y) { return std::hypot(x, y); }},
    {"fmod", 0, 0, [](Exact x, Exact y) { return std::fmod(x, y); }},
    {"remainder", 0.5, 0.501, remainder_of_divisor},
};

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x{0,
                   1,
                   0.5,
                   2,
                   3,
                   10,
                   0.75,
                   0.875,
                   1e5,
                   1e10,
                   1e20,
                   88.72f,
                   88.73f,
                   87.3f,
                   103.9f,
                   709.78,
                   709.79,
                   744.4,
                   745.2,
                   127.9,
                   128,
                   149,
                   150,
                   1023.99,
                   1024,
                   1074,
                   1075,
                   Limits::infinity(),
                   Limits::quiet_NaN(),
                   Limits::min(),
                   Limits::denorm_min(),
                   Limits::max(),
                   T(1) + Limits::epsilon(),
                   T(1) - Limits::epsilon() / 2,
                   T(1.5707963267948966),
                   T(3.1415926535897932),
                   1048575,
                   1048577};
  for (size_t i = 0, n = x.size(); i < n; ++i) x.push_back(-x[i]);
  return x;
}

// Dense near the origin, thinner to the ends of the exponent range, and some of any bits.
template <class T>
T any_value(std::mt19937_64& random) {
  double unit = std::ldexp(double(random() >> 11), -53) - 0.5;
  switch (random() % 8) {
    case 0:
    case 1:
      return T(unit * 40);
    case 2:
      return T(unit * 4);
    case 3:
      return T(unit * 400);
    case 4:
      return T(unit * 3000);
    case 5:
      return T(std::ldexp(unit, int(random() % 60) - 40));
    case 6:
      return T(1 + unit * 0.1);
    default:
      break;
  }
  uint64_t bits = random();
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

template <class T>
struct Samples {
  std::vector<T> x, y;
  Samples() {
    std::vector<T> special = special_values<T>();
    for (T a : special) {
      for (T b : special) x.push_back(a), y.push_back(b);
    }
    std::mt19937_64 random(7);
    while (x.size() < 40'000 || x.size() % 16 != 0) {
      x.push_back(any_value<T>(random));
      y.push_back(any_value<T>(random));
    }
  }
};

// The error in units in the last place of the exact result; infinite where kind or sign are wrong.
template <class T>
double error_in_ulps(T got, Exact exact) {
  using Limits = std::numeric_limits<T>;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  T nearest = T(exact);
  if (std::isnan(nearest) || std::isnan(got))
    return std::isnan(nearest) == std::isnan(got) ? 0 : wrong;
  if (got == 0 && nearest == 0) return std::signbit(got) == std::signbit(nearest) ? 0 : wrong;
  if (std::isinf(got) && std::isinf(nearest)) return got == nearest ? 0 : wrong;
  int exponent;
  std::frexp(exact, &exponent);
  if (std::isinf(got) ||
      std::isinf(nearest)) {  // at the border: as if the next power of two existed
    Exact next = std::copysign(std::ldexp(Exact(1), Limits::max_exponent), Exact(got));
    Exact reached = std::isinf(got) ? next : Exact(got);
    Exact wanted = std::isinf(nearest) && std::isinf(exact) ? next : exact;
    return double(std::fabs(reached - wanted) /
                  std::ldexp(Exact(1), Limits::max_exponent - Limits::digits));
  }
  int last = std::max(exponent - Limits::digits, Limits::min_exponent - Limits::digits);
  return double(std::fabs(Exact(got) - exact) / std::ldexp(Exact(1), last));
}

template <class T, class Eval>
void expect_accurate(const Function& f, const Samples<T>& samples, Eval* const* variants,
                     double limit) {
  size_t n = samples.x.size();
  std::vector<Exact> exact(n);
  for (size_t i = 0; i < n; ++i) exact[i] = f.exact(samples.x[i], samples.y[i]);
  for (int isa = 0; isa <= int(detect_isa()); ++isa) {
    std::vector<T> got(n);
    ASSERT_TRUE(variants[isa](f.name, samples.x.data(), samples.y.data(), got.data(), int64_t(n)));
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < n; ++i) {
      double error = error_in_ulps(got[i], exact[i]);
      if (error > worst) worst = error, where = i;
    }
    EXPECT_LE(worst, limit) << f.name << " v" << isa + 2 << " at " << samples.x[where] << ", "
                            << samples.y[where] << ": " << got[where] << ", exact " << exact[where];
    ::testing::Test::RecordProperty(std::string(f.name) + "_v" + std::to_string(isa + 2),
                                    std::to_string(worst));
  }
}

TEST(Math, floats_are_within_their_limits) {
  Samples<float> samples;
  for (const Function& f : kFunctions) {
    expect_accurate<float>(f, samples, eval_float.variants, f.float_limit);
  }
}

TEST(Math, doubles_are_within_their_limits) {
  Samples<double> samples;
  for (const Function& f : kFunctions) {
    expect_accurate<double>(f, samples, eval_double.variants, f.double_limit);
  }
}

// Where sines and cosines are nearly zero the reduction of the angle shows, up to angles that take
// the longer way.
TEST(Math, angles_next_to_quarter_turns) {
  Samples<float> samples;
  samples.x.clear();
  for (int quarter = -1100; quarter <= 1100; ++quarter) {
    float x = float(quarter * 1.57079632679489661923L);
    for (int i = 0; i < 3; ++i) x = std::nextafter(x, -10'000.0f);
    for (int i = 0; i < 7; ++i, x = std::nextafter(x, 10'000.0f)) samples.x.push_back(x);
  }
  while (samples.x.size() % 16 != 0) samples.x.push_back(1);
  samples.y.assign(samples.x.size(), 0);
  for (const Function& f : kFunctions) {
    std::string_view name = f.name;
    if (name == "sin" || name == "cos" || name == "tan")
      expect_accurate<float>(f, samples, eval_float.variants, f.float_limit);
  }
}

// Large angles take a longer way, alone.
TEST(Math, large_angles_leave_their_neighbours_alone) {
  for (int isa = 0; isa <= int(detect_isa()); ++isa) {
    for (const char* name : {"sin", "cos", "tan"}) {
      std::vector<float> x(16), before(16), after(16);
      for (int i = 0; i < 16; ++i) x[size_t(i)] = float(i * 48.7 - 350);
      ASSERT_TRUE(eval_float.variants[isa](name, x.data(), x.data(), before.data(), 16));
      x[5] = before[5] = 1e5f;
      ASSERT_TRUE(eval_float.variants[isa](name, x.data(), x.data(), after.data(), 16));
      after[5] = 1e5f;
      EXPECT_EQ(before, after) << name << " v" << isa + 2;
    }
  }
}

TEST(Math, logarithms_of_powers_are_whole) {
  for (int isa = 0; isa <= int(detect_isa()); ++isa) {
    for (int k = -120; k <= 120; k += 8) {
      std::vector<float> x(16, std::ldexp(1.0f, k)), got(16);
      ASSERT_TRUE(eval_float.variants[isa]("log2", x.data(), x.data(), got.data(), 16));
      EXPECT_EQ(got[0], k);
      std::vector<double> wide(16, std::ldexp(1.0, 8 * k)), wide_got(16);
      ASSERT_TRUE(eval_double.variants[isa]("log2", wide.data(), wide.data(), wide_got.data(), 16));
      EXPECT_EQ(wide_got[0], 8 * k);
    }
  }
}

// Known values to 20 digits, where the C library has no function or not the accuracy.
struct Known {
  const char* name;
  double x, y, value;
};
constexpr Known kKnown[] = {
    {"erfinv", 0.5, 0, 0.47693627620446987338},
    {"erfinv", -0.0078125, 0, -0.0069237584915496137081},
    {"erfinv", 0.9990234375, 0, 2.3314677736219476723},
    {"erfinv", 1 - 0x1p-40, 0, 5.0512540852493899671},
    {"lgamma", 0.5, 0, 0.57236494292470008707},
    {"lgamma", -2.5, 0, -0.056243716497674050673},
    {"lgamma", 100, 0, 359.13420536957539878},
    {"digamma", 1, 0, -0.57721566490153286061},
    {"digamma", -0.5, 0, 0.036489973978576520559},
    {"digamma", 25.5, 0, 3.2189424728839197665},
    {"sinc", 0.5, 0, 0.63661977236758134308},
    {"floor_divide", 7, -2, -4},
    {"floor_divide", -7, 2, -4},
    {"floor_divide", 1, 0.1, 9},
    {"floor_divide", 5, -std::numeric_limits<double>::infinity(), -1},
    {"bessel_j0", 2.5, 0, -0.048383776468197996327},
    {"bessel_j1", -30, 0, 0.11875106261662293652},
    {"bessel_y0", 0.5, 0, -0.44451873350670655715},
    {"bessel_y1", 7, 0, -0.30266723702418487006},
    {"i0", 3, 0, 4.8807925858650240856},
    {"i0e", -50, 0, 0.05656162664745419253},
    {"i1", -3, 0, -3.9533702174026093965},
    {"i1e", 25, 0, 0.078576113319292772028},
    {"modified_bessel_k0", 0.5, 0, 0.92441907122766586178},
    {"modified_bessel_k0", 5, 0, 0.0036910983340425942747},
    {"modified_bessel_k1", 0.5, 0, 1.6564411200033008937},
    {"scaled_modified_bessel_k1", 5, 0, 0.60027385878831258294},
    {"spherical_bessel_j0", 4, 0, -0.18920062382698206284},
    {"airy_ai", -12, 0, -0.066555175054373129474},
    {"airy_ai", -3, 0, -0.37881429367765807435},
    {"airy_ai", 0.5, 0, 0.23169360648083348977},
    {"airy_ai", 5, 0, 0.00010834442813607441735},
    {"zeta", 2, 1, 1.6449340668482264365},
    {"zeta", 3.5, 0.25, 128.54695896428434578},
    {"polygamma", 1, -0.5, 8.9348022005446793094},
    {"polygamma", 3, 2.5, 0.22390584881725205126},
    {"igamma", 2.5, 1.5, 0.3000141641213724909},
    {"igammac", 2.5, 10, 0.0012497305630313754119},
    {"igammac", 1e-10, 0.5, 5.5977359480549879093e-11},
    {"ndtri", 0.001, 0, -3.0902323061678135354},
    {"ndtri", 0.75, 0, 0.6744897501960817432},
    {"erfcx", -1, 0, 5.0089800807622834663},
    {"erfcx", 5, 0, 0.11070463773306862637},
    {"erfcx", 100, 0, 0.0056416137829894329036},
    {"log_ndtr", -40, 0, -804.60844201375378817},
    {"log_ndtr", 3, 0, -0.0013508099647481937988},
    {"ndtr", -2, 0, 0.0227501319481792072},
    {"chebyshev_polynomial_t", 0.5, 9, -1.0},
    {"chebyshev_polynomial_u", 1.5, 4, 55.0},
    {"hermite_polynomial_h", 0.5, 5, 41.0},
    {"laguerre_polynomial_l", 1.5, 4, -0.2890625},
    {"legendre_polynomial_p", 0.25, 6, 0.0242767333984375},
};

TEST(Math, known_values) {
  for (int isa = 0; isa <= int(detect_isa()); ++isa) {
    for (const Known& known : kKnown) {
      std::vector<double> x(16, known.x), y(16, known.y), got(16);
      ASSERT_TRUE(eval_double.variants[isa](known.name, x.data(), y.data(), got.data(), 16));
      EXPECT_NEAR(got[0], known.value, std::fabs(known.value) * 4e-14 + 1e-15)
          << known.name << " " << known.x;
      std::vector<float> xf(16, float(known.x)), yf(16, float(known.y)), gotf(16);
      if (double(xf[0]) != known.x || double(yf[0]) != known.y) continue;
      ASSERT_TRUE(eval_float.variants[isa](known.name, xf.data(), yf.data(), gotf.data(), 16));
      EXPECT_NEAR(gotf[0], known.value, std::fabs(known.value) * 1.2e-7)
          << known.name << " " << known.x;
    }
  }
}

TEST(Math, special_functions_at_their_limits) {
  double inf = std::numeric_limits<double>::infinity();
  auto at = [](const char* name, double x, double y = 0) {
    std::vector<double> xs(16, x), ys(16, y), out(16);
    eval_double(name, xs.data(), ys.data(), out.data(), 16);
    return out[0];
  };
  EXPECT_EQ(at("erfinv", 1), inf);
  EXPECT_EQ(at("erfinv", -1), -inf);
  EXPECT_TRUE(std::isnan(at("erfinv", 1.5)));
  EXPECT_EQ(at("digamma", 0.0), -inf);
  EXPECT_EQ(at("digamma", -0.0), inf);
  EXPECT_TRUE(std::isnan(at("digamma", -3)));
  EXPECT_EQ(at("digamma", inf), inf);
  EXPECT_EQ(at("lgamma", -1), inf);
  EXPECT_EQ(at("sinc", 0), 1);
  EXPECT_EQ(at("floor_divide", 1, 0), inf);
  EXPECT_TRUE(std::isnan(at("floor_divide", 0, 0)));
  EXPECT_TRUE(std::signbit(at("floor_divide", -0.0, 3)));
}

}  // namespace
}  // namespace flambeau
