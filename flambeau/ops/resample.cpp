// Resizing along one dim at a time: each element of the result is a weighted sum of a few elements
// of the input, whose places and weights depend on that dim's sizes alone.
#include <cmath>

#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/resample.h"
#include "flambeau/ops/indices.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

enum class Filter { Nearest, NearestExact, Linear, Cubic, Triangle, SmoothCubic };
using Scale = std::optional<double>;

// One dim's share of a resizing; T is the arithmetic that places are computed in, as in torch.
template <class T>
struct Line {
  int64_t in, out;
  T scale;
  int64_t taps = 0;        // of each element of the result
  Tensor places, weights;  // (out * taps,)

  Line(int64_t in, int64_t out, bool align, Scale factor) : in(in), out(out) {
    if (align) {
      scale = out > 1 ? T(in - 1) / T(out - 1) : T(0);
    } else {
      scale = factor && *factor > 0 ? T(1 / *factor) : T(in) / T(out);
    }
  }
  void make_taps(int64_t count) {
    taps = count;
    places = new_tensor({mul_sat(out, taps)}, DType::Int64);
    weights = new_tensor({mul_sat(out, taps)}, kDTypeOf<T>);
  }
  T& weight(int64_t tap, int64_t at) { return weights.template data<T>()[at * taps + tap]; }
  void set(int64_t tap, int64_t at, int64_t place, T value) {
    places.template data<int64_t>()[at * taps + tap] = std::clamp<int64_t>(place, 0, in - 1);
    weight(tap, at) = value;
  }
  Tensor starts() const {
    return arange(Scalar(int64_t{0}), Scalar(out * taps + 1), Scalar(taps), DType::Int64);
  }
  T source(int64_t at, bool align) const {
    return align ? scale * T(at) : scale * (T(at) + T(0.5)) - T(0.5);
  }
};

template <class T>
T cubic(T x, T a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

template <class T>
void fill_nearest(Line<T>& line, T shift) {
  line.make_taps(1);
  for (int64_t i = 0; i < line.out; i++)
    line.set(0, i, int64_t(std::floor((T(i) + shift) * line.scale)), T(1));
}

template <class T>
void fill_linear(Line<T>& line, bool align) {
  line.make_taps(2);
  for (int64_t i = 0; i < line.out; i++) {
    T x = std::max(line.source(i, align), T(0));
    int64_t low = std::min(int64_t(x), line.in - 1);
    T part = std::clamp(x - T(low), T(0), T(1));
    line.set(0, i, low, 1 - part);
    line.set(1, i, low + 1, part);
  }
}

template <class T>
void fill_cubic(Line<T>& line, bool align) {
  line.make_taps(4);
  for (int64_t i = 0; i < line.out; i++) {
    T x = line.source(i, align), low = std::floor(x);
    for (int tap = 0; tap < 4; tap++)
      line.set(tap, i, int64_t(low) + tap - 1, cubic(x - low - T(tap - 1), T(-0.75)));
  }
}

// The kernel is stretched by the step where that exceeds one, and its weights are scaled to sum to
// one.
template <class T>
void fill_smooth(Line<T>& line, bool cubic_kernel) {
  T stretch = std::max(line.scale, T(1)), reach = (cubic_kernel ? 2 : 1) * stretch;
  line.make_taps(int64_t(std::ceil(reach)) * 2 + 1);
  for (int64_t i = 0; i < line.out; i++) {
    T center = line.scale * (T(i) + T(0.5)), total = 0;
    int64_t first = std::max<int64_t>(int64_t(center - reach + T(0.5)), 0);
    int64_t count = std::min<int64_t>(int64_t(center + reach + T(0.5)), line.in) - first;
    count = std::clamp<int64_t>(count, 0, line.taps);
    for (int64_t tap = 0; tap < line.taps; tap++) {
      T x = (T(tap + first) - center + T(0.5)) / stretch;
      T w = cubic_kernel ? cubic(x, T(-0.5)) : std::max(1 - std::fabs(x), T(0));
      line.set(tap, i, first + tap, tap < count ? w : T(0));
      total += tap < count ? w : T(0);
    }
    for (int64_t tap = 0; tap < line.taps; tap++)
      line.weight(tap, i) = total != 0 ? line.weight(tap, i) / total : T(0);
  }
}

template <class T>
void fill(Line<T>& line, Filter filter, bool align) {
  switch (filter) {
    case Filter::Nearest:
      return fill_nearest(line, T(0));
    case Filter::NearestExact:
      return fill_nearest(line, T(0.5));
    case Filter::Linear:
      return fill_linear(line, align);
    case Filter::Cubic:
      return fill_cubic(line, align);
    default:
      return fill_smooth(line, filter == Filter::SmoothCubic);
  }
}

template <class T>
Tensor resize_dim(const Tensor& x, int64_t dim, int64_t out, Filter filter, bool align,
                  Scale factor) {
  Line<T> line(x.size(dim), out, align, factor);
  fill(line, filter, align);
  auto there = [&](const Tensor& table) { return to(table, x.device()); };
  bool nearest = filter == Filter::Nearest || filter == Filter::NearestExact;
  if (nearest && x.dtype() != kDTypeOf<T>) return index_select(x, dim, there(line.places));
  return _resample(x, dim, there(line.starts()), there(line.places),
                   nearest ? Tensor() : there(line.weights));
}

void check_sizes(std::string_view op, const Tensor& x, IntList out) {
  int64_t dims = int64_t(out.size());
  FL_CHECK(x.ndim() == dims + 2, RuntimeError, "{}: input must have {} dims, got shape {}", op,
           dims + 2, x.sizes());
  for (int64_t d = 0; d < dims; d++)
    FL_CHECK(x.size(d + 2) > 0 && out[size_t(d)] > 0, RuntimeError,
             "{}: sizes must be positive, got input {} and output_size {}", op, x.sizes(), out);
  FL_CHECK(x.size(1) > 0, RuntimeError, "{}: the input must have channels, got shape {}", op,
           x.sizes());
}

struct Resize {
  std::string_view op;
  size_t dims;
  Filter filter;
  bool align = false;

  Tensor operator()(const Tensor& x, IntList out, std::initializer_list<Scale> factors) const {
    FL_CHECK(out.size() == dims, RuntimeError, "{}: output_size must have {} elements, got {}", op,
             dims, out);
    check_sizes(op, x, out);
    bool nearest = filter == Filter::Nearest || filter == Filter::NearestExact;
    bool bytes = !nearest && dims == 2 && x.dtype() == DType::UInt8;
    FL_CHECK(nearest || bytes || is_inexact(x.dtype()), NotImplementedError,
             "{}: the input must be floating, got {}", op, x.dtype());
    // Half types are summed in float and rounded once, the bytes of pictures along each dim, rows
    // first.
    bool narrow = bytes || (!nearest && is_half(x.dtype()));
    Tensor y = narrow ? to(x, DType::Float32) : is_complex(x.dtype()) ? view_as_real(x) : x;
    bool wide = y.dtype() == DType::Float64;
    for (size_t i = 0; i < dims; i++) {
      size_t d = bytes ? dims - 1 - i : i;
      Scale factor = factors.begin()[d];
      y = wide ? resize_dim<double>(y, int64_t(d) + 2, out[d], filter, align, factor)
               : resize_dim<float>(y, int64_t(d) + 2, out[d], filter, align, factor);
      if (bytes) y = clamp(floor(y + Scalar(0.5)), Scalar(0), Scalar(255));
    }
    return narrow ? to(y, x.dtype()) : is_complex(x.dtype()) ? view_as_complex(y) : y;
  }

  // The form that interpolate calls: sizes or factors.
  Tensor operator()(const Tensor& x, std::optional<IntList> out,
                    std::optional<DoubleList> factors) const {
    FL_CHECK(out.has_value() != factors.has_value(), RuntimeError,
             "{}: exactly one of output_size and scale_factors must be given", op);
    if (out) return (*this)(x, *out, {Scale(), Scale(), Scale()});
    FL_CHECK(factors->size() == dims && x.ndim() == int64_t(dims) + 2, RuntimeError,
             "{}: an input of {} dims and as many factors are needed, got shape {} and {} factors",
             op, dims + 2, x.sizes(), factors->size());
    Ints sizes(dims);
    Scale given[3];
    for (size_t d = 0; d < dims; d++) {
      given[d] = (*factors)[d];
      sizes[d] = int64_t(double(x.size(int64_t(d) + 2)) * *given[d]);
    }
    return (*this)(x, sizes, {given[0], given[1], given[2]});
  }
};

}  // namespace

Ints resample_shape(const Tensor& self, int64_t dim, const Tensor& starts, const Tensor& places,
                    const Tensor& weights) {
  FL_CHECK(self.ndim() > 0, RuntimeError, "_resample: a 0-d tensor has no dim to resample");
  FL_CHECK(self.dtype() == DType::Float32 || self.dtype() == DType::Float64, RuntimeError,
           "_resample: self must be float32 or float64, got {}", self.dtype());
  for (const Tensor& table : {starts, places}) {
    FL_CHECK(table.ndim() == 1 && table.dtype() == DType::Int64, RuntimeError,
             "_resample: starts and places must be int64 of one dim, got {} of shape {}",
             table.dtype(), table.sizes());
  }
  FL_CHECK(starts.numel() > 0, RuntimeError, "_resample: starts must not be empty");
  FL_CHECK(
      !weights.defined() || (weights.dtype() == self.dtype() && weights.sizes() == places.sizes()),
      RuntimeError, "_resample: weights must be {} of shape {}, got {} of shape {}", self.dtype(),
      places.sizes(), weights.dtype(), weights.sizes());
  Ints sizes(self.sizes());
  sizes[size_t(wrap_dim("_resample", dim, self.ndim()))] = starts.numel() - 1;
  return sizes;
}

void resample_kernel(Tensor& result, const Tensor& self, int64_t dim, const Tensor& starts,
                     const Tensor& places, const Tensor& weights) {
  dim = wrap_dim("_resample", dim, self.ndim());
  checked_index<IndexError>("_resample", places, self.size(dim), dim);
  const int64_t *start = starts.data<int64_t>(), out = starts.numel() - 1;
  bool rise = start[0] == 0 && start[out] == places.numel();
  for (int64_t i = 0; rise && i < out; i++) rise = start[i] <= start[i + 1];
  FL_CHECK(rise, RuntimeError,
           "_resample: starts must rise from 0 to the number of places, {}, got {} to {}",
           places.numel(), start[0], start[out]);
  resample({self.dtype(), outer_of(self.sizes(), dim), self.size(dim), out,
            inner_of(self.sizes(), dim), start, places.data<int64_t>(),
            weights.defined() ? weights->data : nullptr, self->data, result->data});
}

Tensor upsample_nearest1d_impl(const Tensor& input, std::optional<IntList> output_size,
                               std::optional<DoubleList> scale_factors) {
  return Resize{"upsample_nearest1d", 1, Filter::Nearest}(input, output_size, scale_factors);
}
Tensor upsample_nearest1d_impl(const Tensor& self, IntList output_size,
                               std::optional<double> scales) {
  return Resize{"upsample_nearest1d", 1, Filter::Nearest}(self, output_size, {scales});
}
Tensor upsample_nearest2d_impl(const Tensor& input, std::optional<IntList> output_size,
                               std::optional<DoubleList> scale_factors) {
  return Resize{"upsample_nearest2d", 2, Filter::Nearest}(input, output_size, scale_factors);
}
Tensor upsample_nearest2d_impl(const Tensor& self, IntList output_size,
                               std::optional<double> scales_h, std::optional<double> scales_w) {
  return Resize{"upsample_nearest2d", 2, Filter::Nearest}(self, output_size, {scales_h, scales_w});
}
Tensor upsample_nearest3d_impl(const Tensor& input, std::optional<IntList> output_size,
                               std::optional<DoubleList> scale_factors) {
  return Resize{"upsample_nearest3d", 3, Filter::Nearest}(input, output_size, scale_factors);
}
Tensor upsample_nearest3d_impl(const Tensor& self, IntList output_size,
                               std::optional<double> scales_d, std::optional<double> scales_h,
                               std::optional<double> scales_w) {
  return Resize{"upsample_nearest3d", 3, Filter::Nearest}(self, output_size,
                                                          {scales_d, scales_h, scales_w});
}
Tensor upsample_nearest_exact1d_impl(const Tensor& input, std::optional<IntList> output_size,
                                     std::optional<DoubleList> scale_factors) {
  return Resize{"_upsample_nearest_exact1d", 1, Filter::NearestExact}(input, output_size,
                                                                      scale_factors);
}
Tensor upsample_nearest_exact1d_impl(const Tensor& self, IntList output_size,
                                     std::optional<double> scales) {
  return Resize{"_upsample_nearest_exact1d", 1, Filter::NearestExact}(self, output_size, {scales});
}
Tensor upsample_nearest_exact2d_impl(const Tensor& input, std::optional<IntList> output_size,
                                     std::optional<DoubleList> scale_factors) {
  return Resize{"_upsample_nearest_exact2d", 2, Filter::NearestExact}(input, output_size,
                                                                      scale_factors);
}
Tensor upsample_nearest_exact2d_impl(const Tensor& self, IntList output_size,
                                     std::optional<double> scales_h,
                                     std::optional<double> scales_w) {
  return Resize{"_upsample_nearest_exact2d", 2, Filter::NearestExact}(self, output_size,
                                                                      {scales_h, scales_w});
}
Tensor upsample_nearest_exact3d_impl(const Tensor& input, std::optional<IntList> output_size,
                                     std::optional<DoubleList> scale_factors) {
  return Resize{"_upsample_nearest_exact3d", 3, Filter::NearestExact}(input, output_size,
                                                                      scale_factors);
}
Tensor upsample_nearest_exact3d_impl(const Tensor& self, IntList output_size,
                                     std::optional<double> scales_d, std::optional<double> scales_h,
                                     std::optional<double> scales_w) {
  return Resize{"_upsample_nearest_exact3d", 3, Filter::NearestExact}(
      self, output_size, {scales_d, scales_h, scales_w});
}
Tensor upsample_linear1d_impl(const Tensor& input, std::optional<IntList> output_size,
                              bool align_corners, std::optional<DoubleList> scale_factors) {
  return Resize{"upsample_linear1d", 1, Filter::Linear, align_corners}(input, output_size,
                                                                       scale_factors);
}
Tensor upsample_linear1d_impl(const Tensor& self, IntList output_size, bool align_corners,
                              std::optional<double> scales) {
  return Resize{"upsample_linear1d", 1, Filter::Linear, align_corners}(self, output_size, {scales});
}
Tensor upsample_bilinear2d_impl(const Tensor& input, std::optional<IntList> output_size,
                                bool align_corners, std::optional<DoubleList> scale_factors) {
  return Resize{"upsample_bilinear2d", 2, Filter::Linear, align_corners}(input, output_size,
                                                                         scale_factors);
}
Tensor upsample_bilinear2d_impl(const Tensor& self, IntList output_size, bool align_corners,
                                std::optional<double> scales_h, std::optional<double> scales_w) {
  return Resize{"upsample_bilinear2d", 2, Filter::Linear, align_corners}(self, output_size,
                                                                         {scales_h, scales_w});
}
Tensor upsample_trilinear3d_impl(const Tensor& input, std::optional<IntList> output_size,
                                 bool align_corners, std::optional<DoubleList> scale_factors) {
  return Resize{"upsample_trilinear3d", 3, Filter::Linear, align_corners}(input, output_size,
                                                                          scale_factors);
}
Tensor upsample_trilinear3d_impl(const Tensor& self, IntList output_size, bool align_corners,
                                 std::optional<double> scales_d, std::optional<double> scales_h,
                                 std::optional<double> scales_w) {
  return Resize{"upsample_trilinear3d", 3, Filter::Linear, align_corners}(
      self, output_size, {scales_d, scales_h, scales_w});
}
Tensor upsample_bicubic2d_impl(const Tensor& input, std::optional<IntList> output_size,
                               bool align_corners, std::optional<DoubleList> scale_factors) {
  return Resize{"upsample_bicubic2d", 2, Filter::Cubic, align_corners}(input, output_size,
                                                                       scale_factors);
}
Tensor upsample_bicubic2d_impl(const Tensor& self, IntList output_size, bool align_corners,
                               std::optional<double> scales_h, std::optional<double> scales_w) {
  return Resize{"upsample_bicubic2d", 2, Filter::Cubic, align_corners}(self, output_size,
                                                                       {scales_h, scales_w});
}
Tensor upsample_bilinear2d_aa_impl(const Tensor& input, std::optional<IntList> output_size,
                                   bool align_corners, std::optional<DoubleList> scale_factors) {
  return Resize{"_upsample_bilinear2d_aa", 2, Filter::Triangle, align_corners}(input, output_size,
                                                                               scale_factors);
}
Tensor upsample_bilinear2d_aa_impl(const Tensor& self, IntList output_size, bool align_corners,
                                   std::optional<double> scales_h, std::optional<double> scales_w) {
  return Resize{"_upsample_bilinear2d_aa", 2, Filter::Triangle, align_corners}(
      self, output_size, {scales_h, scales_w});
}
Tensor upsample_bicubic2d_aa_impl(const Tensor& input, std::optional<IntList> output_size,
                                  bool align_corners, std::optional<DoubleList> scale_factors) {
  return Resize{"_upsample_bicubic2d_aa", 2, Filter::SmoothCubic, align_corners}(input, output_size,
                                                                                 scale_factors);
}
Tensor upsample_bicubic2d_aa_impl(const Tensor& self, IntList output_size, bool align_corners,
                                  std::optional<double> scales_h, std::optional<double> scales_w) {
  return Resize{"_upsample_bicubic2d_aa", 2, Filter::SmoothCubic, align_corners}(
      self, output_size, {scales_h, scales_w});
}

}  // namespace flambeau::ops
