// Discrete Fourier transforms along one dim: sums of x[j] exp(-+2 pi i j k / n) over j.
#pragma once
#include "flambeau/kernels/cpu/fft_plan.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// Complex to complex; real to the first n / 2 + 1 elements of the spectrum, which determine the
// rest, or to all; the first n / 2 + 1 elements of a Hermitian spectrum to real.
enum class FftKind : uint8_t { Complex, FromReal, FromRealMirrored, ToReal };

// One transform for each place of the batch dims. Strides count elements of their own side.
struct FftArgs {
  const FftPlan* plan = nullptr;  // of fft_points(kind, n) points
  FftKind kind = FftKind::Complex;
  bool doubles = false;
  bool forward = true;  // the sign of the exponent is minus
  int64_t n = 1;
  double scale = 1;
  const void* in = nullptr;
  void* out = nullptr;
  int64_t in_step = 1, out_step = 1;
  int ndim = 0;  // batch dims, the last is innermost
  const int64_t *sizes = nullptr, *in_strides = nullptr, *out_strides = nullptr;
};
inline constexpr int kMaxBatchDims = 64;
FL_KERNEL(fft_lines, void(const FftArgs&));

[[gnu::always_inline]] inline bool fft_real_input(FftKind kind) {
  return kind == FftKind::FromReal || kind == FftKind::FromRealMirrored;
}
// Even numbers of reals are taken in pairs, as half as many complex numbers. Inlined always, since
// instruction sets must not share a copy.
[[gnu::always_inline]] inline bool fft_halves(FftKind kind, int64_t n) {
  return kind != FftKind::Complex && n % 2 == 0;
}
[[gnu::always_inline]] inline int64_t fft_points(FftKind kind, int64_t n) {
  return fft_halves(kind, n) ? n / 2 : n;
}

}  // namespace flambeau
