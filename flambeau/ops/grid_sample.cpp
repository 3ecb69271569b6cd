// Sampling images and volumes at the points of a grid: per dim a few taps (place, weight), combined
// over the dims and gathered.
#include <array>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

enum Mode : int64_t { kLinear, kNearest, kCubic };
enum Padding : int64_t { kZeros, kBorder, kReflection };

struct Tap {
  Tensor place, weight;  // int64; undefined for one
};

// Mirrors places at the edges of [low, low + span].
Tensor reflect(const Tensor& x, double low, double span) {
  if (span == 0) return x * 0;
  Tensor from_low = abs(x - low), extra = fmod(from_low, span);
  Tensor odd = remainder(floor(from_low / span), 2) == 1;
  return where(odd, span - extra, extra) + low;
}

Tensor padded(const Tensor& x, int64_t size, int64_t padding, bool align) {
  if (padding == kZeros) return x;
  Tensor inside = x;
  if (padding == kReflection)
    inside = align ? reflect(x, 0, double(size - 1)) : reflect(x, -0.5, double(size));
  return clamp_min(clamp_max(inside, size - 1), 0);
}

// Halves go to the even neighbour.
Tensor round_even(const Tensor& x) {
  Tensor up = floor(x + 0.5);
  return where((up - x == 0.5) && (remainder(up, 2) == 1), up - 1, up);
}

// A tap outside the input counts nothing; NaN and huge places are outside too.
Tap tap_at(const Tensor& place, const Tensor& weight, int64_t size) {
  Tensor inside = (place >= 0) && (place <= size - 1);
  Tensor mask = to(inside, place.dtype());
  return {to(where(inside, place, 0), DType::Int64),
          weight.defined() ? where(inside, weight, 0) : mask};
}

Tensor cubic_weight(const Tensor& part, int tap) {
  constexpr double a = -0.75;
  Tensor x = tap <= 0 ? part - double(tap) : double(tap) - part;  // the distance to the tap
  if (tap == 0 || tap == 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

std::vector<Tap> taps_of(const Tensor& coordinate, int64_t size, int64_t mode, int64_t padding,
                         bool align) {
  Tensor x =
      align ? (coordinate + 1) * (double(size - 1) / 2) : ((coordinate + 1) * double(size) - 1) / 2;
  if (mode == kCubic) {
    Tensor low = detach(floor(x)), part = x - low;
    std::vector<Tap> taps;
    for (int tap = -1; tap <= 2; tap++)
      taps.push_back(
          tap_at(padded(low + double(tap), size, padding, align), cubic_weight(part, tap), size));
    return taps;
  }
  x = padded(x, size, padding, align);
  if (mode == kNearest) return {tap_at(detach(round_even(x)), Tensor(), size)};
  Tensor low = detach(floor(x)), part = x - low;
  return {tap_at(low, 1 - part, size), tap_at(low + 1, part, size)};
}

void check_grid(std::string_view op, const Tensor& input, const Tensor& grid, int64_t mode,
                int64_t padding) {
  int64_t dims = input.ndim() - 2;
  FL_CHECK((dims == 2 || dims == 3) && grid.ndim() == dims + 2, RuntimeError,
           "{}: input and grid must both have 4 or 5 dims, got shapes {} and {}", op, input.sizes(),
           grid.sizes());
  FL_CHECK(grid.size(-1) == dims && grid.size(0) == input.size(0), RuntimeError,
           "{}: grid must have the batch {} and {} coordinates, got shape {}", op, input.size(0),
           dims, grid.sizes());
  for (int64_t d = 2; d < input.ndim(); d++)
    FL_CHECK(input.size(d) > 0, RuntimeError, "{}: input must not be empty, got shape {}", op,
             input.sizes());
  FL_CHECK(input.dtype() == grid.dtype() && is_float(input.dtype()), RuntimeError,
           "{}: input and grid must have one floating dtype, got {} and {}", op, input.dtype(),
           grid.dtype());
  FL_CHECK(mode >= kLinear && mode <= kCubic && padding >= kZeros && padding <= kReflection,
           RuntimeError, "{}: modes are 0 to 2, got interpolation {} and padding {}", op, mode,
           padding);
  FL_CHECK(mode != kCubic || dims == 2, RuntimeError,
           "{}: cubic interpolation needs an input of 4 dims, got shape {}", op, input.sizes());
}

Tensor sample(std::string_view op, const Tensor& input, const Tensor& grid, int64_t mode,
              int64_t padding, bool align) {
  check_grid(op, input, grid, mode, padding);
  bool half = is_half(input.dtype());
  Tensor x = flatten(half ? to(input, DType::Float32) : input, 2);
  Tensor points = half ? to(grid, DType::Float32) : grid;
  int64_t dims = input.ndim() - 2, batch = input.size(0), channels = input.size(1);
  // The last coordinate of the grid belongs to the first spatial dim.
  std::vector<Tap> all(1);
  for (int64_t d = 0; d < dims; d++) {
    int64_t size = input.size(d + 2);
    Tensor coordinate = flatten(select(points, -1, dims - 1 - d), 1);
    std::vector<Tap> next, here = taps_of(coordinate, size, mode, padding, align);
    for (const Tap& a : all) {
      for (const Tap& b : here) {
        if (!a.place.defined())
          next.push_back(b);
        else
          next.push_back({a.place * size + b.place, a.weight * b.weight});
      }
    }
    all = next;
  }
  Tensor sum;
  for (const Tap& tap : all) {
    Tensor place = expand(unsqueeze(tap.place, 1), {batch, channels, tap.place.size(1)});
    Tensor part = gather(x, 2, place) * unsqueeze(tap.weight, 1);
    sum = sum.defined() ? sum + part : part;
  }
  // The nearest pixel does not move with the grid, whose gradient is then zero.
  if (mode == kNearest) {
    sum = _depends(sum, unsqueeze(flatten(select(points, -1, 0), 1), 1));
  }
  Ints out{batch, channels};
  for (int64_t d = 0; d < dims; d++) out.push_back(grid.size(d + 1));
  sum = reshape(sum, out);
  return half ? to(sum, input.dtype()) : sum;
}

// The places of `size` elements in [-1, 1]; a single one is in the middle.
Tensor places(int64_t size, bool align, const Tensor& like) {
  if (size <= 1) return zeros({size}, like.dtype(), std::nullopt, like.device());
  Tensor x = linspace(Scalar(-1), Scalar(1), size, like.dtype(), std::nullopt, like.device());
  return align ? x : x * (double(size - 1) / double(size));
}

}  // namespace

Tensor grid_sampler_impl(const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                         int64_t padding_mode, bool align_corners) {
  return sample("grid_sampler", input, grid, interpolation_mode, padding_mode, align_corners);
}
Tensor grid_sampler_2d_impl(const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                            int64_t padding_mode, bool align_corners) {
  return sample("grid_sampler_2d", input, grid, interpolation_mode, padding_mode, align_corners);
}
Tensor grid_sampler_3d_impl(const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                            int64_t padding_mode, bool align_corners) {
  return sample("grid_sampler_3d", input, grid, interpolation_mode, padding_mode, align_corners);
}

Tensor affine_grid_generator_impl(const Tensor& theta, IntList size, bool align_corners) {
  int64_t dims = int64_t(size.size()) - 2;
  FL_CHECK(dims == 2 || dims == 3, RuntimeError,
           "affine_grid_generator: size must have 4 or 5 elements, got {}", size);
  FL_CHECK(theta.sizes() == IntList({size[0], dims, dims + 1}), RuntimeError,
           "affine_grid_generator: theta must have shape ({}, {}, {}), got {}", size[0], dims,
           dims + 1, theta.sizes());
  Ints spatial(IntList(size.data() + 2, size_t(dims)));
  std::vector<Tensor> columns;
  for (int64_t d = dims - 1; d >= 0; d--) {  // x runs along the last dim
    Ints along(size_t(dims), 1);
    along[size_t(d)] = spatial[size_t(d)];
    columns.push_back(
        expand(view(places(spatial[size_t(d)], align_corners, theta), along), spatial));
  }
  columns.push_back(ones(spatial, theta.dtype(), std::nullopt, theta.device()));
  Tensor base = flatten(stack(columns, -1), 0, dims - 1);
  Tensor grid = matmul(base, transpose(theta, 1, 2));
  Ints out{size[0]};
  for (int64_t n : spatial) out.push_back(n);
  out.push_back(dims);
  return reshape(grid, out);
}

}  // namespace flambeau::ops
