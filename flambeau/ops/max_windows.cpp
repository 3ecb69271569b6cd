// Max pooling over windows of unequal sizes or places, and its inverse. The search gives places;
// the elements are gathered, so that gradients need nothing of their own.
#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

// Windows along one of three dims: [start, end) of each, per output.
struct Spans {
  int64_t in = 1;
  std::vector<int64_t> start{0}, end{1};
};

// NaN wins over every number, and a later one over an earlier.
template <class T>
void largest_places(const T* x, const Spans* d, int64_t* place) {
  for (size_t i = 0; i < d[0].start.size(); i++)
    for (size_t j = 0; j < d[1].start.size(); j++)
      for (size_t k = 0; k < d[2].start.size(); k++) {
        int64_t best = (d[0].start[i] * d[1].in + d[1].start[j]) * d[2].in + d[2].start[k];
        for (int64_t a = d[0].start[i]; a < d[0].end[i]; a++)
          for (int64_t b = d[1].start[j]; b < d[1].end[j]; b++)
            for (int64_t c = d[2].start[k]; c < d[2].end[k]; c++) {
              int64_t at = (a * d[1].in + b) * d[2].in + c;
              if (x[at] > x[best] || x[at] != x[at]) best = at;
            }
        *place++ = best;
      }
}

int64_t plane_size(const Tensor& t) {
  int64_t n = 1;
  for (int64_t d = 2; d < t.ndim(); d++) n *= t.size(d);
  return n;
}

// spans_of(plane, spans) sets the windows of a plane; it has three dims, leading ones of size 1.
template <class T, class F>
void search_planes(const Tensor& x, Tensor& result, F&& spans_of) {
  int64_t in = plane_size(x), out = plane_size(result), planes = x.size(0) * x.size(1);
  for (int64_t p = 0; p < planes; p++) {
    Spans spans[3];
    spans_of(p, spans);
    largest_places(x.data<T>() + p * in, spans, result.data<int64_t>() + p * out);
  }
}

template <class F>
void search(const Tensor& x, Tensor& result, F&& spans_of) {
  if (result.numel() == 0) return;
  if (x.dtype() == DType::Float64)
    search_planes<double>(x, result, spans_of);
  else
    search_planes<float>(x, result, spans_of);
}

Ints windowed_shape(std::string_view op, const Tensor& self, IntList output_size) {
  int64_t dims = int64_t(output_size.size());
  FL_CHECK(self.ndim() == dims + 2, RuntimeError,
           "{}: input must have {} dims, or {} without a batch, got shape {}", op, dims + 2,
           dims + 1, self.sizes());
  FL_CHECK(self.dtype() == DType::Float32 || self.dtype() == DType::Float64, NotImplementedError,
           "{}: the input must be floating, got {}", op, self.dtype());
  Ints sizes{self.size(0), self.size(1)};
  for (int64_t d = 0; d < dims; d++) {
    int64_t out = output_size[size_t(d)];
    FL_CHECK(out >= 0 && self.size(d + 2) > 0, RuntimeError,
             "{}: output_size must not be negative and the input not empty, got {} and shape {}",
             op, output_size, self.sizes());
    sizes.push_back(out);
  }
  FL_CHECK(self.size(1) > 0, RuntimeError, "{}: the input must have channels, got shape {}", op,
           self.sizes());
  return sizes;
}

// The starts of windows of `kernel` elements that one random number in [0, 1) decides.
template <class T>
void set_fractional(Spans& s, int64_t kernel, int64_t out, T sample) {
  s.start.clear();
  s.end.clear();
  for (int64_t i = 0; i < out; i++) {
    int64_t start = s.in - kernel;
    if (i < out - 1) {
      T step = T(s.in - kernel) / T(out - 1);
      T at = sample >= 0 && sample <= 1 ? sample : T(0);
      start = int64_t((T(i) + at) * step) - int64_t(at * step);
    }
    s.start.push_back(start);
    s.end.push_back(start + kernel);
  }
}

}  // namespace

Ints adaptive_max_indices_shape(const Tensor& self, IntList output_size) {
  return windowed_shape("adaptive_max_pool", self, output_size);
}

void adaptive_max_indices_kernel(Tensor& result, const Tensor& self, IntList output_size) {
  size_t dims = output_size.size();
  search(self, result, [&](int64_t, Spans* spans) {
    for (size_t d = 0; d < dims; d++) {
      Spans& s = spans[3 - dims + d];
      int64_t out = output_size[d];
      s.in = self.size(int64_t(d) + 2);
      s.start.clear();
      s.end.clear();
      for (int64_t i = 0; i < out; i++) {
        s.start.push_back(i * s.in / out);
        s.end.push_back(((i + 1) * s.in + out - 1) / out);
      }
    }
  });
}

Ints fractional_max_indices_shape(const Tensor& self, IntList kernel_size, IntList output_size,
                                  const Tensor& random_samples) {
  Ints sizes = windowed_shape("fractional_max_pool", self, output_size);
  auto dims = int64_t(output_size.size());
  FL_CHECK(int64_t(kernel_size.size()) == dims, RuntimeError,
           "fractional_max_pool: kernel_size must have {} elements, got {}", dims, kernel_size);
  for (size_t d = 0; d < output_size.size(); d++)
    FL_CHECK(kernel_size[d] > 0 && output_size[d] > 0 &&
                 kernel_size[d] <= self.size(int64_t(d) + 2) &&
                 add_sat(output_size[d], kernel_size[d] - 1) <= self.size(int64_t(d) + 2),
             RuntimeError,
             "fractional_max_pool: {} windows of {} elements do not fit into dim {} of shape {}",
             output_size[d], kernel_size[d], d + 2, self.sizes());
  FL_CHECK(random_samples.sizes() == IntList({self.size(0), self.size(1), dims}) &&
               random_samples.dtype() == self.dtype(),
           RuntimeError,
           "fractional_max_pool: random_samples must be {} of shape ({}, {}, {}), got {} of {}",
           self.dtype(), self.size(0), self.size(1), dims, random_samples.dtype(),
           random_samples.sizes());
  return sizes;
}

void fractional_max_indices_kernel(Tensor& result, const Tensor& self, IntList kernel_size,
                                   IntList output_size, const Tensor& random_samples) {
  size_t dims = output_size.size();
  search(self, result, [&](int64_t plane, Spans* spans) {
    for (size_t d = 0; d < dims; d++) {
      Spans& s = spans[3 - dims + d];
      s.in = self.size(int64_t(d) + 2);
      // torch reads an image's numbers width first, a volume's depth first.
      int64_t at = plane * int64_t(dims) + int64_t(dims == 2 ? 1 - d : d);
      if (self.dtype() == DType::Float64) {
        set_fractional(s, kernel_size[d], output_size[d], random_samples.data<double>()[at]);
      } else {
        set_fractional(s, kernel_size[d], output_size[d], random_samples.data<float>()[at]);
      }
    }
  });
}

namespace {

using Pair = std::tuple<Tensor, Tensor>;

// search(x) gives the places in a batched float or double x.
template <class F>
Pair pooled(const Tensor& self, size_t dims, F&& search) {
  bool single = self.ndim() == int64_t(dims) + 1;
  Tensor x = single ? unsqueeze(self, 0) : self;
  Tensor places = search(is_half(x.dtype()) ? to(x, DType::Float32) : x);
  Tensor values = _max_pool_gather(x, places);
  if (!single) return {values, places};
  return {squeeze(values, 0), squeeze(places, 0)};
}

Pair adaptive(const Tensor& self, IntList output_size, size_t dims) {
  Ints sizes = output_size;
  if (output_size.size() == 1) sizes.resize(dims, output_size[0]);
  FL_CHECK(sizes.size() == dims, RuntimeError,
           "adaptive_max_pool{}d: output_size must have {} elements, got {}", dims, dims,
           output_size);
  return pooled(self, dims,
                [&](const Tensor& x) { return _adaptive_max_indices(detach(x), sizes); });
}

Pair fractional(const Tensor& self, IntList kernel_size, IntList output_size,
                const Tensor& random_samples, size_t dims) {
  Ints kernel = kernel_size, sizes = output_size;
  if (kernel_size.size() == 1) kernel.resize(dims, kernel_size[0]);
  if (output_size.size() == 1) sizes.resize(dims, output_size[0]);
  return pooled(self, dims, [&](const Tensor& x) {
    return _fractional_max_indices(detach(x), kernel, sizes, to(detach(random_samples), x.dtype()));
  });
}

Tensor unpooled(std::string_view op, const Tensor& self, const Tensor& indices, IntList output_size,
                size_t dims) {
  FL_CHECK(output_size.size() == dims, RuntimeError,
           "{}: output_size must have {} elements, got {}", op, dims, output_size);
  FL_CHECK(self.ndim() == int64_t(dims) + 2 || self.ndim() == int64_t(dims) + 1, RuntimeError,
           "{}: input must have {} dims, or {} without a batch, got shape {}", op, dims + 2,
           dims + 1, self.sizes());
  FL_CHECK(indices.dtype() == DType::Int64 && indices.sizes() == self.sizes(), RuntimeError,
           "{}: indices must be int64 of the input's shape {}, got {} of {}", op, self.sizes(),
           indices.dtype(), indices.sizes());
  auto first = self.ndim() - int64_t(dims);
  Ints sizes, flat;
  int64_t plane = 1;
  for (int64_t d = 0; d < first; d++) {
    sizes.push_back(self.size(d));
    flat.push_back(self.size(d));
  }
  for (int64_t n : output_size) {
    FL_CHECK(n >= 0, RuntimeError, "{}: output_size must not be negative, got {}", op, output_size);
    sizes.push_back(n);
    plane = mul_sat(plane, n);
  }
  flat.push_back(plane);
  Tensor empty = new_zeros(self, flat);
  return reshape(scatter(empty, -1, flatten(indices, first), flatten(self, first)), sizes);
}

}  // namespace

Pair adaptive_max_pool1d_impl(const Tensor& self, IntList output_size) {
  return adaptive(self, output_size, 1);
}
Pair adaptive_max_pool2d_impl(const Tensor& self, IntList output_size) {
  return adaptive(self, output_size, 2);
}
Pair adaptive_max_pool3d_impl(const Tensor& self, IntList output_size) {
  return adaptive(self, output_size, 3);
}

Pair fractional_max_pool2d_impl(const Tensor& self, IntList kernel_size, IntList output_size,
                                const Tensor& random_samples) {
  return fractional(self, kernel_size, output_size, random_samples, 2);
}
Pair fractional_max_pool3d_impl(const Tensor& self, IntList kernel_size, IntList output_size,
                                const Tensor& random_samples) {
  return fractional(self, kernel_size, output_size, random_samples, 3);
}

Tensor max_unpool2d_impl(const Tensor& self, const Tensor& indices, IntList output_size) {
  return unpooled("max_unpool2d", self, indices, output_size, 2);
}
Tensor max_unpool3d_impl(const Tensor& self, const Tensor& indices, IntList output_size, IntList,
                         IntList) {
  return unpooled("max_unpool3d", self, indices, output_size, 3);
}

}  // namespace flambeau::ops
