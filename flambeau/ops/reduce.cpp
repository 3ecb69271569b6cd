// The reduction engine: any set of dims comes down to [outer][n][inner], the form the kernels know.
#include "flambeau/kernels/cpu/reduce.h"

#include "flambeau/ops/runtime.h"

namespace flambeau {

namespace {

// Which dims go; none named means all.
uint64_t dim_mask(std::string_view op, const Tensor& self, const Dims& dims) {
  uint64_t all = self.ndim() == 64 ? ~uint64_t{0} : (uint64_t{1} << self.ndim()) - 1;
  if (!dims || dims->empty()) return all;
  uint64_t mask = 0;
  for (int64_t d : *dims) {
    uint64_t bit = uint64_t{1} << wrap_dim(op, d, self.ndim());
    FL_CHECK(!(mask & bit), RuntimeError, "{}: a dim may be named once, got dim={}", op, *dims);
    mask |= bit;
  }
  return mask & all;
}

Ints reduced_sizes(const Tensor& self, uint64_t mask, bool keepdim) {
  Ints sizes;
  for (int64_t d = 0; d < self.ndim(); d++) {
    bool gone = mask >> d & 1;
    if (!gone)
      sizes.push_back(self.size(d));
    else if (keepdim)
      sizes.push_back(1);
  }
  return sizes;
}

// Sizes and strides as one run each: kept dims before, the reduced ones, kept dims after. False if
// that needs a copy.
struct Form {
  int64_t outer = 1, n = 1, inner = 1;
  int64_t x_outer = 0, x_n = 0, x_inner = 0;
};

// Joins dim (size, stride) in front of a run; false if they do not join.
bool join(int64_t& run_size, int64_t& run_stride, int64_t size, int64_t stride) {
  if (size == 1) return true;
  if (run_size == 1) {
    run_size = size;
    run_stride = stride;
    return true;
  }
  if (stride != run_size * run_stride) return false;
  run_size *= size;
  return true;
}

bool find_form(const Tensor& self, uint64_t mask, Form& f) {
  int part = 0;  // 0: inner, 1: reduced, 2: outer, walking from the last dim
  for (int64_t d = self.ndim() - 1; d >= 0; d--) {
    if (self.size(d) == 1) continue;
    bool gone = mask >> d & 1;
    if (gone && part == 0) part = 1;
    if (!gone && part == 1) part = 2;
    if (gone && part == 2) return false;
    int64_t size = self.size(d), stride = self.stride(d);
    bool ok = part == 0   ? join(f.inner, f.x_inner, size, stride)
              : part == 1 ? join(f.n, f.x_n, size, stride)
                          : join(f.outer, f.x_outer, size, stride);
    if (!ok) return false;
  }
  return true;
}

// A contiguous copy with the reduced dims last.
Tensor reduced_last(const Tensor& self, uint64_t mask, Form& f) {
  Geometry g;
  Ints sizes;
  for (int round = 0; round < 2; round++) {
    for (int64_t d = 0; d < self.ndim(); d++) {
      if (int(mask >> d & 1) != round) continue;
      g.sizes.push_back(self.size(d));
      g.strides.push_back(self.stride(d));
      (round ? f.n : f.outer) *= self.size(d);
    }
  }
  g.offset = self->offset();
  f.x_outer = f.n;
  f.x_n = 1;
  return dense(alias(self, g));
}

Tensor cast_to(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor copy = new_like(t, dtype);
  copy_elements(copy, t);
  return copy;
}

void run(std::string_view op, ReduceOp body, const Tensor& self, uint64_t mask, const Tensor& out,
         const Tensor* out2, const Scalar& p) {
  // The kernel takes some input types as they are; others are cast to the result's.
  int native = reduce_result(body, self.dtype());
  Tensor x = self;
  if (native != int(out.dtype())) x = cast_to(self, out.dtype());
  if (native != int(out.dtype())) {
    FL_CHECK(reduce_result(body, x.dtype()) == int(out.dtype()), NotImplementedError,
             "{}: not defined for {}", op, self.dtype());
  }
  Form f;
  Tensor moved = x;
  if (!find_form(x, mask, f)) {
    f = Form{};
    moved = reduced_last(x, mask, f);
  }
  ReduceArgs args{};
  args.op = body;
  args.dtype = x.dtype();
  args.out_dtype = out.dtype();
  args.outer = f.outer;
  args.n = f.n;
  args.inner = f.inner;
  args.x_outer = f.x_outer;
  args.x_n = f.x_n;
  args.x_inner = f.x_inner;
  args.x = moved->data;
  args.out = out->data;
  args.out2 = out2 ? (*out2)->data : nullptr;
  args.p = p.to_double();
  flambeau::reduce(args);
}

}  // namespace

Tensor reduce_one(std::string_view op, ReduceOp body, const Tensor& self, const Dims& dims,
                  bool keepdim, DType dtype, const Scalar& p) {
  uint64_t mask = dim_mask(op, self, dims);
  Tensor out = new_tensor(reduced_sizes(self, mask, keepdim), dtype, self.device());
  if (has_memory(out) && out.numel()) run(op, body, self, mask, out, nullptr, p);
  return out;
}

std::tuple<Tensor, Tensor> reduce_two(std::string_view op, ReduceOp body, const Tensor& self,
                                      const Dims& dims, bool keepdim, DType dtype, DType dtype2,
                                      const Scalar& p) {
  uint64_t mask = dim_mask(op, self, dims);
  Ints sizes = reduced_sizes(self, mask, keepdim);
  Tensor out = new_tensor(sizes, dtype, self.device()),
         out2 = new_tensor(sizes, dtype2, self.device());
  if (has_memory(out) && out.numel()) run(op, body, self, mask, out, &out2, p);
  return {out, out2};
}

}  // namespace flambeau
