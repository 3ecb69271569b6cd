// Shapes of convolutions and their calls of the kernels, which know up to three spatial dims.
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/conv.h"
#include "flambeau/ops/runtime.h"
#include "flambeau/ops/spatial.h"

namespace flambeau::ops {

namespace {

void check_settings(std::string_view what, IntList list, int64_t dims, int64_t least) {
  FL_CHECK(list.size() == 1 || int64_t(list.size()) == dims, RuntimeError,
           "convolution: {} must have 1 or {} values, got {}", what, dims, list);
  for (int64_t v : list)
    FL_CHECK(v >= least && v < kMostSetting, RuntimeError,
             "convolution: {} must be at least {} and below 2^31, got {}", what, least, list);
}

// Sizes of the result from those of input and weight.
Ints output_sizes(IntList input, IntList weight, IntList stride, IntList padding, IntList dilation,
                  bool transposed, IntList output_padding, int64_t groups) {
  int64_t dims = int64_t(weight.size()) - 2;
  check_settings("stride", stride, dims, 1);
  check_settings("padding", padding, dims, 0);
  check_settings("dilation", dilation, dims, 1);
  if (transposed) check_settings("output_padding", output_padding, dims, 0);
  Ints sizes{input[0], transposed ? weight[1] * groups : weight[0]};
  for (size_t i = 0; i < size_t(dims); i++) {
    int64_t in = input[i + 2], reach = setting(dilation, i) * (weight[i + 2] - 1) + 1;
    int64_t pad = setting(padding, i), step = setting(stride, i);
    if (transposed) {
      sizes.push_back((in - 1) * step - 2 * pad + reach + setting(output_padding, i));
    } else {
      int64_t room = window_room(in, weight[i + 2], pad, setting(dilation, i));
      FL_CHECK(room >= 0, RuntimeError,
               "convolution: the kernel reaches over {} elements, dim {} of input {} has {} with "
               "padding {}",
               reach, i + 2, input, in, pad);
      sizes.push_back(room / step + 1);
    }
    FL_CHECK(sizes.back() >= 0, RuntimeError,
             "convolution: the result would have size {} in dim {}", sizes.back(), i + 2);
  }
  return sizes;
}

void check_dtypes(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  FL_CHECK(input.dtype() == weight.dtype(), RuntimeError,
           "convolution: input is {}, weight is {}; cast one with .to(dtype)", input.dtype(),
           weight.dtype());
  FL_CHECK(!bias.defined() || bias.dtype() == input.dtype(), RuntimeError,
           "convolution: input is {}, bias is {}; cast one with .to(dtype)", input.dtype(),
           bias.defined() ? bias.dtype() : DType{});
}

void check_channels(const Tensor& input, const Tensor& weight, const Tensor& bias, bool transposed,
                    int64_t groups) {
  FL_CHECK(groups > 0, RuntimeError, "convolution: groups must be positive, got {}", groups);
  FL_CHECK(weight.size(0) % groups == 0, RuntimeError,
           "convolution: {} channels of weight {} do not divide into {} groups", weight.size(0),
           weight.sizes(), groups);
  int64_t want = transposed ? weight.size(0) : weight.size(1) * groups;
  FL_CHECK(input.size(1) == want, RuntimeError,
           "convolution: a weight of shape {} with groups={} needs {} input channels, got input of "
           "shape {}",
           weight.sizes(), groups, want, input.sizes());
  int64_t out = transposed ? weight.size(1) * groups : weight.size(0);
  FL_CHECK(!bias.defined() || (bias.ndim() == 1 && bias.size(0) == out), RuntimeError,
           "convolution: bias must have shape ({},), got {}", out,
           bias.defined() ? bias.sizes() : IntList());
}

}  // namespace

Ints convolution_shape(const Tensor& input, const Tensor& weight, const Tensor& bias,
                       IntList stride, IntList padding, IntList dilation, bool transposed,
                       IntList output_padding, int64_t groups) {
  int64_t dims = weight.ndim() - 2;
  FL_CHECK(dims >= 1 && dims <= 3 && input.ndim() == weight.ndim(), RuntimeError,
           "convolution: input and weight must both have 3 to 5 dims, got {} and {}", input.sizes(),
           weight.sizes());
  check_dtypes(input, weight, bias);
  check_channels(input, weight, bias, transposed, groups);
  return output_sizes(input.sizes(), weight.sizes(), stride, padding, dilation, transposed,
                      output_padding, groups);
}

namespace {

// The plain convolution that goes from `image` to `result` by `weight`; a transposed one is that
// run backwards.
ConvArgs arguments(const Tensor& image, const Tensor& result, const Tensor& weight, IntList stride,
                   IntList padding, IntList dilation, int64_t groups) {
  ConvArgs a{};
  a.dtype = image.dtype();
  a.batch = image.size(0);
  a.c_in = image.size(1);
  a.c_out = result.size(1);
  a.groups = groups;
  int64_t dims = weight.ndim() - 2;
  for (int i = 0; i < 3; i++) {
    int64_t d = i - (3 - dims);  // missing dims come first
    a.in[i] = d < 0 ? 1 : image.size(d + 2);
    a.out[i] = d < 0 ? 1 : result.size(d + 2);
    a.kernel[i] = d < 0 ? 1 : weight.size(d + 2);
    // A single window has no stride, a single tap no dilation, however large the numbers.
    a.stride[i] = d < 0 || a.out[i] == 1 ? 1 : setting(stride, size_t(d));
    a.pad[i] = d < 0 ? 0 : setting(padding, size_t(d));
    a.dilation[i] = d < 0 || a.kernel[i] == 1 ? 1 : setting(dilation, size_t(d));
  }
  return a;
}

void add_bias(Tensor& result, const Tensor& bias) {
  if (!bias.defined()) return;
  Ints column{bias.numel()};
  for (int64_t d = 2; d < result.ndim(); d++) column.push_back(1);
  NoGradGuard no_grad;
  add_(result, reshape(bias, column));
}

}  // namespace

void convolution_kernel(Tensor& result, const Tensor& input, const Tensor& weight,
                        const Tensor& bias, IntList stride, IntList padding, IntList dilation,
                        bool transposed, IntList, int64_t groups) {
  if (result.numel() == 0) return;
  if (weight.numel() == 0) {  // no channels come in: the bias alone
    zero_into(result);
    return add_bias(result, bias);
  }
  if (!transposed) {
    ConvArgs a = arguments(input, result, weight, stride, padding, dilation, groups);
    a.x = input->data;
    a.w = weight->data;
    a.bias = bias.defined() ? bias->data : nullptr;
    a.y = result->data;
    return conv_forward(a);
  }
  ConvArgs a = arguments(result, input, weight, stride, padding, dilation, groups);
  a.gy = input->data;
  a.w = weight->data;
  a.gx = result->data;
  conv_backward_input(a);
  add_bias(result, bias);
}

Ints convolution_weight_shape(const Tensor& grad, const Tensor& input, IntList size, IntList stride,
                              IntList padding, IntList dilation, bool transposed, int64_t groups) {
  const Tensor &image = transposed ? grad : input, &output = transposed ? input : grad;
  bool fits = size.size() >= 3 && size.size() <= 5 && image.ndim() == int64_t(size.size()) &&
              output.ndim() == image.ndim() && groups > 0 && size[0] % groups == 0 &&
              image.size(1) == size[1] * groups && image.dtype() == output.dtype();
  fits = fits && output_sizes(image.sizes(), size, stride, padding, dilation, false, padding,
                              groups) == Ints(output.sizes());
  FL_CHECK(fits, RuntimeError,
           "convolution: a weight of shape {} in {} groups does not lie between {} of shape {} and "
           "{} of shape {}",
           size, groups, input.dtype(), input.sizes(), grad.dtype(), grad.sizes());
  return size;
}

void convolution_weight_kernel(Tensor& result, const Tensor& grad, const Tensor& input, IntList,
                               IntList stride, IntList padding, IntList dilation, bool transposed,
                               int64_t groups) {
  if (result.numel() == 0) return;
  const Tensor &image = transposed ? grad : input, &output = transposed ? input : grad;
  ConvArgs a = arguments(image, output, result, stride, padding, dilation, groups);
  a.x = image->data;
  a.gy = output->data;
  a.gw = result->data;
  conv_backward_weight(a);
}

namespace {

// Adds the batch dim that an unbatched input lacks, and takes it away again.
template <class F>
Tensor with_batch(std::string_view op, const Tensor& input, const Tensor& weight, int64_t dims,
                  F f) {
  FL_CHECK(weight.ndim() == dims + 2, RuntimeError, "{}: weight must have {} dims, got shape {}",
           op, dims + 2, weight.sizes());
  FL_CHECK(input.ndim() == dims + 2 || input.ndim() == dims + 1, RuntimeError,
           "{}: input must have {} dims, or {} without a batch, got shape {}", op, dims + 2,
           dims + 1, input.sizes());
  if (input.ndim() == dims + 2) return f(input);
  return squeeze(f(unsqueeze(input, 0)), 0);
}

Tensor plain(std::string_view op, int64_t dims, const Tensor& input, const Tensor& weight,
             const Tensor& bias, IntList stride, IntList padding, IntList dilation,
             int64_t groups) {
  static constexpr int64_t kNone[3] = {0, 0, 0};
  return with_batch(op, input, weight, dims, [&](const Tensor& x) {
    return convolution(x, weight, bias, stride, padding, dilation, false,
                       IntList(kNone, size_t(dims)), groups);
  });
}

// padding="same": as much as keeps the size; an odd rest goes behind.
Tensor padded(std::string_view op, int64_t dims, const Tensor& input, const Tensor& weight,
              const Tensor& bias, IntList stride, std::string_view padding, IntList dilation,
              int64_t groups) {
  FL_CHECK(padding == "valid" || padding == "same", RuntimeError,
           "{}: padding must be 'valid', 'same' or numbers, got '{}'", op, padding);
  FL_CHECK(weight.ndim() == dims + 2, RuntimeError, "{}: weight must have {} dims, got shape {}",
           op, dims + 2, weight.sizes());
  Ints before(static_cast<size_t>(dims), 0);
  if (padding == "valid")
    return plain(op, dims, input, weight, bias, stride, before, dilation, groups);
  Ints extra;  // as constant_pad_nd wants it: last dim first, before and behind
  bool uneven = false;
  for (int64_t d = dims - 1; d >= 0; d--) {
    FL_CHECK(setting(stride, size_t(d)) == 1, RuntimeError,
             "{}: padding='same' needs stride 1, got {}", op, stride);
    int64_t total = setting(dilation, size_t(d)) * (weight.size(d + 2) - 1);
    before[size_t(d)] = total / 2;
    extra.push_back(0);
    extra.push_back(total % 2);
    uneven = uneven || total % 2;
  }
  Tensor x = uneven ? constant_pad_nd(input, extra, Scalar(int64_t{0})) : input;
  return plain(op, dims, x, weight, bias, stride, before, dilation, groups);
}

Tensor transposed(std::string_view op, int64_t dims, const Tensor& input, const Tensor& weight,
                  const Tensor& bias, IntList stride, IntList padding, IntList output_padding,
                  int64_t groups, IntList dilation) {
  return with_batch(op, input, weight, dims, [&](const Tensor& x) {
    return convolution(x, weight, bias, stride, padding, dilation, true, output_padding, groups);
  });
}

}  // namespace

Tensor conv1d_impl(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                   IntList padding, IntList dilation, int64_t groups) {
  return plain("conv1d", 1, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv1d_impl(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                   std::string_view padding, IntList dilation, int64_t groups) {
  return padded("conv1d", 1, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv2d_impl(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                   IntList padding, IntList dilation, int64_t groups) {
  return plain("conv2d", 2, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv2d_impl(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                   std::string_view padding, IntList dilation, int64_t groups) {
  return padded("conv2d", 2, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv3d_impl(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                   IntList padding, IntList dilation, int64_t groups) {
  return plain("conv3d", 3, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv3d_impl(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                   std::string_view padding, IntList dilation, int64_t groups) {
  return padded("conv3d", 3, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv_transpose1d_impl(const Tensor& input, const Tensor& weight, const Tensor& bias,
                             IntList stride, IntList padding, IntList output_padding,
                             int64_t groups, IntList dilation) {
  return transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding,
                    groups, dilation);
}
Tensor conv_transpose2d_impl(const Tensor& input, const Tensor& weight, const Tensor& bias,
                             IntList stride, IntList padding, IntList output_padding,
                             int64_t groups, IntList dilation) {
  return transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding,
                    groups, dilation);
}
Tensor conv_transpose3d_impl(const Tensor& input, const Tensor& weight, const Tensor& bias,
                             IntList stride, IntList padding, IntList output_padding,
                             int64_t groups, IntList dilation) {
  return transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding,
                    groups, dilation);
}

Tensor conv_tbc_impl(const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t pad) {
  FL_CHECK(
      self.ndim() == 3 && weight.ndim() == 3 && bias.ndim() == 1, RuntimeError,
      "conv_tbc: input (l, n, c), weight (k, c, d) and bias (d,) are needed, got {}, {} and {}",
      self.sizes(), weight.sizes(), bias.sizes());
  FL_CHECK(pad >= 0, RuntimeError, "conv_tbc: pad must not be negative, got {}", pad);
  return permute(
      conv1d(permute(self, {1, 2, 0}), permute(weight, {2, 1, 0}), bias, IntList{1}, IntList{pad}),
      {2, 0, 1});
}

}  // namespace flambeau::ops
