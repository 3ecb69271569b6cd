// The reduction engine: any set of dims comes down to [outer][reps][n][inner], the form
// the kernels know.
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

// Sizes and strides as runs: two of kept dims, two of reduced ones. False if that needs a copy.
struct Form {
  int64_t outer = 1, reps = 1, n = 1, inner = 1;
  int64_t x_outer = 0, x_reps = 0, x_n = 0, x_inner = 0;
};

// Joins dim (size, stride) in front of a run; false if they do not join.
bool join(int64_t& run_size, int64_t& run_stride, int64_t size, int64_t stride) {
  if (run_size == 1) {
    run_size = size;
    run_stride = stride;
    return true;
  }
  if (stride != run_size * run_stride) return false;
  run_size *= size;
  return true;
}

// Walks from the last dim. Results keep the order of the kept dims, indices that of the reduced
// ones, so once the second run of a kind is begun the first takes no more.
bool find_form(const Tensor& self, uint64_t mask, Form& f) {
  for (int64_t d = self.ndim() - 1; d >= 0; d--) {
    int64_t size = self.size(d), stride = self.stride(d);
    if (size == 1) continue;
    bool ok;
    if (mask >> d & 1) {
      ok = (f.reps == 1 && join(f.n, f.x_n, size, stride)) || join(f.reps, f.x_reps, size, stride);
    } else {
      ok = (f.outer == 1 && f.n == 1 && join(f.inner, f.x_inner, size, stride)) ||
           join(f.outer, f.x_outer, size, stride);
    }
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

Tensor cast_to(Tensor t, DType dtype) {
  if (FL_LIKELY(t.dtype() == dtype)) return t;
  Tensor copy = new_like(t, dtype);
  copy_elements(copy, t);
  return copy;
}

// Without elements there is no largest one.
void check_elements(std::string_view op, ReduceOp body, const Tensor& self, uint64_t mask,
                    const Dims& dims) {
  switch (body) {
    case ReduceOp::AMax:
    case ReduceOp::AMin:
    case ReduceOp::AMinMax:
    case ReduceOp::MaxIndex:
    case ReduceOp::MinIndex:
    case ReduceOp::ArgMax:
    case ReduceOp::ArgMin:
      break;
    default:
      return;
  }
  bool all = !dims || dims->empty(), finds = body == ReduceOp::ArgMax || body == ReduceOp::ArgMin;
  FL_CHECK(!all || self.numel() || finds, RuntimeError,
           "{}: at least one element is needed, got shape {}; name a dim of other size than 0", op,
           self.sizes());
  for (int64_t d = 0; d < self.ndim(); d++) {
    FL_CHECK(!(mask >> d & 1) || self.size(d), IndexError,
             "{}: dim {} must have a size other than 0, got shape {}", op, d, self.sizes());
  }
}

// The input as the kernel takes it, and the dtype that the kernel makes of it: some input types are
// reduced as they are, others are cast to the result's.
struct Chosen {
  Tensor cast;
  const Tensor* x;
  DType made;

  Chosen(std::string_view op, ReduceOp body, const Tensor& self, DType dtype)
      : x(&self), made(dtype) {
    int found = reduce_result(body, self.dtype());
    if (FL_LIKELY(found == int(dtype))) return;
    cast = cast_to(self, dtype);
    x = &cast;
    found = reduce_result(body, dtype);
    FL_CHECK(found >= 0, NotImplementedError, "{}: not defined for {}", op, self.dtype());
    made = DType(found);
  }
};

void run(ReduceOp body, const Tensor& x, uint64_t mask, const Tensor& out, const Tensor* out2,
         const Scalar& p) {
  Form f;
  Tensor moved;
  if (FL_UNLIKELY(!find_form(x, mask, f))) {
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
  args.reps = f.reps;
  args.x_reps = f.x_reps;
  args.x = moved.defined() ? moved->data : x->data;
  args.out = out->data;
  args.out2 = out2 ? (*out2)->data : nullptr;
  args.p = p.to_double();
  flambeau::reduce(args);
}

}  // namespace

Tensor reduce_one(std::string_view op, ReduceOp body, const Tensor& self, const Dims& dims,
                  bool keepdim, DType dtype, const Scalar& p) {
  uint64_t mask = dim_mask(op, self, dims);
  FL_CHECK(body != ReduceOp::Mean || is_inexact(dtype), RuntimeError,
           "{}: a floating or complex dtype is needed, got {}; cast or give dtype", op, dtype);
  check_elements(op, body, self, mask, dims);
  Ints sizes = reduced_sizes(self, mask, keepdim);
  if (!has_memory(self) || !numel_of(sizes)) return new_tensor(sizes, dtype, self.device());
  Chosen chosen(op, body, self, dtype);
  Tensor out = new_tensor(sizes, chosen.made, self.device());
  run(body, *chosen.x, mask, out, nullptr, p);
  return cast_to(std::move(out), dtype);
}

std::tuple<Tensor, Tensor> reduce_two(std::string_view op, ReduceOp body, const Tensor& self,
                                      const Dims& dims, bool keepdim, DType dtype, DType dtype2,
                                      const Scalar& p) {
  uint64_t mask = dim_mask(op, self, dims);
  check_elements(op, body, self, mask, dims);
  Ints sizes = reduced_sizes(self, mask, keepdim);
  Tensor out2 = new_tensor(sizes, dtype2, self.device());
  if (!has_memory(self) || !out2.numel()) return {new_tensor(sizes, dtype, self.device()), out2};
  Chosen chosen(op, body, self, dtype);
  Tensor out = new_tensor(sizes, chosen.made, self.device());
  run(body, *chosen.x, mask, out, &out2, p);
  return {cast_to(std::move(out), dtype), std::move(out2)};
}

}  // namespace flambeau
