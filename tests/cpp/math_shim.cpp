// The elementary functions over arrays, by name.
#include "flambeau/kernels/math.h"
#include "tests/cpp/kernel_shims.h"

namespace flambeau::FL_ISA {
namespace {

template <class T>
struct Entry {
  std::string_view name;
  Vec<T> (*function)(Vec<T>, Vec<T>);
};

template <class T>
constexpr Entry<T> kEntries[] = {
    {"exp", [](Vec<T> x, Vec<T>) { return exp(x); }},
    {"exp2", [](Vec<T> x, Vec<T>) { return exp2(x); }},
    {"expm1", [](Vec<T> x, Vec<T>) { return expm1(x); }},
    {"log", [](Vec<T> x, Vec<T>) { return log(x); }},
    {"log2", [](Vec<T> x, Vec<T>) { return log2(x); }},
    {"log10", [](Vec<T> x, Vec<T>) { return log10(x); }},
    {"log1p", [](Vec<T> x, Vec<T>) { return log1p(x); }},
    {"sin", [](Vec<T> x, Vec<T>) { return sin(x); }},
    {"cos", [](Vec<T> x, Vec<T>) { return cos(x); }},
    {"tan", [](Vec<T> x, Vec<T>) { return tan(x); }},
    {"asin", [](Vec<T> x, Vec<T>) { return asin(x); }},
    {"acos", [](Vec<T> x, Vec<T>) { return acos(x); }},
    {"atan", [](Vec<T> x, Vec<T>) { return atan(x); }},
    {"sinh", [](Vec<T> x, Vec<T>) { return sinh(x); }},
    {"cosh", [](Vec<T> x, Vec<T>) { return cosh(x); }},
    {"tanh", [](Vec<T> x, Vec<T>) { return tanh(x); }},
    {"asinh", [](Vec<T> x, Vec<T>) { return asinh(x); }},
    {"acosh", [](Vec<T> x, Vec<T>) { return acosh(x); }},
    {"atanh", [](Vec<T> x, Vec<T>) { return atanh(x); }},
    {"sigmoid", [](Vec<T> x, Vec<T>) { return sigmoid(x); }},
    {"erf", [](Vec<T> x, Vec<T>) { return erf(x); }},
    {"erfc", [](Vec<T> x, Vec<T>) { return erfc(x); }},
    {"erfinv", [](Vec<T> x, Vec<T>) { return erfinv(x); }},
    {"lgamma", [](Vec<T> x, Vec<T>) { return lgamma(x); }},
    {"digamma", [](Vec<T> x, Vec<T>) { return digamma(x); }},
    {"rsqrt", [](Vec<T> x, Vec<T>) { return rsqrt(x); }},
    {"sqrt", [](Vec<T> x, Vec<T>) { return sqrt(x); }},
    {"reciprocal", [](Vec<T> x, Vec<T>) { return reciprocal(x); }},
    {"floor", [](Vec<T> x, Vec<T>) { return floor(x); }},
    {"ceil", [](Vec<T> x, Vec<T>) { return ceil(x); }},
    {"trunc", [](Vec<T> x, Vec<T>) { return trunc(x); }},
    {"round", [](Vec<T> x, Vec<T>) { return round(x); }},
    {"sinc", [](Vec<T> x, Vec<T>) { return sinc(x); }},
    {"pow", [](Vec<T> x, Vec<T> y) { return pow(x, y); }},
    {"atan2", [](Vec<T> x, Vec<T> y) { return atan2(x, y); }},
    {"hypot", [](Vec<T> x, Vec<T> y) { return hypot(x, y); }},
    {"fmod", [](Vec<T> x, Vec<T> y) { return fmod(x, y); }},
    {"remainder", [](Vec<T> x, Vec<T> y) { return remainder(x, y); }},
    {"floor_divide", [](Vec<T> x, Vec<T> y) { return floor_divide(x, y); }},
    {"bessel_j0", [](Vec<T> x, Vec<T>) { return bessel_j0(x); }},
    {"bessel_j1", [](Vec<T> x, Vec<T>) { return bessel_j1(x); }},
    {"bessel_y0", [](Vec<T> x, Vec<T>) { return bessel_y0(x); }},
    {"bessel_y1", [](Vec<T> x, Vec<T>) { return bessel_y1(x); }},
    {"i0", [](Vec<T> x, Vec<T>) { return i0(x); }},
    {"i0e", [](Vec<T> x, Vec<T>) { return i0e(x); }},
    {"i1", [](Vec<T> x, Vec<T>) { return i1(x); }},
    {"i1e", [](Vec<T> x, Vec<T>) { return i1e(x); }},
    {"modified_bessel_k0", [](Vec<T> x, Vec<T>) { return modified_bessel_k0(x); }},
    {"modified_bessel_k1", [](Vec<T> x, Vec<T>) { return modified_bessel_k1(x); }},
    {"scaled_modified_bessel_k1", [](Vec<T> x, Vec<T>) { return scaled_modified_bessel_k1(x); }},
    {"spherical_bessel_j0", [](Vec<T> x, Vec<T>) { return spherical_bessel_j0(x); }},
    {"airy_ai", [](Vec<T> x, Vec<T>) { return airy_ai(x); }},
    {"zeta", [](Vec<T> x, Vec<T> y) { return zeta(x, y); }},
    {"polygamma", [](Vec<T> x, Vec<T> y) { return polygamma(x, y); }},
    {"igamma", [](Vec<T> x, Vec<T> y) { return igamma(x, y); }},
    {"igammac", [](Vec<T> x, Vec<T> y) { return igammac(x, y); }},
    {"ndtri", [](Vec<T> x, Vec<T>) { return ndtri(x); }},
    {"erfcx", [](Vec<T> x, Vec<T>) { return erfcx(x); }},
    {"log_ndtr", [](Vec<T> x, Vec<T>) { return log_ndtr(x); }},
    {"ndtr", [](Vec<T> x, Vec<T>) { return ndtr(x); }},
    {"chebyshev_polynomial_t", [](Vec<T> x, Vec<T> y) { return chebyshev_polynomial_t(x, y); }},
    {"chebyshev_polynomial_u", [](Vec<T> x, Vec<T> y) { return chebyshev_polynomial_u(x, y); }},
    {"hermite_polynomial_h", [](Vec<T> x, Vec<T> y) { return hermite_polynomial_h(x, y); }},
    {"laguerre_polynomial_l", [](Vec<T> x, Vec<T> y) { return laguerre_polynomial_l(x, y); }},
    {"legendre_polynomial_p", [](Vec<T> x, Vec<T> y) { return legendre_polynomial_p(x, y); }},
};

template <class T>
bool eval(std::string_view name, const T* x, const T* y, T* out, int64_t n) {
  for (const Entry<T>& entry : kEntries<T>) {
    if (entry.name != name) continue;
    for (int64_t i = 0; i < n; i += Vec<T>::kLanes) {
      entry.function(Vec<T>::load(x + i), Vec<T>::load(y + i)).store(out + i);
    }
    return true;
  }
  return false;
}

}  // namespace

bool eval_float(std::string_view name, const float* x, const float* y, float* out, int64_t n) {
  return eval(name, x, y, out, n);
}
bool eval_double(std::string_view name, const double* x, const double* y, double* out, int64_t n) {
  return eval(name, x, y, out, n);
}

}  // namespace flambeau::FL_ISA
