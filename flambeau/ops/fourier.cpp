// Fourier transforms along several dims: one kernel call for each, and where some leave the first
// dim alone, one part of that after another, so that a part stays in the cache between them.
#include <algorithm>
#include <cmath>

#include "flambeau/core/threadpool.h"
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/fft.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

constexpr int64_t kPartBytes = 1 << 20;   // what stays in a core's cache
constexpr int64_t kChunkBytes = 1 << 17;  // small parts go together
enum Normalization { kNone, kByRoot, kByCount };

using DimList = std::vector<int64_t>;

DimList wrapped_dims(std::string_view op, const Tensor& self, IntList dims) {
  DimList wrapped;
  for (int64_t d : dims) {
    d = wrap_dim(op, d, self.ndim());
    FL_CHECK(self.ndim() > 0, IndexError, "{}: dim {} does not exist, the input has 0 dims", op, d);
    FL_CHECK(std::find(wrapped.begin(), wrapped.end(), d) == wrapped.end(), RuntimeError,
             "{}: a dim may be named once, got {}", op, dims);
    FL_CHECK(self.size(d) > 0, RuntimeError,
             "{}: the transformed size must be at least 1, got {} in dim {}", op, self.size(d), d);
    wrapped.push_back(d);
  }
  return wrapped;
}

void check_fft(std::string_view op, const Tensor& self, bool complex, int64_t normalization) {
  FL_CHECK(is_complex(self.dtype()) == complex && itemsize(self.dtype()) >= 4 &&
               is_inexact(self.dtype()),
           RuntimeError, "{}: a {} input of single or double precision is needed, got {}", op,
           complex ? "complex" : "real", self.dtype());
  FL_CHECK(kNone <= normalization && normalization <= kByCount, RuntimeError,
           "{}: normalization must be 0, 1 or 2, got {}", op, normalization);
}
int64_t last_of(std::string_view op, const DimList& dims) {
  FL_CHECK(!dims.empty(), RuntimeError, "{}: at least one dim must be transformed", op);
  return dims.back();
}

// One side of a transform: memory and strides in its own elements.
struct Side {
  char* data;
  Ints strides;
  int64_t item;
  explicit Side(const Tensor& t) : data(t->data), strides(t.strides()), item(itemsize(t.dtype())) {}
};

struct Stage {
  FftKind kind;
  int64_t dim, n;
  bool forward, doubles;
  double scale;
  Side in, out;
  Ints sizes;  // of either side, but along dim
  std::shared_ptr<const FftPlan> plan;

  Stage(FftKind k, int64_t d, int64_t count, const Tensor& from, const Tensor& to, bool minus,
        double factor)
      : kind(k),
        dim(d),
        n(count),
        forward(minus),
        doubles(real_of(to.dtype()) == DType::Float64),
        scale(factor),
        in(from),
        out(to),
        sizes(to.sizes()),
        plan(fft_plan(fft_points(k, count), doubles)) {}

  // The places [begin, end) of the first dim; all of them where that is transformed.
  void run(int64_t begin, int64_t end) const {
    int64_t shape[kMaxDims], from[kMaxDims], to[kMaxDims];
    int count = 0;
    for (int64_t d = 0; d < int64_t(sizes.size()); d++) {
      int64_t size = d ? sizes[size_t(d)] : end - begin;
      int64_t step_in = in.strides[size_t(d)], step_out = out.strides[size_t(d)];
      if (d == dim || size == 1) continue;
      // Dims that follow each other on both sides are one.
      if (count && from[count - 1] == size * step_in && to[count - 1] == size * step_out) {
        shape[count - 1] *= size;
      } else {
        shape[count++] = size;
      }
      from[count - 1] = step_in, to[count - 1] = step_out;
    }
    FftArgs args;
    args.plan = plan.get(), args.kind = kind, args.doubles = doubles;
    args.forward = forward, args.n = n, args.scale = scale;
    int64_t first_in = dim ? begin * in.strides[0] * in.item : 0;
    int64_t first_out = dim ? begin * out.strides[0] * out.item : 0;
    args.in = in.data + first_in, args.out = out.data + first_out;
    args.in_step = in.strides[size_t(dim)], args.out_step = out.strides[size_t(dim)];
    args.ndim = count, args.sizes = shape, args.in_strides = from, args.out_strides = to;
    fft_lines(args);
  }
};

// Stages that follow each other and leave the first dim alone run part by part.
void run_stages(const std::vector<Stage>& stages) {
  for (size_t i = 0; i < stages.size();) {
    size_t end = i;
    while (end < stages.size() && stages[end].dim > 0) end++;
    const Stage& first = stages[i];
    int64_t parts = first.sizes[0], bytes = 1;
    for (size_t d = 1; d < first.sizes.size(); d++) bytes *= first.sizes[d];
    bytes *= first.out.item;
    if (end < i + 2 || parts < 2 || bytes > kPartBytes || (parts < 4 && num_threads() > 1)) {
      first.run(0, parts);
      i++;
      continue;
    }
    parallel_for(parts, std::max<int64_t>(1, kChunkBytes / bytes), [&](int64_t from, int64_t to) {
      for (size_t s = i; s < end; s++) stages[s].run(from, to);
    });
    i = end;
  }
}

double scale_of(const Tensor& logical, const DimList& dims, int64_t last_size,
                int64_t normalization) {
  double count = 1;
  for (int64_t d : dims) count *= double(d == dims.back() ? last_size : logical.size(d));
  return normalization == kNone ? 1 : 1 / (normalization == kByRoot ? std::sqrt(count) : count);
}

}  // namespace

// ---- complex to complex ----

Ints fft_c2c_shape(const Tensor& self, IntList dim, int64_t normalization, bool) {
  check_fft("fft", self, true, normalization);
  wrapped_dims("fft", self, dim);
  return self.sizes();
}

void fft_c2c_kernel(Tensor& result, const Tensor& self, IntList dim, int64_t normalization,
                    bool forward) {
  DimList dims = wrapped_dims("fft", self, dim);
  if (dims.empty()) return copy_elements(result, self);
  if (self.numel() == 0) return;
  double scale = scale_of(self, dims, self.size(dims.back()), normalization);
  std::sort(dims.begin(), dims.end());
  std::vector<Stage> stages;
  for (size_t i = dims.size(); i-- > 0;) {
    bool first = stages.empty();
    stages.emplace_back(FftKind::Complex, dims[i], self.size(dims[i]), first ? self : result,
                        result, forward, first ? scale : 1);
  }
  run_stages(stages);
}

// ---- real to complex ----

Ints fft_r2c_shape(const Tensor& self, IntList dim, int64_t normalization, bool onesided, bool) {
  check_fft("rfft", self, false, normalization);
  int64_t last = last_of("rfft", wrapped_dims("rfft", self, dim));
  Ints sizes = self.sizes();
  if (onesided) sizes[size_t(last)] = sizes[size_t(last)] / 2 + 1;
  return sizes;
}
DType fft_r2c_dtype(const Tensor& self, IntList, int64_t, bool, bool) {
  return self.dtype() == DType::Float64 ? DType::Complex128 : DType::Complex64;
}

void fft_r2c_kernel(Tensor& result, const Tensor& self, IntList dim, int64_t normalization,
                    bool onesided, bool forward) {
  DimList dims = wrapped_dims("rfft", self, dim);
  if (self.numel() == 0) return;
  int64_t last = dims.back(), n = self.size(last);
  std::vector<Stage> stages;
  stages.emplace_back(onesided ? FftKind::FromReal : FftKind::FromRealMirrored, last, n, self,
                      result, forward, scale_of(self, dims, n, normalization));
  dims.pop_back();
  std::sort(dims.begin(), dims.end());
  for (size_t i = dims.size(); i-- > 0;)
    stages.emplace_back(FftKind::Complex, dims[i], self.size(dims[i]), result, result, forward, 1);
  run_stages(stages);
}

// ---- complex to real ----

Ints fft_c2r_shape(const Tensor& self, IntList dim, int64_t normalization, int64_t last_dim_size,
                   bool) {
  check_fft("irfft", self, true, normalization);
  int64_t last = last_of("irfft", wrapped_dims("irfft", self, dim));
  FL_CHECK(last_dim_size >= 1, RuntimeError,
           "irfft: the transformed size must be at least 1, got {}", last_dim_size);
  FL_CHECK(self.size(last) == last_dim_size / 2 + 1, RuntimeError,
           "irfft: half a spectrum of {} has {} elements, got {} in dim {}", last_dim_size,
           last_dim_size / 2 + 1, self.size(last), last);
  Ints sizes = self.sizes();
  sizes[size_t(last)] = last_dim_size;
  return sizes;
}

void fft_c2r_kernel(Tensor& result, const Tensor& self, IntList dim, int64_t normalization,
                    int64_t last_dim_size, bool forward) {
  DimList dims = wrapped_dims("irfft", self, dim);
  if (self.numel() == 0) return;
  int64_t last = dims.back();
  double scale = scale_of(self, dims, last_dim_size, normalization);
  dims.pop_back();
  std::sort(dims.begin(), dims.end());
  Tensor between = dims.empty() ? self : new_tensor(self.sizes(), self.dtype(), self.device());
  std::vector<Stage> stages;
  for (int64_t d : dims) {
    stages.emplace_back(FftKind::Complex, d, self.size(d), stages.empty() ? self : between, between,
                        forward, 1);
  }
  stages.emplace_back(FftKind::ToReal, last, last_dim_size, between, result, forward, scale);
  run_stages(stages);
}

}  // namespace flambeau::ops
