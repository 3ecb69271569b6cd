// Normalisation: shapes and calls of the kernels.
#include "flambeau/kernels/cpu/norm.h"

#include <limits>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

DType stats_dtype(const Tensor& x) {
  return x.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
}

// Parameters share one dtype: the input's, or float32 beside a half type.
DType param_dtype(std::string_view op, const Tensor& input,
                  std::initializer_list<const Tensor*> params) {
  DType found = input.dtype();
  bool first = true;
  for (const Tensor* p : params) {
    if (!p->defined()) continue;
    FL_CHECK(
        p->dtype() == input.dtype() || (is_half(input.dtype()) && p->dtype() == DType::Float32),
        RuntimeError, "{}: weight, bias and statistics must be {} like the input{}, got {}", op,
        input.dtype(), is_half(input.dtype()) ? " or float32" : "", p->dtype());
    FL_CHECK(first || p->dtype() == found, RuntimeError,
             "{}: weight, bias and statistics must share one dtype, got {} and {}", op, found,
             p->dtype());
    found = p->dtype();
    first = false;
  }
  return found;
}

void check_vector(std::string_view op, std::string_view name, const Tensor& t, int64_t size) {
  FL_CHECK(!t.defined() || (t.ndim() == 1 && t.size(0) == size), RuntimeError,
           "{}: {} must have shape ({},), got {}", op, name, size,
           t.defined() ? t.sizes() : IntList());
}

void check_floating(std::string_view op, const Tensor& t) {
  FL_CHECK(is_float(t.dtype()), RuntimeError, "{}: a floating input is needed, got {}", op,
           t.dtype());
}

// What all three norms are told in the same way.
template <class Args>
void set_operands(Args& a, const Tensor& input, const Tensor& weight, const Tensor& bias,
                  const Tensor& values, const Tensor& mean, const Tensor& rstd) {
  a.dtype = input.dtype();
  a.x = input->data;
  a.weight = data_or_null(weight);
  a.bias = data_or_null(bias);
  a.y = values->data;
  a.mean = mean->data;
  a.rstd = rstd->data;
}

int64_t product(IntList sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

}  // namespace

DType statistics_dtype(const Tensor& input, IntList, const Tensor&, const Tensor&, double, bool) {
  return stats_dtype(input);
}
DType statistics_dtype(const Tensor& input, const Tensor&, const Tensor&, int64_t, double) {
  return stats_dtype(input);
}
DType statistics_dtype(const Tensor& input, const Tensor&, const Tensor&, const Tensor&,
                       const Tensor&, bool, double, double) {
  return stats_dtype(input);
}

namespace {

void check_normalized(std::string_view op, const Tensor& input, IntList normalized_shape,
                      std::initializer_list<const Tensor*> params) {
  int64_t n = int64_t(normalized_shape.size());
  bool fits = n > 0 && input.ndim() >= n;
  for (int64_t d = 0; fits && d < n; d++)
    fits = input.size(input.ndim() - n + d) == normalized_shape[size_t(d)];
  FL_CHECK(fits, RuntimeError, "{}: input must end in {}, got shape {}", op, normalized_shape,
           input.sizes());
  for (const Tensor* p : params) {
    FL_CHECK(!p->defined() || p->sizes() == normalized_shape, RuntimeError,
             "{}: weight and bias must have shape {}, got {}", op, normalized_shape,
             p->defined() ? p->sizes() : IntList());
  }
}

}  // namespace

Ints layer_norm_stats(const Tensor& input, IntList normalized_shape, const Tensor& weight,
                      const Tensor& bias, double, bool) {
  check_normalized("layer_norm", input, normalized_shape, {&weight, &bias});
  check_floating("layer_norm", input);
  int64_t n = int64_t(normalized_shape.size());
  Ints sizes(input.sizes());
  for (int64_t d = input.ndim() - n; d < input.ndim(); d++) sizes[size_t(d)] = 1;
  return sizes;
}

void layer_norm_kernel(Tensor& values, Tensor& mean, Tensor& rstd, const Tensor& input,
                       IntList normalized_shape, const Tensor& weight, const Tensor& bias,
                       double eps, bool centered) {
  LayerNormArgs a{};
  a.param_dtype = param_dtype("layer_norm", input, {&weight, &bias});
  a.cols = product(normalized_shape);
  a.rows = mean.numel();
  a.centered = centered;
  a.eps = eps;
  set_operands(a, input, weight, bias, values, mean, rstd);
  layer_norm_forward(a);
}

Tensor layer_norm_impl(const Tensor& input, IntList normalized_shape, const Tensor& weight,
                       const Tensor& bias, double eps, bool) {
  return std::get<0>(_layer_norm(input, normalized_shape, weight, bias, eps, true));
}

namespace {

// The statistics in the input's half type, unless the weights are of a wider one.
std::tuple<Tensor, Tensor, Tensor> as_given(const Tensor& input, const Tensor& weight,
                                            const std::tuple<Tensor, Tensor, Tensor>& all) {
  if (!is_half(input.dtype()) || (weight.defined() && !is_half(weight.dtype()))) return all;
  auto [result, mean_of, deviation] = all;
  return {result, to(mean_of, input.dtype()), to(deviation, input.dtype())};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_impl(const Tensor& input,
                                                          IntList normalized_shape,
                                                          const Tensor& weight, const Tensor& bias,
                                                          double eps) {
  return as_given(input, weight, _layer_norm(input, normalized_shape, weight, bias, eps, true));
}

Tensor rms_norm_impl(const Tensor& input, IntList normalized_shape, const Tensor& weight,
                     std::optional<double> eps) {
  double least = input.dtype() == DType::Float64 ? std::numeric_limits<double>::epsilon()
                 : is_half(input.dtype()) ? (input.dtype() == DType::Float16 ? 0x1p-10 : 0x1p-7)
                                          : double(std::numeric_limits<float>::epsilon());
  if (is_complex(input.dtype())) {  // over the squares, not over their sizes: torch's definition
    check_normalized("rms_norm", input, normalized_shape, {&weight});
    Ints dims;
    for (size_t d = 0; d < normalized_shape.size(); d++) dims.push_back(-1 - int64_t(d));
    Tensor scaled = input * rsqrt(mean(input * input, dims, true) + Scalar(eps.value_or(least)));
    return weight.defined() ? scaled * weight : scaled;
  }
  return std::get<0>(
      _layer_norm(input, normalized_shape, weight, Tensor(), eps.value_or(least), false));
}

Ints batch_norm_stats(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      const Tensor& running_mean, const Tensor& running_var, bool training, double,
                      double) {
  FL_CHECK(input.ndim() >= 2, RuntimeError,
           "batch_norm: input must have at least 2 dims, got shape {}", input.sizes());
  check_floating("batch_norm", input);
  int64_t c = input.size(1);
  check_vector("batch_norm", "weight", weight, c);
  check_vector("batch_norm", "bias", bias, c);
  check_vector("batch_norm", "running_mean", running_mean, c);
  check_vector("batch_norm", "running_var", running_var, c);
  FL_CHECK(training || (running_mean.defined() && running_var.defined()), RuntimeError,
           "batch_norm: evaluation needs running_mean and running_var");
  return {c};
}

void batch_norm_kernel(Tensor& values, Tensor& mean, Tensor& rstd, const Tensor& input,
                       const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                       const Tensor& running_var, bool training, double momentum, double eps) {
  BatchNormArgs a{};
  a.param_dtype = param_dtype("batch_norm", input, {&weight, &bias, &running_mean, &running_var});
  a.n = input.size(0);
  a.channels = input.size(1);
  a.spatial = product(IntList(input->sizes + 2, size_t(input.ndim() - 2)));
  a.eps = eps;
  a.momentum = momentum;
  set_operands(a, input, weight, bias, values, mean, rstd);
  a.running_mean = data_or_null(running_mean);
  a.running_var = data_or_null(running_var);
  if (input.numel() == 0) return;
  training ? batch_norm_train(a) : batch_norm_eval(a);
  if (training && running_mean.defined()) running_mean->bump_version();
  if (training && running_var.defined()) running_var->bump_version();
}

std::tuple<Tensor, Tensor, Tensor> native_batch_norm_impl(const Tensor& input, const Tensor& weight,
                                                          const Tensor& bias,
                                                          const Tensor& running_mean,
                                                          const Tensor& running_var, bool training,
                                                          double momentum, double eps) {
  auto all = _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
  if (training) return as_given(input, weight, all);
  auto none = [](const Tensor& t) { return new_tensor({0}, t.dtype(), t.device()); };
  return {std::get<0>(all), none(std::get<1>(all)), none(std::get<2>(all))};
}

Tensor batch_norm_impl(const Tensor& input, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, bool training,
                       double momentum, double eps, bool) {
  if (input.ndim() == 1 && input.numel() == 0) {  // like torch, which then asks for no channels
    Tensor out = clone(input);
    if (weight.defined()) out = out * select(weight, 0, 0);
    return bias.defined() ? out + select(bias, 0, 0) : out;
  }
  return std::get<0>(
      _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps));
}

Tensor instance_norm_impl(const Tensor& input, const Tensor& weight, const Tensor& bias,
                          const Tensor& running_mean, const Tensor& running_var,
                          bool use_input_stats, double momentum, double eps, bool) {
  FL_CHECK(input.ndim() >= 3, RuntimeError,
           "instance_norm: input must have at least 3 dims, got shape {}", input.sizes());
  FL_CHECK(use_input_stats || (running_mean.defined() && running_var.defined()), RuntimeError,
           "instance_norm: without input statistics running_mean and running_var are needed");
  int64_t n = input.size(0), c = input.size(1);
  Ints merged{1, n * c};
  for (int64_t d = 2; d < input.ndim(); d++) merged.push_back(input.size(d));
  auto spread = [&](const Tensor& t) {
    return t.defined() ? reshape(expand(unsqueeze(t, 0), {n, c}), {n * c}) : t;
  };
  Tensor mean = spread(running_mean), var = spread(running_var);
  Tensor out = batch_norm(reshape(contiguous(input), merged), spread(weight), spread(bias), mean,
                          var, use_input_stats, momentum, eps, false);
  // With one sample `mean` and `var` are views of the running ones, which are up to date already.
  if (use_input_stats && running_mean.defined() && n != 1) {
    NoGradGuard no_grad;
    Tensor keep_mean = running_mean, keep_var = running_var;
    copy_(keep_mean, ops::mean(view(mean, {n, c}), IntList{0}));
    copy_(keep_var, ops::mean(view(var, {n, c}), IntList{0}));
  }
  return view(out, input.sizes());
}

Ints group_norm_stats(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t groups,
                      double) {
  FL_CHECK(input.ndim() >= 2, RuntimeError,
           "group_norm: input must have at least 2 dims, got shape {}", input.sizes());
  check_floating("group_norm", input);
  int64_t c = input.size(1);
  FL_CHECK(groups > 0 && c % groups == 0, RuntimeError,
           "group_norm: {} channels of shape {} do not divide into {} groups", c, input.sizes(),
           groups);
  check_vector("group_norm", "weight", weight, c);
  check_vector("group_norm", "bias", bias, c);
  return {input.size(0), groups};
}

void group_norm_kernel(Tensor& values, Tensor& mean, Tensor& rstd, const Tensor& input,
                       const Tensor& weight, const Tensor& bias, int64_t groups, double eps) {
  GroupNormArgs a{};
  a.param_dtype = param_dtype("group_norm", input, {&weight, &bias});
  a.n = input.size(0);
  a.groups = groups;
  a.channels = input.size(1) / groups;
  a.spatial = product(IntList(input->sizes + 2, size_t(input.ndim() - 2)));
  a.eps = eps;
  set_operands(a, input, weight, bias, values, mean, rstd);
  group_norm_forward(a);
}

Tensor group_norm_impl(const Tensor& input, int64_t num_groups, const Tensor& weight,
                       const Tensor& bias, double eps, bool) {
  return std::get<0>(_group_norm(input, weight, bias, num_groups, eps));
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm_impl(const Tensor& input, const Tensor& weight,
                                                          const Tensor& bias, int64_t, int64_t,
                                                          int64_t, int64_t group, double eps) {
  Tensor result = std::get<0>(_group_norm(input, weight, bias, group, eps));  // checks them all
  // The statistics are results here, and differentiable.
  DType wide = is_half(input.dtype()) ? DType::Float32 : input.dtype();
  int64_t count = input.numel() ? input.numel() / (input.size(0) * group) : 0;
  Tensor rows = reshape(to(input, wide), {input.size(0), group, count});
  constexpr int64_t kLast = -1;
  Tensor mean_of = mean(rows, IntList(&kLast, 1)), centred = rows - unsqueeze(mean_of, -1);
  Tensor deviation = rsqrt(mean(centred * centred, IntList(&kLast, 1)) + Scalar(eps));
  return {result, to(mean_of, input.dtype()), to(deviation, input.dtype())};
}

}  // namespace flambeau::ops
