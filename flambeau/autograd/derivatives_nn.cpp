// Derivatives of neural network ops.
#include "flambeau/autograd/derivatives.h"
#include "flambeau/ops/spatial.h"

namespace flambeau {

// dx of a convolution is the convolution that goes the other way; where strides left a rest, output
// padding restores it.
Tensor convolution_input(const Tensor& g, const Tensor& weight, IntList sizes, IntList stride,
                         IntList padding, IntList dilation, bool transposed, int64_t groups) {
  Ints extra;
  for (size_t d = 0; d + 2 < sizes.size(); d++) {
    int64_t reach = setting(dilation, d) * (weight.size(int64_t(d) + 2) - 1) + 1;
    int64_t full =
        (g.size(int64_t(d) + 2) - 1) * setting(stride, d) - 2 * setting(padding, d) + reach;
    extra.push_back(transposed ? 0 : sizes[d + 2] - full);
  }
  Tensor gx =
      ops::convolution(g, weight, Tensor(), stride, padding, dilation, !transposed, extra, groups);
  for (size_t d = 2; d < sizes.size();
       d++) {  // output padding beyond the stride leaves places that came from no input
    if (gx.size(int64_t(d)) > sizes[d]) gx = ops::narrow(gx, int64_t(d), 0, sizes[d]);
  }
  return gx;
}

// Output padding beyond the stride makes an image of more places than the input has: zeros stand
// for those.
Tensor convolution_weight(const Tensor& g, const Tensor& input, IntList size, IntList stride,
                          IntList padding, IntList dilation, bool transposed, int64_t groups) {
  Ints missing;
  bool grows = false;
  for (size_t d = size.size() - 2; transposed && d-- > 0;) {
    int64_t dim = int64_t(d) + 2, reach = setting(dilation, d) * (size[d + 2] - 1) + 1;
    int64_t places = (g.size(dim) + 2 * setting(padding, d) - reach) / setting(stride, d) + 1;
    missing.push_back(0);
    missing.push_back(places - input.size(dim));
    grows = grows || missing.back() > 0;
  }
  Tensor x = grows ? ops::constant_pad_nd(input, missing, Scalar(int64_t{0})) : input;
  return ops::_convolution_weight(g, x, size, stride, padding, dilation, transposed, groups);
}

Ints no_output_padding(IntList stride) { return Ints(stride.size(), 0); }

Tensor sum_channels(const Tensor& g) {
  Ints dims{0};
  for (int64_t d = 2; d < g.ndim(); d++) dims.push_back(d);
  return ops::sum(g, IntList(dims));
}

// The gradient of softmax is linear in grad, with the same matrix as forward: dx = J g, J = diag(y)
// - y y'. For the logarithm J = I - 1 p' transposed: dx = g - p sum(g).
Tensor softmax_backward_twice_grad(const Tensor& g, const Tensor& y, int64_t dim, bool log) {
  if (!log) return ops::_softmax_backward(g, y, dim, false);
  return g - ops::sum(g * ops::exp(y), IntList(&dim, 1), true);
}

Tensor softmax_backward_twice_output(const Tensor& g, const Tensor& grad, const Tensor& y,
                                     int64_t dim, bool log) {
  IntList along(&dim, 1);
  if (log) return -(g * ops::exp(y) * ops::sum(grad, along, true));
  return g * grad - g * ops::sum(grad * y, along, true) - grad * ops::sum(g * y, along, true);
}

Ints spatial_sizes(IntList sizes, IntList) {
  return Ints(IntList(sizes.data() + 2, sizes.size() - 2));
}

}  // namespace flambeau
