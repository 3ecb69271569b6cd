// Running sums, products and extremes: any dim comes down to [outer][n][inner].
#include "flambeau/kernels/cpu/scan.h"

#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

Tensor cast(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor copy = new_like(t, dtype);
  copy_elements(copy, t);
  return copy;
}

// Fills `out`, and `out2` where the scan has indices.
void run_scan(ScanOp op, const Tensor& self, int64_t dim, const Tensor& out, const Tensor* out2) {
  if (!has_memory(out) || !out.numel()) return;
  Tensor x = dense(self);
  ScanArgs args{};
  args.op = op;
  args.dtype = x.dtype();
  args.outer = args.n = args.inner = 1;
  for (int64_t d = 0; d < x.ndim(); d++) {
    (d < dim ? args.outer : d == dim ? args.n : args.inner) *= x.size(d);
  }
  args.x_outer = args.n * args.inner;
  args.x_n = args.inner;
  args.x_inner = 1;
  args.x = x->data;
  args.out = out->data;
  args.out2 = out2 ? (*out2)->data : nullptr;
  flambeau::scan(args);
}

DType scan_dtype(std::string_view name, ScanOp op, DType dtype) {
  int made = scan_result(op, dtype);
  FL_CHECK(made >= 0, NotImplementedError, "{}: not defined for {}", name, dtype);
  return DType(made);
}

// Bool with dtype=bool and short integers are summed in int64 and cast at the end.
Tensor scan_to(std::string_view name, ScanOp op, const Tensor& self, int64_t dim, DType dtype) {
  dim = wrap_dim(name, dim, self.ndim());
  Tensor x = has_memory(self) ? cast(self, dtype) : self;
  Tensor out = new_tensor(self.sizes(), scan_dtype(name, op, dtype), self.device());
  run_scan(op, x, dim, out, nullptr);
  return cast(out, dtype);
}

std::tuple<Tensor, Tensor> scan_indices(std::string_view name, ScanOp op, const Tensor& self,
                                        int64_t dim) {
  dim = wrap_dim(name, dim, self.ndim());
  Tensor values = new_tensor(self.sizes(), scan_dtype(name, op, self.dtype()), self.device());
  Tensor indices = new_tensor(self.sizes(), DType::Int64, self.device());
  run_scan(op, self, dim, values, &indices);
  return {values, indices};
}

}  // namespace

Tensor cumsum_impl(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return scan_to("cumsum", ScanOp::CumSum, self, dim,
                 dtype.value_or(accumulate_dtype(self.dtype())));
}

Tensor cumprod_impl(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return scan_to("cumprod", ScanOp::CumProd, self, dim,
                 dtype.value_or(accumulate_dtype(self.dtype())));
}

std::tuple<Tensor, Tensor> cummax_impl(const Tensor& self, int64_t dim) {
  return scan_indices("cummax", ScanOp::CumMax, self, dim);
}

std::tuple<Tensor, Tensor> cummin_impl(const Tensor& self, int64_t dim) {
  return scan_indices("cummin", ScanOp::CumMin, self, dim);
}

Tensor logcumsumexp_impl(const Tensor& self, int64_t dim) {
  if (is_complex(self.dtype())) {
    dim = wrap_dim("logcumsumexp", dim, self.ndim());
    if (self.ndim() == 0 || self.numel() == 0) return clone(self);
    std::vector<Tensor> sums;
    for (int64_t i = 0; i < self.size(dim); i++) {
      Tensor next = narrow(self, dim, i, 1);
      sums.push_back(i ? logaddexp(sums.back(), next) : next);
    }
    return cat(sums, dim);
  }
  return scan_to("logcumsumexp", ScanOp::LogCumSumExp, self, dim, self.dtype());
}

}  // namespace flambeau::ops
