// Samplers whose parameters are tensors: bernoulli, normal, multinomial, poisson, binomial, gamma,
// dirichlet.
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/random.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

Generator& source(Generator* generator) { return generator ? *generator : default_generator(); }

void check_floating(std::string_view op, const Tensor& t) {
  FL_CHECK(is_float(t.dtype()), RuntimeError, "{}: parameters must be floating, got {}", op,
           t.dtype());
}

// result = noise * std + mean, where noise is standard normal.
Tensor scaled(IntList sizes, DType dtype, Device device, const Tensor* mean, double mean_number,
              const Tensor* std, double std_number, Generator* generator) {
  Tensor result = new_tensor(sizes, dtype, device);
  normal_into(result, mean ? 0 : std ? 0 : mean_number, std ? 1 : std_number, generator);
  if (std) mul_(result, *std);
  if (mean)
    add_(result, *mean);
  else if (std)
    add_(result, Scalar(mean_number));
  return result;
}

void check_deviation(const Tensor& std) {
  FL_CHECK(!is_complex(std.dtype()), RuntimeError, "normal: the deviation must be real, got {}",
           std.dtype());
  if (!has_memory(std) || std.numel() == 0) return;
  Tensor wide = new_tensor(std.sizes(), DType::Float64);
  copy_elements(wide, std);
  for (int64_t i = 0; i < wide.numel(); i++) {
    double value = wide.data<double>()[i];
    FL_CHECK(value >= 0, RuntimeError, "normal: deviations must not be negative, got {} at {}",
             value, i);
  }
}

}  // namespace

Tensor bernoulli_impl(const Tensor& self, Generator* generator) {
  Tensor result = new_like(self, self.dtype());
  return bernoulli_into(result, self, generator);
}

Tensor bernoulli_impl(const Tensor& self, double p, Generator* generator) {
  Tensor result = new_like(self, self.dtype());
  return bernoulli_into(result, p, generator);
}

Tensor normal_impl(const Tensor& mean, const Tensor& std, Generator* generator) {
  check_deviation(std);
  Device device = check_devices("normal", {&mean, &std});
  return scaled(broadcast_sizes("normal", {&mean, &std}), mean.dtype(), device, &mean, 0, &std, 0,
                generator);
}
Tensor normal_impl(const Tensor& mean, double std, Generator* generator) {
  return scaled(mean.sizes(), mean.dtype(), mean.device(), &mean, 0, nullptr, std, generator);
}
Tensor normal_impl(double mean, const Tensor& std, Generator* generator) {
  check_deviation(std);
  return scaled(std.sizes(), std.dtype(), std.device(), nullptr, mean, &std, 0, generator);
}
Tensor normal_impl(double mean, double std, IntList size, Generator* generator,
                   std::optional<DType> dtype, std::optional<Layout> layout,
                   std::optional<Device> device, std::optional<bool> pin_memory) {
  Tensor result = empty_impl(size, dtype, layout, device, pin_memory, std::nullopt);
  return normal_into(result, mean, std, generator);
}

Tensor multinomial_impl(const Tensor& self, int64_t num_samples, bool replacement,
                        Generator* generator) {
  FL_CHECK(self.ndim() == 1 || self.ndim() == 2, RuntimeError,
           "multinomial: weights have one or two dims, got shape {}", self.sizes());
  check_floating("multinomial", self);
  int64_t columns = self.size(-1), rows = self.ndim() == 2 ? self.size(0) : 1;
  FL_CHECK(num_samples > 0, RuntimeError,
           "multinomial: at least one sample must be asked for, got {}", num_samples);
  FL_CHECK(replacement || num_samples <= columns, RuntimeError,
           "multinomial: without replacement there are at most {} samples, got {}", columns,
           num_samples);
  FL_CHECK(columns <= int64_t(1) << 24, RuntimeError,
           "multinomial: at most 2^24 categories are supported, got {}", columns);
  Ints sizes(self.sizes());
  sizes[sizes.size() - 1] = num_samples;
  Tensor result = new_tensor(sizes, DType::Int64, self.device());
  if (has_memory(self) && rows) {
    sample_multinomial(source(generator), self.dtype(), dense(self)->data, rows, columns,
                       num_samples, replacement, result.data<int64_t>());
  }
  return result;
}

void poisson_kernel(Tensor& result, const Tensor& self, Generator* generator) {
  sample_poisson(source(generator), self.dtype(), self->data, result->data, self.numel());
}

Tensor binomial_impl(const Tensor& count, const Tensor& prob, Generator* generator) {
  check_floating("binomial", count);
  FL_CHECK(count.dtype() == prob.dtype(), RuntimeError,
           "binomial: count and prob must have one dtype, got {} and {}", count.dtype(),
           prob.dtype());
  Device device = check_devices("binomial", {&count, &prob});
  Ints sizes = broadcast_sizes("binomial", {&count, &prob});
  Tensor result = new_tensor(sizes, count.dtype(), device);
  if (has_memory(result)) {
    Tensor counts = dense(expand(count, sizes)), chances = dense(expand(prob, sizes));
    sample_binomial(source(generator), count.dtype(), counts->data, chances->data, result->data,
                    result.numel());
  }
  return result;
}

void gamma_kernel(Tensor& result, const Tensor& self, Generator* generator) {
  sample_gamma(source(generator), self.dtype(), self->data, result->data, self.numel());
}

void dirichlet_kernel(Tensor& result, const Tensor& self, Generator* generator) {
  int64_t columns = self.ndim() ? self.size(-1) : 1;
  if (self.numel() == 0) return;
  sample_dirichlet(source(generator), self.dtype(), self->data, result->data,
                   self.numel() / columns, columns);
}

}  // namespace flambeau::ops
