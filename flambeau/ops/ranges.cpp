// Evenly spaced numbers: arange, range, linspace, logspace.
#include <cmath>
#include <complex>

#include "flambeau/core/threadpool.h"
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/random_types.h"
#include "flambeau/ops/factory.h"

namespace flambeau::ops {

namespace {

template <class F>
void visit_number(std::string_view op, DType dtype, const F& body) {
  if (dtype == DType::Complex64) return body(std::complex<float>{});
  if (dtype == DType::Complex128) return body(std::complex<double>{});
  bool known = dtype != DType::Bool && (visit_float(dtype, body) || visit_integer(dtype, body));
  FL_CHECK(known, NotImplementedError, "{}: not defined for dtype {}", op, dtype);
}

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
constexpr bool kIsComplex = !std::is_arithmetic_v<T> && !kIsHalf<T>;

// ---- arange ----

constexpr int64_t kGrain = 1 << 15;  // whole blocks

// Exact enough for a number that is then rounded to float or less; a double needs the real thing.
template <class T>
double multiply_add(double a, double b, double c) {
  return sizeof(T) == 8 ? std::fma(a, b, c) : a * b + c;
}

// start + step * i for i in [begin, end), in blocks as torch's vector code has them: the first
// number of a block is rounded before the others are added to it.
template <class T>
void fill_blocks(T* out, int64_t begin, int64_t end, double start, double step) {
  constexpr int64_t kBlock = sizeof(T) == 8 ? 4 : sizeof(T) == 4 ? 8 : 16;
  int64_t i = begin;
  for (; i + 2 * kBlock <= end; i += 2 * kBlock) {  // it takes two blocks at a time or none
    for (int64_t b = i; b < i + 2 * kBlock; b += kBlock) {
      double first = to_double(element<T>(multiply_add<T>(step, double(b), start)));
      for (int64_t k = 0; k < kBlock; k++)
        out[b + k] = element<T>(multiply_add<T>(step, double(k), first));
    }
  }
  for (; i < end; i++) out[i] = element<T>(multiply_add<T>(step, double(i), start));
}

template <class T>
void fill_part(T* out, int64_t begin, int64_t end, const Scalar& start, const Scalar& step) {
  if constexpr (std::is_integral_v<T>) {
    auto first = uint64_t(start.to_int()), by = uint64_t(step.to_int());
    for (int64_t i = begin; i < end; i++) out[i] = T(first + by * uint64_t(i));
  } else if constexpr (kIsHalf<T>) {
    fill_blocks(out, begin, end, double(float(start.to_double())), double(float(step.to_double())));
  } else {
    fill_blocks(out, begin, end, start.to_double(), step.to_double());
  }
}

template <class T>
void fill_range(T* out, int64_t n, const Scalar& start, const Scalar& step) {
  parallel_for(n, kGrain,
               [&](int64_t begin, int64_t end) { fill_part(out, begin, end, start, step); });
}

void check_bounds(std::string_view op, const Scalar& start, const Scalar& end, const Scalar& step) {
  for (const Scalar* s : {&start, &end, &step}) {
    FL_CHECK(!s->is_complex(), RuntimeError, "{}: bounds and step must be real, got {}", op, *s);
  }
  double by = step.to_double(), from = start.to_double(), to = end.to_double();
  FL_CHECK(by != 0, RuntimeError, "{}: the step must not be zero", op);
  FL_CHECK(std::isfinite(from) && std::isfinite(to), RuntimeError,
           "{}: the bounds must be finite, got {} and {}", op, from, to);
  FL_CHECK(by > 0 ? to >= from : to <= from, RuntimeError,
           "{}: the step must lead from {} to {}, got {}", op, from, to, by);
}

// How many numbers lie in [start, end). Counted in integers for int64: doubles have only 53 bits.
int64_t count_in(const Scalar& start, const Scalar& end, const Scalar& step, DType dtype) {
  if (dtype == DType::Int64) {
    int64_t from = start.to_int(), to = end.to_int(), by = step.to_int();
    FL_CHECK(by != 0, ValueError, "arange: the step {} is zero as an int64", step);
    __int128 distance = __int128(to) - from + by - (by > 0 ? 1 : -1);
    return int64_t(distance / by);
  }
  double count = std::ceil((end.to_double() - start.to_double()) / step.to_double());
  FL_CHECK(count >= 0 && count < 0x1p63, RuntimeError, "arange: {} numbers are too many", count);
  return int64_t(count);
}

bool all_whole(std::initializer_list<const Scalar*> numbers) {
  for (const Scalar* s : numbers)
    if (s->is_float() || s->is_complex()) return false;
  return true;
}

Tensor spaced(std::string_view op, Tensor result, const Scalar& start, const Scalar& step) {
  DType dtype = result.dtype();
  FL_CHECK(dtype != DType::Bool && !is_complex(dtype), NotImplementedError,
           "{}: not defined for dtype {}", op, dtype);
  if (!has_memory(result)) return result;
  visit_number(op, dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (!kIsComplex<T>) fill_range(result.data<T>(), result.numel(), start, step);
  });
  return result;
}

}  // namespace

Tensor arange_impl(const Scalar& start, const Scalar& end, const Scalar& step,
                   std::optional<DType> dtype, std::optional<Layout> layout,
                   std::optional<Device> device, std::optional<bool>) {
  check_bounds("arange", start, end, step);
  DType type = dtype.value_or(all_whole({&start, &end, &step}) ? DType::Int64 : default_dtype());
  int64_t count = count_in(start, end, step, type);
  return spaced("arange", make_new("arange", {count}, type, layout, device), start, step);
}

Tensor arange_impl(const Scalar& start, const Scalar& end, std::optional<DType> dtype,
                   std::optional<Layout> layout, std::optional<Device> device,
                   std::optional<bool> pin_memory) {
  return arange_impl(start, end, Scalar(1), dtype, layout, device, pin_memory);
}

Tensor arange_impl(const Scalar& end, std::optional<DType> dtype, std::optional<Layout> layout,
                   std::optional<Device> device, std::optional<bool> pin_memory) {
  return arange_impl(Scalar(0), end, Scalar(1), dtype, layout, device, pin_memory);
}

Tensor range_impl(const Scalar& start, const Scalar& end, const Scalar& step,
                  std::optional<DType> dtype, std::optional<Layout> layout,
                  std::optional<Device> device, std::optional<bool>) {
  check_bounds("range", start, end, step);
  double count = std::floor((end.to_double() - start.to_double()) / step.to_double()) + 1;
  FL_CHECK(count < 0x1p63, RuntimeError, "range: {} numbers are too many", count);
  return spaced("range", make_new("range", {int64_t(count)}, dtype, layout, device), start, step);
}

Tensor range_impl(const Scalar& start, const Scalar& end, std::optional<DType> dtype,
                  std::optional<Layout> layout, std::optional<Device> device,
                  std::optional<bool> pin_memory) {
  return range_impl(start, end, Scalar(1), dtype, layout, device, pin_memory);
}

// ---- linspace and logspace ----

namespace {

template <class R>
std::complex<R> spaced_by(std::complex<R> a, R b, std::complex<R> c) {
  return {R(multiply_add<R>(a.real(), b, c.real())), R(multiply_add<R>(a.imag(), b, c.imag()))};
}
template <class R>
R spaced_by(R a, R b, R c) {
  return R(multiply_add<R>(a, b, c));
}

template <class W>
W widened(const Scalar& s) {
  if constexpr (std::is_arithmetic_v<W>)
    return W(s.to_double());
  else
    return W(s.to_complex());
}

// Calls set(i, value): from the start up to the middle, from the end down to it, so that both ends
// are exact.
template <class W, class F>
void walk(const Scalar& start, const Scalar& end, int64_t steps, const F& set) {
  using Real = decltype(std::real(W{}));
  W first = widened<W>(start), last = widened<W>(end);
  W step = steps > 1 ? (last - first) / Real(steps - 1) : W{};
  int64_t half = steps == 1 ? 1 : steps / 2;
  parallel_for(steps, kGrain, [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i < std::min(half, end); i++) set(i, spaced_by(step, Real(i), first));
    for (; i < end; i++) set(i, spaced_by(-step, Real(steps - 1 - i), last));
  });
}

// What the spacing is computed in: whole numbers in double.
template <class T>
struct WideOf {
  using Type = std::conditional_t<std::is_integral_v<T>, double, T>;
};
template <>
struct WideOf<Half> {
  using Type = float;
};
template <>
struct WideOf<BFloat16> {
  using Type = float;
};

template <class T, class W>
T narrowed(W x) {
  if constexpr (kIsComplex<T>)
    return x;
  else if constexpr (std::is_integral_v<T>)
    return T(int64_t(x));
  else
    return element<T>(double(x));
}

DType spaced_dtype(std::string_view op, const Scalar& start, const Scalar& end,
                   std::optional<DType> dtype) {
  bool complex = start.is_complex() || end.is_complex();
  FL_CHECK(!complex || !dtype || is_complex(*dtype), RuntimeError,
           "{}: complex bounds do not fit in {}", op, dtype.value_or(DType::Float32));
  return dtype.value_or(complex ? default_complex() : default_dtype());
}

// A bound of an integer dtype is cut to an integer first.
Scalar bound(const Scalar& s, DType dtype) { return is_integer(dtype) ? Scalar(s.to_int()) : s; }

template <class F>
Tensor spread(std::string_view op, const Scalar& start, const Scalar& end, int64_t steps,
              DType dtype, std::optional<Layout> layout, std::optional<Device> device,
              const F& shape) {
  FL_CHECK(steps >= 0, RuntimeError, "{}: the number of steps must not be negative, got {}", op,
           steps);
  Tensor result = make_new(op, {steps}, dtype, layout, device);
  if (!has_memory(result)) return result;
  visit_number(op, dtype, [&](auto t) {
    using T = decltype(t);
    T* out = result.data<T>();
    walk<typename WideOf<T>::Type>(bound(start, dtype), bound(end, dtype), steps,
                                   [&](int64_t i, auto x) { out[i] = narrowed<T>(shape(x)); });
  });
  return result;
}

Scalar number_of(std::string_view op, const Tensor& t) {
  FL_CHECK(t.ndim() == 0, RuntimeError,
           "{}: a bound must be a number or a 0-d tensor, got shape {}", op, t.sizes());
  return t.item();
}

}  // namespace

Tensor linspace_impl(const Scalar& start, const Scalar& end, int64_t steps,
                     std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool>) {
  DType type = spaced_dtype("linspace", start, end, dtype);
  return spread("linspace", start, end, steps, type, layout, device, [](auto x) { return x; });
}
Tensor linspace_impl(const Tensor& start, const Tensor& end, int64_t steps,
                     std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool> pin_memory) {
  return linspace_impl(number_of("linspace", start), number_of("linspace", end), steps, dtype,
                       layout, device, pin_memory);
}
Tensor linspace_impl(const Tensor& start, const Scalar& end, int64_t steps,
                     std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool> pin_memory) {
  return linspace_impl(number_of("linspace", start), end, steps, dtype, layout, device, pin_memory);
}
Tensor linspace_impl(const Scalar& start, const Tensor& end, int64_t steps,
                     std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool> pin_memory) {
  return linspace_impl(start, number_of("linspace", end), steps, dtype, layout, device, pin_memory);
}

Tensor logspace_impl(const Scalar& start, const Scalar& end, int64_t steps, double base,
                     std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool>) {
  DType type = spaced_dtype("logspace", start, end, dtype);
  return spread("logspace", start, end, steps, type, layout, device, [=](auto x) {
    using W = decltype(x);
    if constexpr (std::is_arithmetic_v<W>)
      return W(std::pow(base, double(x)));
    else
      return W(std::pow(std::complex<double>(base), std::complex<double>(x)));
  });
}
Tensor logspace_impl(const Tensor& start, const Tensor& end, int64_t steps, double base,
                     std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool> pin_memory) {
  return logspace_impl(number_of("logspace", start), number_of("logspace", end), steps, base, dtype,
                       layout, device, pin_memory);
}
Tensor logspace_impl(const Tensor& start, const Scalar& end, int64_t steps, double base,
                     std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool> pin_memory) {
  return logspace_impl(number_of("logspace", start), end, steps, base, dtype, layout, device,
                       pin_memory);
}
Tensor logspace_impl(const Scalar& start, const Tensor& end, int64_t steps, double base,
                     std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool> pin_memory) {
  return logspace_impl(start, number_of("logspace", end), steps, base, dtype, layout, device,
                       pin_memory);
}

}  // namespace flambeau::ops
