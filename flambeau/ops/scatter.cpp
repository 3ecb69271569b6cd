// Gather and scatter along a dim: checks at the door, the other dims handed to the kernels as they
// are.
#include "flambeau/kernels/cpu/scatter.h"

#include <limits>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/indices.h"

namespace flambeau::ops {

namespace {

void check_index(std::string_view op, const Tensor& self, int64_t dim, const Tensor& index) {
  if (index.numel() == 0) return;
  FL_CHECK(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, RuntimeError,
           "{}: index must be int64, got {}", op, index.dtype());
  FL_CHECK(std::max<int64_t>(index.ndim(), 1) == std::max<int64_t>(self.ndim(), 1), RuntimeError,
           "{}: index must have as many dims as self, got {} and {}", op, index.sizes(),
           self.sizes());
  FL_CHECK(index.ndim() <= kIndexDims, NotImplementedError, "{}: at most {} dims, got {}", op,
           kIndexDims, index.ndim());
  for (int64_t d = 0; d < index.ndim() && self.ndim(); d++) {
    FL_CHECK(d == dim || index.size(d) <= self.size(d), RuntimeError,
             "{}: index of shape {} is larger than self of shape {} in dim {}", op, index.sizes(),
             self.sizes(), d);
  }
}

void check_source(std::string_view op, const Tensor& self, const Tensor& index, const Tensor& src) {
  FL_CHECK(self.dtype() == src.dtype(), RuntimeError, "{}: src must have self's dtype {}, got {}",
           op, self.dtype(), src.dtype());
  if (index.numel() == 0) return;
  bool fits = std::max<int64_t>(src.ndim(), 1) == std::max<int64_t>(index.ndim(), 1);
  for (int64_t d = 0; fits && d < std::min(index.ndim(), src.ndim()); d++)
    fits = index.size(d) <= src.size(d);
  FL_CHECK(fits, RuntimeError, "{}: index of shape {} is larger than src of shape {}", op,
           index.sizes(), src.sizes());
}

// `x` is the tensor that is indexed, `src` runs along the index (a 0-d one is repeated).
DimArgs dim_args(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  DimArgs a{};
  for (int64_t d = 0; d < index.ndim(); d++) {
    if (d == dim) continue;
    a.sizes[a.ndim] = index.size(d);
    a.x_strides[a.ndim] = x.ndim() ? x.stride(d) : 0;
    a.index_strides[a.ndim] = index.stride(d);
    a.src_strides[a.ndim++] = src.ndim() ? src.stride(d) : 0;
  }
  a.n = size_of(index, dim);
  a.x_size = size_of(x, dim);
  a.x_stride = x.ndim() ? x.stride(dim) : 0;
  a.index_stride = index.ndim() ? index.stride(dim) : 0;
  a.src_stride = src.ndim() ? src.stride(dim) : 0;
  a.x = x->data;
  a.index = index.data<int64_t>();
  a.src = src->data;
  return a;
}

// What every write along a dim comes down to: a checked index and a source that does not overlap x.
struct Write {
  int64_t dim;
  Tensor index, src;
  DimArgs args;

  Write(std::string_view op, const Tensor& x, int64_t d, const Tensor& i, const Tensor& s)
      : dim(wrap_dim(op, d, x.ndim())),
        index(checked_index<RuntimeError>(op, i, size_of(x, dim), dim)),
        src(memory_overlap(x, s) == Overlap::None ? s : base_copy(s, s.sizes())),
        args(dim_args(x, dim, index, src)) {}
};

Tensor number_like(const Tensor& x, const Scalar& value) {
  Tensor one = new_tensor({}, x.dtype(), x.device());
  return fill_into(one, value);
}

Combine combine_by_word(std::string_view reduce) {
  FL_CHECK(reduce == "add" || reduce == "multiply", RuntimeError,
           "scatter: reduce must be 'add' or 'multiply', got '{}'", reduce);
  return reduce == "add" ? Combine::Sum : Combine::Prod;
}

}  // namespace

Ints gather_shape(const Tensor& self, int64_t dim, const Tensor& index, bool) {
  check_index("gather", self, wrap_dim("gather", dim, self.ndim()), index);
  return index.sizes();
}

void gather_kernel(Tensor& result, const Tensor& self, int64_t dim, const Tensor& index, bool) {
  if (index.numel() == 0) return;
  dim = wrap_dim("gather", dim, self.ndim());
  Tensor where = checked_index<RuntimeError>("gather", index, size_of(self, dim), dim);
  gather_dim(itemsize(self.dtype()), dim_args(self, dim, where, result));
}

// ---- scatter ----

Ints scatter_shape(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  check_index("scatter", self, wrap_dim("scatter", dim, self.ndim()), index);
  check_source("scatter", self, index, src);
  return self.sizes();
}

Ints scatter_shape(const Tensor& self, int64_t dim, const Tensor& index, const Scalar&) {
  check_index("scatter", self, wrap_dim("scatter", dim, self.ndim()), index);
  return self.sizes();
}

Ints scatter_shape(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                   std::string_view reduce) {
  combine_by_word(reduce);
  return scatter_shape(self, dim, index, src);
}

Ints scatter_shape(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                   std::string_view reduce) {
  combine_by_word(reduce);
  return scatter_shape(self, dim, index, value);
}

void scatter_kernel(Tensor& result, int64_t dim, const Tensor& index, const Tensor& src) {
  check_unshared("scatter", result);
  if (index.numel() == 0) return;
  Write w("scatter", result, dim, index, src);
  scatter_dim(itemsize(result.dtype()), w.args);
}

void scatter_kernel(Tensor& result, int64_t dim, const Tensor& index, const Scalar& value) {
  scatter_kernel(result, dim, index, number_like(result, value));
}

void scatter_kernel(Tensor& result, int64_t dim, const Tensor& index, const Tensor& src,
                    std::string_view reduce) {
  check_unshared("scatter", result);
  if (index.numel() == 0) return;
  Write w("scatter", result, dim, index, src);
  scatter_combine_dim(combine_by_word(reduce), result.dtype(), w.args);
}

void scatter_kernel(Tensor& result, int64_t dim, const Tensor& index, const Scalar& value,
                    std::string_view reduce) {
  scatter_kernel(result, dim, index, number_like(result, value), reduce);
}

Ints scatter_add_shape(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  check_index("scatter_add", self, wrap_dim("scatter_add", dim, self.ndim()), index);
  check_source("scatter_add", self, index, src);
  return self.sizes();
}

void scatter_add_kernel(Tensor& result, int64_t dim, const Tensor& index, const Tensor& src) {
  check_unshared("scatter_add", result);
  if (index.numel() == 0) return;
  Write w("scatter_add", result, dim, index, src);
  scatter_combine_dim(Combine::Sum, result.dtype(), w.args);
}

// ---- reductions ----

namespace {

struct Reduction {
  Combine combine;
  bool mean;
};

Reduction reduction_by_word(std::string_view op, std::string_view reduce) {
  if (reduce == "sum" && op == "scatter_reduce") return {Combine::Sum, false};
  if (reduce == "prod") return {Combine::Prod, false};
  if (reduce == "mean") return {Combine::Sum, true};
  if (reduce == "amax") return {Combine::Max, false};
  if (reduce == "amin") return {Combine::Min, false};
  fail<RuntimeError>("{}: reduce must be {}prod, mean, amax or amin, got '{}'", op,
                     op == "scatter_reduce" ? "sum, " : "", reduce);
}

// What combines with any value to that value.
Scalar identity_of(Combine c, DType t) {
  if (c == Combine::Sum) return Scalar(int64_t{0});
  if (c == Combine::Prod) return Scalar(int64_t{1});
  bool lowest = c == Combine::Max;
  if (is_inexact(t)) {
    double inf = std::numeric_limits<double>::infinity();
    return Scalar(lowest ? -inf : inf);
  }
  if (t == DType::Bool) return Scalar(!lowest);
  int bits = 8 * int(itemsize(t));
  if (info(t).category == 'u') {
    return lowest ? Scalar(int64_t{0}) : Scalar(~uint64_t{0} >> (64 - bits));
  }
  int64_t low = std::numeric_limits<int64_t>::min() >> (64 - bits);
  return Scalar(lowest ? low : ~low);
}

// How many values meet in each element of x, its own included if asked for.
Tensor counts_of(const Tensor& x, const Write& w, bool include_self) {
  Tensor counts = new_tensor(x.sizes(), DType::Int64, x.device());
  fill_into(counts, Scalar(int64_t{include_self}));
  Tensor one = number_like(counts, Scalar(int64_t{1}));
  scatter_combine_dim(Combine::Sum, DType::Int64, dim_args(counts, w.dim, w.index, one));
  return counts;
}

void reduce_into(std::string_view op, const Tensor& result, int64_t dim, const Tensor& index,
                 const Tensor& src, std::string_view reduce, bool include_self) {
  check_unshared(op, result);
  if (index.numel() == 0) return;
  Reduction r = reduction_by_word(op, reduce);
  write_dense(result, [&](const Tensor& x) {
    Write w(op, x, dim, index, src);
    if (!include_self) {
      Tensor start = number_like(x, identity_of(r.combine, x.dtype()));
      scatter_dim(itemsize(x.dtype()), dim_args(x, w.dim, w.index, start));
    }
    scatter_combine_dim(r.combine, x.dtype(), w.args);
    if (!r.mean) return;
    Tensor counts = counts_of(x, w, include_self);
    divide_counts(x.dtype(), x->data, counts.data<int64_t>(), x.numel());
  });
}

}  // namespace

Ints scatter_reduce_shape(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                          std::string_view reduce, bool) {
  check_index("scatter_reduce", self, wrap_dim("scatter_reduce", dim, self.ndim()), index);
  check_source("scatter_reduce", self, index, src);
  Reduction r = reduction_by_word("scatter_reduce", reduce);
  FL_CHECK(!is_complex(self.dtype()) || r.combine <= Combine::Prod, RuntimeError,
           "scatter_reduce: {} is not defined for {}", reduce, self.dtype());
  return self.sizes();
}

void scatter_reduce_kernel(Tensor& result, int64_t dim, const Tensor& index, const Tensor& src,
                           std::string_view reduce, bool include_self) {
  reduce_into("scatter_reduce", result, dim, index, src, reduce, include_self);
}

Ints index_reduce_shape(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                        std::string_view reduce, bool) {
  reduction_by_word("index_reduce", reduce);
  return index_rows_shape("index_reduce", self, dim, index, source);
}

void index_reduce_kernel(Tensor& result, int64_t dim, const Tensor& index, const Tensor& source,
                         std::string_view reduce, bool include_self) {
  dim = wrap_dim("index_reduce", dim, result.ndim());
  Tensor checked = checked_index<IndexError>("index_reduce", index, size_of(result, dim), dim);
  Tensor along = index_along(checked, source.sizes(), dim);
  reduce_into("index_reduce", result, dim, along, source, reduce, include_self);
}

}  // namespace flambeau::ops
