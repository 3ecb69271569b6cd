// Windows for spectral analysis, computed in double and rounded once.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/factory.h"

namespace flambeau::ops {

namespace {

// value(x) for x = i / length, length = n where the window is periodic, else n - 1.
template <class F>
Tensor window(std::string_view op, int64_t n, bool periodic, std::optional<DType> dtype,
              std::optional<Layout> layout, std::optional<Device> device, const F& value) {
  FL_CHECK(n >= 0, RuntimeError, "{}: the length must not be negative, got {}", op, n);
  DType type = dtype.value_or(default_dtype());
  FL_CHECK(is_float(type), RuntimeError, "{}: a window is floating, got {}", op, type);
  Tensor result = make_new(op, {n}, type, layout, device);
  if (!has_memory(result)) return result;
  Tensor exact = new_tensor({n}, DType::Float64);
  auto* out = exact.data<double>();
  auto length = double(periodic ? n : n - 1);
  for (int64_t i = 0; i < n; i++) out[i] = n == 1 ? 1 : value(double(i) / length);
  copy_elements(result, exact);
  return result;
}

Tensor cosines(std::string_view op, int64_t n, bool periodic, double a, double b, double c,
               std::optional<DType> dtype, std::optional<Layout> layout,
               std::optional<Device> device) {
  return window(op, n, periodic, dtype, layout, device, [=](double x) {
    return a - b * std::cos(2 * M_PI * x) + c * std::cos(4 * M_PI * x);
  });
}

// The modified Bessel function of order 0 by its power series, which has positive terms only.
double bessel_i0(double x) {
  double quarter = x * x / 4, term = 1, sum = 1;
  for (double k = 1; term > sum * 1e-17; k++) {
    term *= quarter / (k * k);
    sum += term;
  }
  return sum;
}

}  // namespace

Tensor bartlett_window_impl(int64_t n, bool periodic, std::optional<DType> dtype,
                            std::optional<Layout> layout, std::optional<Device> device,
                            std::optional<bool>) {
  return window("bartlett_window", n, periodic, dtype, layout, device,
                [](double x) { return 1 - std::fabs(2 * x - 1); });
}
Tensor bartlett_window_impl(int64_t n, std::optional<DType> dtype, std::optional<Layout> layout,
                            std::optional<Device> device, std::optional<bool> pin_memory) {
  return bartlett_window_impl(n, true, dtype, layout, device, pin_memory);
}

Tensor blackman_window_impl(int64_t n, bool periodic, std::optional<DType> dtype,
                            std::optional<Layout> layout, std::optional<Device> device,
                            std::optional<bool>) {
  return cosines("blackman_window", n, periodic, 0.42, 0.5, 0.08, dtype, layout, device);
}
Tensor blackman_window_impl(int64_t n, std::optional<DType> dtype, std::optional<Layout> layout,
                            std::optional<Device> device, std::optional<bool> pin_memory) {
  return blackman_window_impl(n, true, dtype, layout, device, pin_memory);
}

Tensor hamming_window_impl(int64_t n, bool periodic, double alpha, double beta,
                           std::optional<DType> dtype, std::optional<Layout> layout,
                           std::optional<Device> device, std::optional<bool>) {
  return cosines("hamming_window", n, periodic, alpha, beta, 0, dtype, layout, device);
}
Tensor hamming_window_impl(int64_t n, bool periodic, double alpha, std::optional<DType> dtype,
                           std::optional<Layout> layout, std::optional<Device> device,
                           std::optional<bool> pin_memory) {
  return hamming_window_impl(n, periodic, alpha, 0.46, dtype, layout, device, pin_memory);
}
Tensor hamming_window_impl(int64_t n, bool periodic, std::optional<DType> dtype,
                           std::optional<Layout> layout, std::optional<Device> device,
                           std::optional<bool> pin_memory) {
  return hamming_window_impl(n, periodic, 0.54, 0.46, dtype, layout, device, pin_memory);
}
Tensor hamming_window_impl(int64_t n, std::optional<DType> dtype, std::optional<Layout> layout,
                           std::optional<Device> device, std::optional<bool> pin_memory) {
  return hamming_window_impl(n, true, 0.54, 0.46, dtype, layout, device, pin_memory);
}

Tensor hann_window_impl(int64_t n, bool periodic, std::optional<DType> dtype,
                        std::optional<Layout> layout, std::optional<Device> device,
                        std::optional<bool>) {
  return cosines("hann_window", n, periodic, 0.5, 0.5, 0, dtype, layout, device);
}
Tensor hann_window_impl(int64_t n, std::optional<DType> dtype, std::optional<Layout> layout,
                        std::optional<Device> device, std::optional<bool> pin_memory) {
  return hann_window_impl(n, true, dtype, layout, device, pin_memory);
}

Tensor kaiser_window_impl(int64_t n, bool periodic, double beta, std::optional<DType> dtype,
                          std::optional<Layout> layout, std::optional<Device> device,
                          std::optional<bool>) {
  double scale = 1 / bessel_i0(beta);
  return window("kaiser_window", n, periodic, dtype, layout, device, [=](double x) {
    double from_middle = 2 * x - 1;
    return bessel_i0(beta * std::sqrt(std::max(0.0, 1 - from_middle * from_middle))) * scale;
  });
}
Tensor kaiser_window_impl(int64_t n, bool periodic, std::optional<DType> dtype,
                          std::optional<Layout> layout, std::optional<Device> device,
                          std::optional<bool> pin_memory) {
  return kaiser_window_impl(n, periodic, 12, dtype, layout, device, pin_memory);
}
Tensor kaiser_window_impl(int64_t n, std::optional<DType> dtype, std::optional<Layout> layout,
                          std::optional<Device> device, std::optional<bool> pin_memory) {
  return kaiser_window_impl(n, true, 12, dtype, layout, device, pin_memory);
}

}  // namespace flambeau::ops
