// Special functions of one number, in double, with torch's answers outside their domains. Too slow
// and too rare for registers: kernels call them lane by lane (math_rare.h). Sources: special_*.cpp.
#pragma once

namespace flambeau::special {

// special_gamma.cpp
double digamma(double x);
double zeta(double x, double q);       // Hurwitz
double polygamma(double n, double x);  // n-th derivative of digamma
double igamma(double a, double x);     // regularised lower incomplete gamma
double igammac(double a, double x);    // and upper
double ndtri(double p);                // inverse of the normal distribution function

// special_bessel.cpp; an "e" or "scaled" carries the factor e^-|x| or e^x
double bessel_j0(double x);
double bessel_j1(double x);
double bessel_y0(double x);
double bessel_y1(double x);
double i0(double x);
double i0e(double x);
double i1(double x);
double i1e(double x);
double modified_bessel_k0(double x);
double modified_bessel_k1(double x);
double scaled_modified_bessel_k0(double x);
double scaled_modified_bessel_k1(double x);
double spherical_bessel_j0(double x);
double airy_ai(double x);

// special_polynomials.cpp: of degree n, truncated; 0 for a negative degree
double chebyshev_polynomial_t(double x, double n);
double chebyshev_polynomial_u(double x, double n);
double chebyshev_polynomial_v(double x, double n);
double chebyshev_polynomial_w(double x, double n);
double hermite_polynomial_h(double x, double n);
double hermite_polynomial_he(double x, double n);
double laguerre_polynomial_l(double x, double n);
double legendre_polynomial_p(double x, double n);

}  // namespace flambeau::special
