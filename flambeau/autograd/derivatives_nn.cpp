// Derivatives of neural network ops.
#include "flambeau/autograd/derivatives.h"

namespace flambeau {

// dx of a convolution is the convolution that goes the other way; where strides left a rest, output
// padding restores it.
Tensor convolution_input(const Tensor& g, const Tensor& weight, IntList sizes, IntList stride,
                         IntList padding, IntList dilation, bool transposed, int64_t groups) {
  Ints extra;
  auto at = [](IntList list, size_t d) { return list.size() == 1 ? list[0] : list[d]; };
  for (size_t d = 0; d + 2 < sizes.size(); d++) {
    int64_t reach = at(dilation, d) * (weight.size(int64_t(d) + 2) - 1) + 1;
    int64_t full = (g.size(int64_t(d) + 2) - 1) * at(stride, d) - 2 * at(padding, d) + reach;
    extra.push_back(transposed ? 0 : sizes[d + 2] - full);
  }
  return ops::convolution(g, weight, Tensor(), stride, padding, dilation, !transposed, extra,
                          groups);
}

Ints no_output_padding(IntList stride) { return Ints(stride.size(), 0); }

Tensor sum_channels(const Tensor& g) {
  Ints dims{0};
  for (int64_t d = 2; d < g.ndim(); d++) dims.push_back(d);
  return ops::sum(g, IntList(dims));
}

}  // namespace flambeau
