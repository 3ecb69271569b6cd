// Derivatives of Fourier transforms of real numbers: transforms of the other sign.
#include "flambeau/autograd/derivatives.h"

namespace flambeau {

namespace {

// Half a spectrum, all but its first and, for even n, its last element times `weight`: each of
// these stands for two.
Tensor weighted_half(const Tensor& half, int64_t last, int64_t n, double weight) {
  int64_t twice = (n - 1) / 2;
  if (twice == 0) return half;
  Ints sizes(size_t(half.ndim()), 1);
  sizes[size_t(last)] = half.size(last);
  Tensor weights = ops::ones(sizes, real_of(half.dtype()), {}, half.device());
  Tensor inner = ops::narrow(weights, last, 1, twice);
  ops::fill_(inner, weight);
  return half * weights;
}

}  // namespace

// x[j] is the real part of a sum over those k that are there; transforming half a spectrum back
// counts most of them twice.
Tensor fft_r2c_backward(const Tensor& g, IntList sizes, IntList dim, int64_t normalization,
                        bool onesided, bool forward) {
  if (!onesided) return ops::real(ops::_fft_c2c(g, dim, normalization, !forward));
  int64_t last = dim.back() < 0 ? dim.back() + g.ndim() : dim.back(), n = sizes[size_t(last)];
  return ops::_fft_c2r(weighted_half(g, last, n, 0.5), dim, normalization, n, !forward);
}

Tensor fft_c2r_backward(const Tensor& g, IntList dim, int64_t normalization, int64_t last_dim_size,
                        bool forward) {
  int64_t last = dim.back() < 0 ? dim.back() + g.ndim() : dim.back();
  Tensor half = ops::_fft_r2c(g, dim, normalization, true, !forward);
  return weighted_half(half, last, last_dim_size, 2);
}

}  // namespace flambeau
