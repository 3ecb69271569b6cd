// Order along a dim: sort, topk, kthvalue, median, mode. The kernels know contiguous rows, so the
// dim is moved last.
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/sort.h"
#include "flambeau/ops/indices.h"

namespace flambeau::ops {

namespace {

void check_ordered(std::string_view op, const Tensor& self) {
  FL_CHECK(!is_complex(self.dtype()), NotImplementedError, "{}: {} has no order", op, self.dtype());
}

Geometry last_swapped(const Tensor& t, int64_t dim) {
  Geometry g{Ints(t.sizes()), Ints(t.strides()), t->offset()};
  if (t.ndim() == 0) return g;
  std::swap(g.sizes[size_t(dim)], g.sizes[g.sizes.size() - 1]);
  std::swap(g.strides[size_t(dim)], g.strides[g.strides.size() - 1]);
  return g;
}

bool is_last(const Tensor& t, int64_t dim) { return t.ndim() == 0 || dim == t.ndim() - 1; }

// self with `dim` last, as dense rows.
struct Rows {
  Tensor x;
  int64_t rows, cols;

  Rows(const Tensor& self, int64_t dim)
      : x(dense(is_last(self, dim) ? self : alias(self, last_swapped(self, dim)))),
        rows(self.numel() / std::max<int64_t>(size_of(self, dim), 1)),
        cols(size_of(self, dim)) {}
};

// A result to be written as rows: itself, or a stand-in that is copied back.
class RowResult {
 public:
  RowResult(const Tensor& result, int64_t dim, bool has_dim) : result_(result) {
    if (!has_dim || is_last(result, dim)) return;
    view_ = alias(result, last_swapped(result, dim));
    rows_ = new_tensor(view_.sizes(), result.dtype(), result.device());
  }
  char* data() const { return rows_.defined() ? rows_->data : result_->data; }
  ~RowResult() {
    if (rows_.defined()) copy_elements(view_, rows_);
  }
  RowResult(const RowResult&) = delete;

 private:
  const Tensor& result_;
  Tensor view_, rows_;
};

int64_t* indices_of(const RowResult& r) { return reinterpret_cast<int64_t*>(r.data()); }

Ints without_dim(std::string_view op, const Tensor& self, int64_t dim, bool keepdim) {
  check_ordered(op, self);
  dim = wrap_dim(op, dim, self.ndim());
  Ints sizes(self.sizes());
  if (sizes.empty()) return sizes;
  FL_CHECK(sizes[size_t(dim)] > 0, IndexError, "{}: dim {} of shape {} is empty", op, dim,
           self.sizes());
  if (keepdim)
    sizes[size_t(dim)] = 1;
  else
    sizes.erase(size_t(dim));
  return sizes;
}

// Without the dim, rows of results stand in the order of the other dims; the rows of x do not where
// the last dim took dim's place.
struct Selected {
  Tensor x;
  int64_t rows, cols;

  Selected(const Tensor& self, int64_t dim) : cols(size_of(self, dim)) {
    Geometry g{Ints(self.sizes()), Ints(self.strides()), self->offset()};
    if (self.ndim()) {
      int64_t size = g.sizes[size_t(dim)], stride = g.strides[size_t(dim)];
      g.sizes.erase(size_t(dim));
      g.strides.erase(size_t(dim));
      g.sizes.push_back(size);
      g.strides.push_back(stride);
    }
    x = dense(is_last(self, dim) ? self : alias(self, g));
    rows = self.numel() / std::max<int64_t>(cols, 1);
  }
};

}  // namespace

// ---- sort ----

Ints sort_shape(const Tensor& self, int64_t dim, bool) {
  check_ordered("sort", self);
  wrap_dim("sort", dim, self.ndim());
  return self.sizes();
}
Ints sort_shape(const Tensor& self, std::optional<bool>, int64_t dim, bool descending) {
  return sort_shape(self, dim, descending);
}

void sort_kernel(Tensor& values, Tensor& indices, const Tensor& self, int64_t dim,
                 bool descending) {
  dim = wrap_dim("sort", dim, self.ndim());
  if (self.numel() == 0) return;
  Rows r(self, dim);
  RowResult v(values, dim, true), i(indices, dim, true);
  sort_rows(self.dtype(), r.x->data, r.rows, r.cols, descending, v.data(), indices_of(i));
}
void sort_kernel(Tensor& values, Tensor& indices, const Tensor& self, std::optional<bool>,
                 int64_t dim, bool descending) {
  sort_kernel(values, indices, self, dim, descending);
}

Tensor argsort_impl(const Tensor& self, int64_t dim, bool descending) {
  return std::get<1>(sort(self, dim, descending));
}
Tensor argsort_impl(const Tensor& self, bool, int64_t dim, bool descending) {
  return argsort_impl(self, dim, descending);
}

Tensor msort_impl(const Tensor& self) { return std::get<0>(sort(self, int64_t{0}, false)); }

// ---- some of the order ----

Ints topk_shape(const Tensor& self, int64_t k, int64_t dim, bool, bool) {
  check_ordered("topk", self);
  dim = wrap_dim("topk", dim, self.ndim());
  FL_CHECK(0 <= k && k <= size_of(self, dim), RuntimeError,
           "topk: k must be in [0, {}], the size of dim {}, got {}", size_of(self, dim), dim, k);
  Ints sizes(self.sizes());
  if (!sizes.empty()) sizes[size_t(dim)] = k;
  return sizes;
}

void topk_kernel(Tensor& values, Tensor& indices, const Tensor& self, int64_t k, int64_t dim,
                 bool largest, bool) {
  dim = wrap_dim("topk", dim, self.ndim());
  if (values.numel() == 0 || k == 0) return;
  Rows r(self, dim);
  RowResult v(values, dim, true), i(indices, dim, true);
  topk_rows(self.dtype(), r.x->data, r.rows, r.cols, k, largest, v.data(), indices_of(i));
}

Ints kthvalue_shape(const Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  Ints sizes = without_dim("kthvalue", self, dim, keepdim);
  dim = wrap_dim("kthvalue", dim, self.ndim());
  FL_CHECK(1 <= k && k <= size_of(self, dim), RuntimeError,
           "kthvalue: k must be in [1, {}], the size of dim {}, got {}", size_of(self, dim), dim,
           k);
  return sizes;
}

void kthvalue_kernel(Tensor& values, Tensor& indices, const Tensor& self, int64_t k, int64_t dim,
                     bool) {
  Selected s(self, wrap_dim("kthvalue", dim, self.ndim()));
  if (s.rows)
    kthvalue_rows(self.dtype(), s.x->data, s.rows, s.cols, k, values->data,
                  indices.data<int64_t>());
}

Ints median_shape(const Tensor& self, int64_t dim, bool keepdim) {
  return without_dim("median", self, dim, keepdim);
}

namespace {

void medians(Tensor& values, Tensor& indices, const Tensor& self, int64_t dim, bool ignore_nan) {
  Selected s(self, wrap_dim("median", dim, self.ndim()));
  if (s.rows)
    median_rows(self.dtype(), s.x->data, s.rows, s.cols, ignore_nan, values->data,
                indices.data<int64_t>());
}

Tensor median_of_all(std::string_view op, const Tensor& self, bool ignore_nan) {
  check_ordered(op, self);
  Tensor value = new_tensor({}, self.dtype(), self.device());
  if (!has_memory(self)) return value;
  if (self.numel() == 0) {
    FL_CHECK(is_inexact(self.dtype()), RuntimeError, "{}: an empty tensor of {} has no median", op,
             self.dtype());
    return fill_into(value, Scalar(std::numeric_limits<double>::quiet_NaN()));
  }
  Tensor x = dense(self);
  int64_t index;
  median_rows(x.dtype(), x->data, 1, x.numel(), ignore_nan, value->data, &index);
  return value;
}

}  // namespace

void median_kernel(Tensor& values, Tensor& indices, const Tensor& self, int64_t dim, bool) {
  medians(values, indices, self, dim, false);
}
void nanmedian_kernel(Tensor& values, Tensor& indices, const Tensor& self, int64_t dim, bool) {
  medians(values, indices, self, dim, true);
}
Tensor median_impl(const Tensor& self) { return median_of_all("median", self, false); }
Tensor nanmedian_impl(const Tensor& self) { return median_of_all("nanmedian", self, true); }

Ints mode_shape(const Tensor& self, int64_t dim, bool keepdim) {
  return without_dim("mode", self, dim, keepdim);
}

void mode_kernel(Tensor& values, Tensor& indices, const Tensor& self, int64_t dim, bool) {
  Selected s(self, wrap_dim("mode", dim, self.ndim()));
  if (s.rows)
    mode_rows(self.dtype(), s.x->data, s.rows, s.cols, values->data, indices.data<int64_t>());
}

}  // namespace flambeau::ops
