// Shapes of pooling and its calls of the kernels, which know up to three spatial dims.
#include "flambeau/kernels/cpu/pool.h"

#include "flambeau/generated/impl.h"
#include "flambeau/ops/indices.h"
#include "flambeau/ops/runtime.h"
#include "flambeau/ops/spatial.h"

namespace flambeau::ops {

namespace {

int64_t pooled_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                    bool ceil_mode) {
  int64_t room = window_room(in, kernel, pad, dilation);
  int64_t out = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (room < 0) out = room + stride < 0 || !ceil_mode ? 0 : out;
  // With ceil_mode the last window must start inside the input or the left padding.
  if (ceil_mode && (out - 1) * stride >= add_sat(in, pad)) out--;
  return out;
}

void check_floating(std::string_view op, DType dtype) {
  FL_CHECK(is_float(dtype), NotImplementedError, "{}: the dtype must be floating, got {}", op,
           dtype);
}

struct Settings {
  IntList kernel, stride, pad, dilation;
  bool ceil_mode;
};

void check_setting(std::string_view what, IntList list, int64_t dims, int64_t least) {
  FL_CHECK(list.size() == 1 || int64_t(list.size()) == dims, RuntimeError,
           "pool: {} must have 1 or {} values, got {}", what, dims, list);
  for (int64_t v : list)
    FL_CHECK(v >= least && v < kMostSetting, RuntimeError,
             "pool: {} must be at least {} and below 2^31, got {}", what, least, list);
}

Ints pool_shape(IntList in, const Settings& s) {
  int64_t dims = int64_t(s.kernel.size());
  FL_CHECK(dims >= 1 && dims <= 3 && int64_t(in.size()) == dims + 2, RuntimeError,
           "pool: input must have {} dims, or {} without a batch, got shape {}", dims + 2, dims + 1,
           in);
  for (int64_t d = 1; d < dims + 2; d++)
    FL_CHECK(in[size_t(d)] > 0, RuntimeError,
             "pool: only the batch may be empty, got shape {} (batch, channels, ...)", in);
  check_setting("kernel_size", s.kernel, dims, 1);
  check_setting("stride", s.stride, dims, 1);
  check_setting("padding", s.pad, dims, 0);
  check_setting("dilation", s.dilation, dims, 1);
  Ints sizes{in[0], in[1]};
  for (int64_t d = 0; d < dims; d++) {
    size_t i = size_t(d);
    int64_t kernel = s.kernel[i], pad = setting(s.pad, i);
    FL_CHECK(pad <= (setting(s.dilation, i) * (kernel - 1) + 1) / 2, RuntimeError,
             "pool: padding must be at most half the kernel's {}, got {}", kernel, pad);
    int64_t out = pooled_size(in[i + 2], kernel, setting(s.stride, i), pad, setting(s.dilation, i),
                              s.ceil_mode);
    FL_CHECK(out > 0, RuntimeError,
             "pool: a kernel of {} does not fit into dim {} of input {} with padding {}", kernel,
             d + 2, in, pad);
    sizes.push_back(out);
  }
  return sizes;
}

PoolArgs pool_args(IntList in, IntList out, DType dtype) {
  PoolArgs a{};
  a.dtype = dtype;
  a.batch = in[0];
  a.channels = in[1];
  int dims = int(in.size()) - 2;
  for (int i = 0; i < 3; i++) {
    int d = i - (3 - dims);
    a.in[i] = d < 0 ? 1 : in[size_t(d + 2)];
    a.out[i] = d < 0 ? 1 : out[size_t(d + 2)];
    a.kernel[i] = a.stride[i] = a.dilation[i] = 1;
    a.pad[i] = 0;
  }
  return a;
}

void apply(PoolArgs& a, const Settings& s) {
  int dims = int(s.kernel.size());
  for (int i = 3 - dims; i < 3; i++) {
    size_t d = size_t(i - (3 - dims));
    a.kernel[i] = s.kernel[d];
    a.stride[i] = setting(s.stride, d);
    a.pad[i] = setting(s.pad, d);
    a.dilation[i] = setting(s.dilation, d);
  }
}

// A result of pooling has the batch, channels and number of dims of what was pooled.
void check_pooled(std::string_view op, IntList pooled, IntList size) {
  FL_CHECK(size.size() >= 3 && size.size() <= 5 && pooled.size() == size.size() &&
               pooled[0] == size[0] && pooled[1] == size[1],
           RuntimeError, "{}: a result of shape {} does not come from shape {}", op, pooled, size);
}

constexpr int64_t kOne = 1;
const IntList kNoDilation(&kOne, 1);

}  // namespace

Ints max_pool_shape(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                    IntList dilation, bool ceil_mode) {
  FL_CHECK(is_float(self.dtype()) || is_integer(self.dtype()), NotImplementedError,
           "max_pool: not defined for {}", self.dtype());
  return pool_shape(self.sizes(), {kernel_size, stride, padding, dilation, ceil_mode});
}

void max_pool_kernel(Tensor& result, Tensor& indices, const Tensor& self, IntList kernel_size,
                     IntList stride, IntList padding, IntList dilation, bool ceil_mode) {
  if (result.numel() == 0) return;
  PoolArgs a = pool_args(self.sizes(), result.sizes(), self.dtype());
  apply(a, {kernel_size, stride, padding, dilation, ceil_mode});
  a.x = self->data;
  a.y = result->data;
  a.indices = indices.data<int64_t>();
  max_pool_forward(a);
}

Ints max_pool_grad_shape(const Tensor& grad, const Tensor& indices, IntList size) {
  check_floating("_max_pool_grad", grad.dtype());
  check_pooled("_max_pool_grad", grad.sizes(), size);
  FL_CHECK(indices.sizes() == grad.sizes(), RuntimeError,
           "_max_pool_grad: indices must have the gradient's shape {}, got {}", grad.sizes(),
           indices.sizes());
  return size;
}

void max_pool_grad_kernel(Tensor& result, const Tensor& grad, const Tensor& indices, IntList) {
  zero_(result);
  if (grad.numel() == 0) return;
  PoolArgs a = pool_args(result.sizes(), grad.sizes(), grad.dtype());
  Tensor places =
      checked_index<IndexError>("_max_pool_grad", indices, a.in[0] * a.in[1] * a.in[2], -1);
  a.gy = grad->data;
  a.indices = places.data<int64_t>();
  a.gx = result->data;
  max_pool_backward(a);
}

Tensor max_pool_gather_impl(const Tensor& self, const Tensor& indices) {
  return view_as(gather(flatten(self, 2), -1, flatten(indices, 2)), indices);
}

Ints avg_pool_shape(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                    bool ceil_mode, bool, int64_t) {
  check_floating("avg_pool", self.dtype());
  return pool_shape(self.sizes(), {kernel_size, stride, padding, kNoDilation, ceil_mode});
}

void avg_pool_kernel(Tensor& result, const Tensor& self, IntList kernel_size, IntList stride,
                     IntList padding, bool ceil_mode, bool count_include_pad, int64_t divisor) {
  if (result.numel() == 0) return;
  PoolArgs a = pool_args(self.sizes(), result.sizes(), self.dtype());
  apply(a, {kernel_size, stride, padding, kNoDilation, ceil_mode});
  a.count_include_pad = count_include_pad;
  a.divisor = divisor;
  a.x = self->data;
  a.y = result->data;
  avg_pool_forward(a);
}

Ints avg_pool_grad_shape(const Tensor& grad, IntList size, IntList kernel_size, IntList stride,
                         IntList padding, bool ceil_mode, bool, int64_t) {
  check_floating("_avg_pool_grad", grad.dtype());
  Ints pooled = pool_shape(size, {kernel_size, stride, padding, kNoDilation, ceil_mode});
  FL_CHECK(grad.sizes() == IntList(pooled), RuntimeError,
           "_avg_pool_grad: pooling shape {} gives {}, the gradient has {}", size, pooled,
           grad.sizes());
  return size;
}

void avg_pool_grad_kernel(Tensor& result, const Tensor& grad, IntList, IntList kernel_size,
                          IntList stride, IntList padding, bool ceil_mode, bool count_include_pad,
                          int64_t divisor) {
  if (result.numel() == 0) return;
  PoolArgs a = pool_args(result.sizes(), grad.sizes(), grad.dtype());
  apply(a, {kernel_size, stride, padding, kNoDilation, ceil_mode});
  a.count_include_pad = count_include_pad;
  a.divisor = divisor;
  a.gy = grad->data;
  a.gx = result->data;
  avg_pool_backward(a);
}

Ints adaptive_pool_shape(const Tensor& self, IntList output_size) {
  check_floating("adaptive_avg_pool", self.dtype());
  int64_t dims = int64_t(output_size.size());
  FL_CHECK(self.ndim() == dims + 2, RuntimeError,
           "adaptive_avg_pool: input must have {} dims, got shape {}", dims + 2, self.sizes());
  Ints sizes{self.size(0), self.size(1)};
  for (int64_t d = 0; d < dims; d++) {
    FL_CHECK(output_size[size_t(d)] >= 0, RuntimeError,
             "adaptive_avg_pool: output_size must not be negative, got {}", output_size);
    FL_CHECK(self.size(d + 2) > 0, RuntimeError,
             "adaptive_avg_pool: pooled dims must not be empty, got shape {}", self.sizes());
    sizes.push_back(output_size[size_t(d)]);
  }
  return sizes;
}

void adaptive_avg_pool_kernel(Tensor& result, const Tensor& self, IntList) {
  if (result.numel() == 0) return;
  PoolArgs a = pool_args(self.sizes(), result.sizes(), self.dtype());
  a.adaptive = true;
  a.x = self->data;
  a.y = result->data;
  avg_pool_forward(a);
}

Ints adaptive_pool_grad_shape(const Tensor& grad, IntList size) {
  check_floating("_adaptive_avg_pool_grad", grad.dtype());
  check_pooled("_adaptive_avg_pool_grad", grad.sizes(), size);
  return size;
}

void adaptive_avg_pool_grad_kernel(Tensor& result, const Tensor& grad, IntList) {
  if (result.numel() == 0) return;
  if (grad.numel() == 0) {
    zero_(result);
    return;
  }
  PoolArgs a = pool_args(result.sizes(), grad.sizes(), grad.dtype());
  a.adaptive = true;
  a.gy = grad->data;
  a.gx = result->data;
  avg_pool_backward(a);
}

namespace {

// An input without a batch gets one for the length of the call.
template <class F>
Tensor pooled(std::string_view op, const Tensor& self, size_t dims, F f) {
  FL_CHECK(self.ndim() == int64_t(dims) + 2 || self.ndim() == int64_t(dims) + 1, RuntimeError,
           "{}: input must have {} dims, or {} without a batch, got shape {}", op, dims + 2,
           dims + 1, self.sizes());
  if (self.ndim() == int64_t(dims) + 2) return f(self);
  return squeeze(f(unsqueeze(self, 0)), 0);
}

std::tuple<Tensor, Tensor> max_pooled(std::string_view op, const Tensor& self, IntList kernel,
                                      IntList stride, IntList padding, IntList dilation,
                                      bool ceil_mode) {
  Tensor indices;
  Tensor values = pooled(op, self, kernel.size(), [&](const Tensor& x) {
    auto [v, i] =
        _max_pool(x, kernel, stride.empty() ? kernel : stride, padding, dilation, ceil_mode);
    indices = i;
    return v;
  });
  return {values, values.ndim() == indices.ndim() ? indices : squeeze(indices, 0)};
}

Tensor avg_pooled(std::string_view op, const Tensor& self, IntList kernel, IntList stride,
                  IntList padding, bool ceil_mode, bool count_include_pad,
                  std::optional<int64_t> divisor) {
  FL_CHECK(!divisor || *divisor != 0, RuntimeError, "{}: divisor_override must not be zero", op);
  // Integers: the mean without its fraction.
  if (!is_inexact(self.dtype()) && self.dtype() != DType::Bool)
    return to(avg_pooled(op, to(self, DType::Float64), kernel, stride, padding, ceil_mode,
                         count_include_pad, divisor),
              self.dtype());
  return pooled(op, self, kernel.size(), [&](const Tensor& x) {
    return _avg_pool(x, kernel, stride.empty() ? kernel : stride, padding, ceil_mode,
                     count_include_pad, divisor.value_or(0));
  });
}

Tensor adaptive(std::string_view op, const Tensor& self, IntList output_size) {
  return pooled(op, self, output_size.size(),
                [&](const Tensor& x) { return _adaptive_avg_pool(x, output_size); });
}

}  // namespace

Tensor max_pool1d_impl(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                       IntList dilation, bool ceil_mode) {
  return std::get<0>(
      max_pooled("max_pool1d", self, kernel_size, stride, padding, dilation, ceil_mode));
}
Tensor max_pool2d_impl(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                       IntList dilation, bool ceil_mode) {
  return std::get<0>(
      max_pooled("max_pool2d", self, kernel_size, stride, padding, dilation, ceil_mode));
}
Tensor max_pool3d_impl(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                       IntList dilation, bool ceil_mode) {
  return std::get<0>(
      max_pooled("max_pool3d", self, kernel_size, stride, padding, dilation, ceil_mode));
}
std::tuple<Tensor, Tensor> max_pool1d_with_indices_impl(const Tensor& self, IntList kernel_size,
                                                        IntList stride, IntList padding,
                                                        IntList dilation, bool ceil_mode) {
  return max_pooled("max_pool1d", self, kernel_size, stride, padding, dilation, ceil_mode);
}
std::tuple<Tensor, Tensor> max_pool2d_with_indices_impl(const Tensor& self, IntList kernel_size,
                                                        IntList stride, IntList padding,
                                                        IntList dilation, bool ceil_mode) {
  return max_pooled("max_pool2d", self, kernel_size, stride, padding, dilation, ceil_mode);
}
std::tuple<Tensor, Tensor> max_pool3d_with_indices_impl(const Tensor& self, IntList kernel_size,
                                                        IntList stride, IntList padding,
                                                        IntList dilation, bool ceil_mode) {
  return max_pooled("max_pool3d", self, kernel_size, stride, padding, dilation, ceil_mode);
}
Tensor avg_pool1d_impl(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                       bool ceil_mode, bool count_include_pad) {
  return avg_pooled("avg_pool1d", self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                    std::nullopt);
}
Tensor avg_pool2d_impl(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                       bool ceil_mode, bool count_include_pad,
                       std::optional<int64_t> divisor_override) {
  return avg_pooled("avg_pool2d", self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                    divisor_override);
}
Tensor avg_pool3d_impl(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                       bool ceil_mode, bool count_include_pad,
                       std::optional<int64_t> divisor_override) {
  return avg_pooled("avg_pool3d", self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                    divisor_override);
}
Tensor adaptive_avg_pool1d_impl(const Tensor& self, IntList output_size) {
  return adaptive("adaptive_avg_pool1d", self, output_size);
}
Tensor adaptive_avg_pool2d_impl(const Tensor& self, IntList output_size) {
  return adaptive("adaptive_avg_pool2d", self, output_size);
}
Tensor adaptive_avg_pool3d_impl(const Tensor& self, IntList output_size) {
  return adaptive("adaptive_avg_pool3d", self, output_size);
}

}  // namespace flambeau::ops
