// Random numbers: fills of existing tensors, new random tensors, samplers with parameters in
// tensors. The draws themselves are in kernels/cpu/random.h. Dropout is in dropout.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/random.h"
#include "flambeau/kernels/cpu/random_types.h"
#include "flambeau/ops/factory.h"
#include "flambeau/ops/operators.h"

namespace flambeau::ops {

namespace {

Generator& source(Generator* generator) { return generator ? *generator : default_generator(); }

// The dims in the order of memory, which is the order torch draws in.
Ints memory_order(const Tensor& t) {
  Ints order;
  for (int64_t d = 0; d < t.ndim(); d++) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return t.stride(a) > t.stride(b); });
  return order;
}

Tensor permuted(const Tensor& t, const Ints& order) {
  Geometry g;
  g.offset = t->offset();
  for (int64_t d : order) {
    g.sizes.push_back(t.size(d));
    g.strides.push_back(t.stride(d));
  }
  return alias(t, g);
}

// Runs fill(memory) on the elements of self, gathered in the order of memory where they are not
// dense.
template <class F>
void fill_elements(std::string_view op, const Tensor& self, const F& fill) {
  check_unshared(op, self);
  if (!has_memory(self) || self.numel() == 0) return;
  if (self->contiguous()) return fill(self->data);
  Tensor ordered = permuted(self, memory_order(self));
  if (ordered->contiguous()) return fill(ordered->data);
  Tensor buffer = new_tensor(ordered.sizes(), self.dtype(), self.device());
  fill(buffer->data);
  copy_elements(ordered, buffer);
}

void check_inexact(std::string_view op, DType dtype, bool complex) {
  FL_CHECK(is_float(dtype) || (complex && is_complex(dtype)), NotImplementedError,
           "{}: not defined for dtype {}", op, dtype);
}

}  // namespace

// ---- fills ----

Tensor& uniform_into(Tensor& self, double from, double to, Generator* generator) {
  check_inexact("uniform_", self.dtype(), true);
  double limit = largest_number(self.dtype());
  FL_CHECK(std::fabs(from) <= limit && std::fabs(to) <= limit, RuntimeError,
           "uniform_: the bounds must be numbers of {}, got {} and {}", self.dtype(), from, to);
  FL_CHECK(from <= to && to - from <= limit, RuntimeError,
           "uniform_: the bounds must lie in order and their distance in {}, got {} and {}",
           self.dtype(), from, to);
  fill_elements("uniform_", self, [&](void* data) {
    fill_uniform(source(generator), self.dtype(), data, self.numel(), from, to);
  });
  return self;
}

Tensor& normal_into(Tensor& self, double mean, double std, Generator* generator) {
  FL_CHECK(std >= 0, RuntimeError, "normal_: the deviation must not be negative, got {}", std);
  check_inexact("normal_", self.dtype(), true);
  bool dense = self->contiguous();
  fill_elements("normal_", self, [&](void* data) {
    fill_normal(source(generator), self.dtype(), data, self.numel(), mean, std, dense);
  });
  return self;
}

namespace {

// Bounds of what random_ may write, both included.
void check_in_dtype(DType dtype, int64_t from, int64_t last) {
  int64_t low = 0, high = 1;
  if (is_float(dtype)) {
    double limit = std::min(largest_number(dtype), 0x1p63);
    FL_CHECK(double(from) >= -limit && double(last) <= limit, RuntimeError,
             "random_: [{}, {}] leaves the range of {}", from, last, dtype);
    return;
  }
  visit_integer(dtype, [&](auto t) {
    using T = decltype(t);
    low = int64_t(std::numeric_limits<T>::min());
    constexpr uint64_t kMost = uint64_t(std::numeric_limits<T>::max());
    high = int64_t(std::min(kMost, uint64_t(std::numeric_limits<int64_t>::max())));
  });
  FL_CHECK(low <= from && last <= high, RuntimeError,
           "random_: [{}, {}] leaves the range of {}, which is [{}, {}]", from, last, dtype, low,
           high);
}

// The last number that random_(from, None) may give.
int64_t last_of(DType dtype) {
  if (dtype == DType::Float16) return 1 << 11;
  if (dtype == DType::BFloat16) return 1 << 8;
  if (dtype == DType::Float32) return 1 << 24;
  if (dtype == DType::Float64) return int64_t(1) << 53;
  int64_t last = 1;
  visit_integer(dtype, [&](auto t) {
    auto most = uint64_t(std::numeric_limits<decltype(t)>::max());
    last = int64_t(std::min(most, uint64_t(std::numeric_limits<int64_t>::max())));
  });
  return last;
}

void fill_whole(std::string_view op, const Tensor& self, Generator* generator, int64_t base,
                uint64_t range) {
  fill_elements(op, self, [&](void* data) {
    fill_integers(source(generator), self.dtype(), data, self.numel(), base, range);
  });
}

}  // namespace

Tensor& random_into(Tensor& self, int64_t from, std::optional<int64_t> to, Generator* generator) {
  DType dtype = self.dtype();
  FL_CHECK(!is_complex(dtype), NotImplementedError, "random_: not defined for dtype {}", dtype);
  if (to) {
    FL_CHECK(from < *to, RuntimeError, "random_: from must be below to, got {} and {}", from, *to);
    int64_t low = from, high = *to;
    narrow_to_dtype(dtype, low, high);
    FL_CHECK(low < high, RuntimeError, "random_: {} has no number in [{}, {})", dtype, from, *to);
    check_in_dtype(dtype, low, high - 1);
    fill_whole("random_", self, generator, low, uint64_t(high) - uint64_t(low));
  } else if (from == std::numeric_limits<int64_t>::min()) {
    fill_whole("random_", self, generator, 0, 0);
  } else {
    int64_t low = from, last = last_of(dtype), ignored = last;
    narrow_to_dtype(dtype, low, ignored);
    FL_CHECK(low < last || (low == last && !is_float(dtype)), RuntimeError,
             "random_: from must be below the largest number of {}, got {}", dtype, from);
    check_in_dtype(dtype, low, last);
    fill_whole("random_", self, generator, low, uint64_t(last) - uint64_t(low) + 1);
  }
  return self;
}

Tensor& random_into(Tensor& self, int64_t to, Generator* generator) {
  return random_into(self, 0, to, generator);
}

Tensor& random_into(Tensor& self, Generator* generator) {
  FL_CHECK(!is_complex(self.dtype()), NotImplementedError, "random_: not defined for dtype {}",
           self.dtype());
  fill_elements("random_", self, [&](void* data) {
    fill_integers(source(generator), self.dtype(), data, self.numel());
  });
  return self;
}

Tensor& bernoulli_into(Tensor& self, double p, Generator* generator) {
  FL_CHECK(p >= 0 && p <= 1, RuntimeError, "bernoulli_: p must be in [0, 1], got {}", p);
  fill_elements("bernoulli_", self, [&](void* data) {
    fill_bernoulli(source(generator), self.dtype(), data, self.numel(), p);
  });
  return self;
}

Tensor& bernoulli_into(Tensor& self, const Tensor& p, Generator* generator) {
  FL_CHECK(is_float(p.dtype()), RuntimeError, "bernoulli_: probabilities must be floating, got {}",
           p.dtype());
  check_devices("bernoulli_", {&self, &p});
  Tensor each = alias(p, expand_geometry(p, self.sizes(), false));
  if (!has_memory(self)) return self;
  Tensor chances = dense(permuted(each, memory_order(self)));
  fill_elements("bernoulli_", self, [&](void* data) {
    fill_bernoulli(source(generator), self.dtype(), data, self.numel(), p.dtype(), chances->data);
  });
  return self;
}

Tensor& exponential_into(Tensor& self, double lambd, Generator* generator) {
  check_inexact("exponential_", self.dtype(), false);
  FL_CHECK(lambd > 0, RuntimeError, "exponential_: the rate must be above 0, got {}", lambd);
  fill_elements("exponential_", self, [&](void* data) {
    fill_exponential(source(generator), self.dtype(), data, self.numel(), lambd);
  });
  return self;
}

Tensor& cauchy_into(Tensor& self, double median, double sigma, Generator* generator) {
  check_inexact("cauchy_", self.dtype(), false);
  FL_CHECK(sigma > 0, RuntimeError, "cauchy_: sigma must be above 0, got {}", sigma);
  fill_elements("cauchy_", self, [&](void* data) {
    fill_cauchy(source(generator), self.dtype(), data, self.numel(), median, sigma);
  });
  return self;
}

Tensor& log_normal_into(Tensor& self, double mean, double std, Generator* generator) {
  check_inexact("log_normal_", self.dtype(), false);
  FL_CHECK(std > 0, RuntimeError, "log_normal_: the deviation must be above 0, got {}", std);
  fill_elements("log_normal_", self, [&](void* data) {
    fill_log_normal(source(generator), self.dtype(), data, self.numel(), mean, std);
  });
  return self;
}

Tensor& geometric_into(Tensor& self, double p, Generator* generator) {
  FL_CHECK(p > 0 && p < 1, RuntimeError, "geometric_: p must be in (0, 1), got {}", p);
  FL_CHECK(!is_complex(self.dtype()) && self.dtype() != DType::Bool, NotImplementedError,
           "geometric_: not defined for dtype {}", self.dtype());
  fill_elements("geometric_", self, [&](void* data) {
    fill_geometric(source(generator), self.dtype(), data, self.numel(), p);
  });
  return self;
}

// ---- new tensors ----

Tensor rand_impl(IntList size, Generator* generator, std::optional<DType> dtype,
                 std::optional<Layout> layout, std::optional<Device> device, std::optional<bool>) {
  Tensor result = make_new("rand", size, dtype, layout, device);
  return uniform_into(result, 0, 1, generator);
}
Tensor rand_impl(IntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                 std::optional<Device> device, std::optional<bool> pin_memory) {
  return rand_impl(size, nullptr, dtype, layout, device, pin_memory);
}

Tensor randn_impl(IntList size, Generator* generator, std::optional<DType> dtype,
                  std::optional<Layout> layout, std::optional<Device> device, std::optional<bool>) {
  Tensor result = make_new("randn", size, dtype, layout, device);
  return normal_into(result, 0, 1, generator);
}
Tensor randn_impl(IntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                  std::optional<Device> device, std::optional<bool> pin_memory) {
  return randn_impl(size, nullptr, dtype, layout, device, pin_memory);
}

Tensor randint_impl(int64_t low, int64_t high, IntList size, Generator* generator,
                    std::optional<DType> dtype, std::optional<Layout> layout,
                    std::optional<Device> device, std::optional<bool>) {
  Tensor result = make_new("randint", size, dtype.value_or(DType::Int64), layout, device);
  return random_into(result, low, high, generator);
}
Tensor randint_impl(int64_t low, int64_t high, IntList size, std::optional<DType> dtype,
                    std::optional<Layout> layout, std::optional<Device> device,
                    std::optional<bool> pin_memory) {
  return randint_impl(low, high, size, nullptr, dtype, layout, device, pin_memory);
}
Tensor randint_impl(int64_t high, IntList size, Generator* generator, std::optional<DType> dtype,
                    std::optional<Layout> layout, std::optional<Device> device,
                    std::optional<bool> pin_memory) {
  return randint_impl(0, high, size, generator, dtype, layout, device, pin_memory);
}
Tensor randint_impl(int64_t high, IntList size, std::optional<DType> dtype,
                    std::optional<Layout> layout, std::optional<Device> device,
                    std::optional<bool> pin_memory) {
  return randint_impl(0, high, size, nullptr, dtype, layout, device, pin_memory);
}

namespace {

// Does the dtype hold 0 .. n-1 (floats: exactly)?
bool holds(DType dtype, int64_t n) {
  if (is_float(dtype)) return n <= last_of(dtype) + 1;
  return dtype != DType::Bool && n - 1 <= last_of(dtype);
}

}  // namespace

Tensor randperm_impl(int64_t n, Generator* generator, std::optional<DType> dtype,
                     std::optional<Layout> layout, std::optional<Device> device,
                     std::optional<bool>) {
  FL_CHECK(n >= 0, RuntimeError, "randperm: n must not be negative, got {}", n);
  DType type = dtype.value_or(DType::Int64);
  FL_CHECK(!is_complex(type) && type != DType::Bool, NotImplementedError,
           "randperm: not defined for dtype {}", type);
  FL_CHECK(holds(type, n), RuntimeError, "randperm: {} does not hold all numbers below {}", type,
           n);
  Tensor result = make_new("randperm", {n}, type, layout, device);
  if (has_memory(result)) fill_permutation(source(generator), type, result->data, n);
  return result;
}
Tensor randperm_impl(int64_t n, std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool> pin_memory) {
  return randperm_impl(n, nullptr, dtype, layout, device, pin_memory);
}

// ---- like another tensor ----

Tensor rand_like_impl(const Tensor& self, Generator* generator, std::optional<DType> dtype,
                      std::optional<Layout> layout, std::optional<Device> device,
                      std::optional<bool> pin_memory, std::optional<MemoryFormat> memory_format) {
  Tensor result = empty_like_impl(self, dtype, layout, device, pin_memory, memory_format);
  return uniform_into(result, 0, 1, generator);
}
Tensor rand_like_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
                      std::optional<Device> device, std::optional<bool> pin_memory,
                      std::optional<MemoryFormat> memory_format) {
  return rand_like_impl(self, nullptr, dtype, layout, device, pin_memory, memory_format);
}

Tensor randn_like_impl(const Tensor& self, Generator* generator, std::optional<DType> dtype,
                       std::optional<Layout> layout, std::optional<Device> device,
                       std::optional<bool> pin_memory, std::optional<MemoryFormat> memory_format) {
  Tensor result = empty_like_impl(self, dtype, layout, device, pin_memory, memory_format);
  return normal_into(result, 0, 1, generator);
}
Tensor randn_like_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
                       std::optional<Device> device, std::optional<bool> pin_memory,
                       std::optional<MemoryFormat> memory_format) {
  return randn_like_impl(self, nullptr, dtype, layout, device, pin_memory, memory_format);
}

Tensor randint_like_impl(const Tensor& self, int64_t low, int64_t high, Generator* generator,
                         std::optional<DType> dtype, std::optional<Layout> layout,
                         std::optional<Device> device, std::optional<bool> pin_memory,
                         std::optional<MemoryFormat> memory_format) {
  Tensor result = empty_like_impl(self, dtype, layout, device, pin_memory, memory_format);
  return random_into(result, low, high, generator);
}
Tensor randint_like_impl(const Tensor& self, int64_t low, int64_t high, std::optional<DType> dtype,
                         std::optional<Layout> layout, std::optional<Device> device,
                         std::optional<bool> pin_memory,
                         std::optional<MemoryFormat> memory_format) {
  return randint_like_impl(self, low, high, nullptr, dtype, layout, device, pin_memory,
                           memory_format);
}
Tensor randint_like_impl(const Tensor& self, int64_t high, Generator* generator,
                         std::optional<DType> dtype, std::optional<Layout> layout,
                         std::optional<Device> device, std::optional<bool> pin_memory,
                         std::optional<MemoryFormat> memory_format) {
  return randint_like_impl(self, 0, high, generator, dtype, layout, device, pin_memory,
                           memory_format);
}
Tensor randint_like_impl(const Tensor& self, int64_t high, std::optional<DType> dtype,
                         std::optional<Layout> layout, std::optional<Device> device,
                         std::optional<bool> pin_memory,
                         std::optional<MemoryFormat> memory_format) {
  return randint_like_impl(self, 0, high, nullptr, dtype, layout, device, pin_memory,
                           memory_format);
}
Tensor randint_like_impl(const Tensor& self, const Tensor& high, Generator* generator,
                         std::optional<DType> dtype, std::optional<Layout> layout,
                         std::optional<Device> device, std::optional<bool> pin_memory,
                         std::optional<MemoryFormat> memory_format) {
  FL_CHECK(high.numel() == 1, RuntimeError, "randint_like: high must be one number, got shape {}",
           high.sizes());
  return randint_like_impl(self, 0, high.item().to_int(), generator, dtype, layout, device,
                           pin_memory, memory_format);
}
Tensor randint_like_impl(const Tensor& self, const Tensor& high, std::optional<DType> dtype,
                         std::optional<Layout> layout, std::optional<Device> device,
                         std::optional<bool> pin_memory,
                         std::optional<MemoryFormat> memory_format) {
  return randint_like_impl(self, high, nullptr, dtype, layout, device, pin_memory, memory_format);
}

}  // namespace flambeau::ops
