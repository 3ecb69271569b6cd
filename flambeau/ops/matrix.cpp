// Shapes of matrix products, and their calls of the one kernel.
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/gemm.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

void check_pair(std::string_view op, const Tensor& a, std::string_view a_name, const Tensor& b,
                std::string_view b_name) {
  FL_CHECK(a.dtype() == b.dtype(), RuntimeError, "{}: {} is {}, {} is {}; cast one with .to(dtype)",
           op, a_name, a.dtype(), b_name, b.dtype());
}

void check_dims(std::string_view op, const Tensor& t, std::string_view name, int64_t ndim) {
  FL_CHECK(t.ndim() == ndim, RuntimeError, "{}: {} must have {} dims, got shape {}", op, name, ndim,
           t.sizes());
}

void check_inner(std::string_view op, const Tensor& a, int64_t inner_a, const Tensor& b,
                 int64_t inner_b) {
  FL_CHECK(inner_a == inner_b, RuntimeError, "{}: inner sizes must match, got {} @ {}", op,
           a.sizes(), b.sizes());
}

void check_grows_to(std::string_view op, const Tensor& self, IntList sizes) {
  bool fits = self.ndim() <= int64_t(sizes.size());
  for (int64_t d = 1; fits && d <= self.ndim(); d++) {
    fits = self.size(-d) == 1 || self.size(-d) == sizes[sizes.size() - size_t(d)];
  }
  FL_CHECK(fits, RuntimeError, "{}: self of shape {} does not broadcast to the product's {}", op,
           self.sizes(), sizes);
}

// Fills in the operands of a product; each may be strided.
GemmArgs product(const Tensor& out, const Tensor& a, const Tensor& b) {
  GemmArgs args{};
  args.dtype = out.dtype();
  args.m = a.size(-2);
  args.k = a.size(-1);
  args.n = b.size(-1);
  args.a = a->data;
  args.a_row = a.stride(-2);
  args.a_col = a.stride(-1);
  args.b = b->data;
  args.b_row = b.stride(-2);
  args.b_col = b.stride(-1);
  args.c = out->data;
  args.c_row = args.n;
  return args;
}

// beta * self into out first, so that the kernel can add to it. A beta of zero ignores self, NaN
// and all.
void start_from(Tensor& out, const Tensor& self, double beta) {
  if (beta != 0 && !out.is(self)) copy_elements(out, self);
}

bool is_plain_number(const Scalar& s) { return !s.is_complex() || s.to_complex().imag() == 0; }

}  // namespace

Ints mm_shape(const Tensor& self, const Tensor& mat2) {
  check_dims("mm", self, "self", 2);
  check_dims("mm", mat2, "mat2", 2);
  check_pair("mm", self, "mat1", mat2, "mat2");
  check_inner("mm", self, self.size(1), mat2, mat2.size(0));
  return {self.size(0), mat2.size(1)};
}

void mm_product(Tensor& result, const Tensor& self, const Tensor& mat2) {
  gemm(product(result, self, mat2));
}

Ints addmm_shape(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar&,
                 const Scalar&) {
  check_dims("addmm", mat1, "mat1", 2);
  check_dims("addmm", mat2, "mat2", 2);
  check_pair("addmm", mat1, "mat1", mat2, "mat2");
  check_pair("addmm", self, "self", mat1, "mat1");
  check_inner("addmm", mat1, mat1.size(1), mat2, mat2.size(0));
  Ints sizes{mat1.size(0), mat2.size(1)};
  check_grows_to("addmm", self, sizes);
  return sizes;
}

void addmm_product(Tensor& result, const Tensor& self, const Tensor& mat1, const Tensor& mat2,
                   const Scalar& beta, const Scalar& alpha) {
  if (!is_plain_number(alpha) || !is_plain_number(beta)) {
    NoGradGuard no_grad;
    copy_elements(result, add(mul(self, beta), mul(mm(mat1, mat2), alpha)));
    return;
  }
  start_from(result, self, beta.to_double());
  GemmArgs args = product(result, mat1, mat2);
  args.alpha = alpha.to_double();
  args.beta = beta.to_double();
  gemm(args);
}

Ints mv_shape(const Tensor& self, const Tensor& vec) {
  check_dims("mv", self, "self", 2);
  check_dims("mv", vec, "vec", 1);
  check_pair("mv", self, "mat", vec, "vec");
  check_inner("mv", self, self.size(1), vec, vec.size(0));
  return {self.size(0)};
}

namespace {

GemmArgs column_product(const Tensor& out, const Tensor& mat, const Tensor& vec) {
  Tensor column = alias(vec, {{vec.size(0), 1}, {vec.stride(0), 1}, vec->offset()});
  return product(out, mat, column);
}

}  // namespace

void mv_product(Tensor& result, const Tensor& self, const Tensor& vec) {
  gemm(column_product(result, self, vec));
}

Ints addmv_shape(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar&,
                 const Scalar&) {
  check_dims("addmv", mat, "mat", 2);
  check_dims("addmv", vec, "vec", 1);
  check_pair("addmv", mat, "mat", vec, "vec");
  check_pair("addmv", self, "self", mat, "mat");
  check_inner("addmv", mat, mat.size(1), vec, vec.size(0));
  Ints sizes{mat.size(0)};
  check_grows_to("addmv", self, sizes);
  return sizes;
}

void addmv_product(Tensor& result, const Tensor& self, const Tensor& mat, const Tensor& vec,
                   const Scalar& beta, const Scalar& alpha) {
  start_from(result, self, beta.to_double());
  GemmArgs args = column_product(result, mat, vec);
  args.alpha = alpha.to_double();
  args.beta = beta.to_double();
  gemm(args);
}

Ints dot_shape(const Tensor& self, const Tensor& tensor) {
  check_dims("dot", self, "self", 1);
  check_dims("dot", tensor, "tensor", 1);
  check_pair("dot", self, "self", tensor, "tensor");
  check_inner("dot", self, self.size(0), tensor, tensor.size(0));
  return {};
}

void dot_product(Tensor& result, const Tensor& self, const Tensor& tensor) {
  Tensor row = alias(self, {{1, self.size(0)}, {1, self.stride(0)}, self->offset()});
  gemm(column_product(result, row, tensor));
}

namespace {

void check_batches(std::string_view op, const Tensor& a, std::string_view a_name, const Tensor& b,
                   std::string_view b_name) {
  check_dims(op, a, a_name, 3);
  check_dims(op, b, b_name, 3);
  check_pair(op, a, a_name, b, b_name);
  FL_CHECK(a.size(0) == b.size(0), RuntimeError, "{}: batch sizes must match, got {} @ {}", op,
           a.sizes(), b.sizes());
  check_inner(op, a, a.size(2), b, b.size(1));
}

void batched(Tensor& result, const Tensor& a, const Tensor& b, double alpha, double beta) {
  GemmArgs args = product(result, a, b);
  args.alpha = alpha;
  args.beta = beta;
  gemm_batched(args, a.size(0), a.stride(0), b.stride(0), args.m * args.n);
}

}  // namespace

Ints bmm_shape(const Tensor& self, const Tensor& mat2) {
  check_batches("bmm", self, "self", mat2, "mat2");
  return {self.size(0), self.size(1), mat2.size(2)};
}

void bmm_product(Tensor& result, const Tensor& self, const Tensor& mat2) {
  batched(result, self, mat2, 1, 0);
}

Ints baddbmm_shape(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar&,
                   const Scalar&) {
  check_batches("baddbmm", batch1, "batch1", batch2, "batch2");
  check_pair("baddbmm", self, "self", batch1, "batch1");
  Ints sizes{batch1.size(0), batch1.size(1), batch2.size(2)};
  check_grows_to("baddbmm", self, sizes);
  return sizes;
}

void baddbmm_product(Tensor& result, const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                     const Scalar& beta, const Scalar& alpha) {
  start_from(result, self, beta.to_double());
  batched(result, batch1, batch2, alpha.to_double(), beta.to_double());
}

Ints linear_shape(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  FL_CHECK(weight.ndim() == 2 || weight.ndim() == 1, RuntimeError,
           "linear: weight must have 1 or 2 dims, got shape {}", weight.sizes());
  FL_CHECK(
      input.ndim() >= 1 && input.size(-1) == weight.size(-1), RuntimeError,
      "linear: inner sizes must match, expected input [*, {}] for a weight of shape {}, got {}",
      weight.size(-1), weight.sizes(), input.sizes());
  check_pair("linear", input, "input", weight, "weight");
  Ints sizes(input.sizes());
  if (weight.ndim() == 1)
    sizes.erase(sizes.size() - 1);
  else
    sizes[sizes.size() - 1] = weight.size(0);
  if (bias.defined()) {
    check_pair("linear", input, "input", bias, "bias");
    check_grows_to("linear", bias, sizes);
  }
  return sizes;
}

DType linear_dtype(const Tensor& input, const Tensor&, const Tensor&) { return input.dtype(); }

void linear_product(Tensor& result, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  // Rows of the input at one distance: a matrix as it is, anything else made dense.
  Tensor x = input.ndim() == 2 ? input : dense(input);
  int64_t in = weight.size(-1), out = weight.ndim() == 2 ? weight.size(0) : 1;
  GemmArgs args{};
  args.dtype = result.dtype();
  args.m = out ? result.numel() / out : 0;
  args.n = out;
  args.k = in;
  args.a = x->data;
  args.a_row = input.ndim() == 2 ? x.stride(0) : in;
  args.a_col = input.ndim() == 2 ? x.stride(1) : 1;
  args.b = weight->data;
  args.b_row = weight.stride(-1);
  args.b_col = weight.ndim() == 2 ? weight.stride(0) : 1;
  args.c = result->data;
  args.c_row = out;
  if (bias.defined() && bias.ndim() == 1 && bias.numel() == out && weight.ndim() == 2) {
    Tensor b = dense(bias);
    args.bias = b->data;
    return gemm(args);
  }
  if (bias.defined()) {
    copy_elements(result, bias);
    args.beta = 1;
  }
  gemm(args);
}

namespace {

// Both batches broadcast to one, as (b, n, m) tensors.
Tensor matmul_batches(const Tensor& a, const Tensor& b) {
  Ints batch_a(a.sizes()), batch_b(b.sizes());
  batch_a.resize(batch_a.size() - 2);
  batch_b.resize(batch_b.size() - 2);
  Tensor shape_a =
      new_strided(batch_a, Ints(batch_a.size()), DType::Bool, Device{DeviceType::Meta});
  Tensor shape_b =
      new_strided(batch_b, Ints(batch_b.size()), DType::Bool, Device{DeviceType::Meta});
  Ints batch = broadcast_sizes("matmul", {&shape_a, &shape_b});
  int64_t count = numel_of(batch);
  auto spread = [&](const Tensor& t) {
    Ints full(batch);
    full.push_back(t.size(-2));
    full.push_back(t.size(-1));
    return reshape(expand(t, full), {count, t.size(-2), t.size(-1)});
  };
  Ints sizes(batch);
  sizes.push_back(a.size(-2));
  sizes.push_back(b.size(-1));
  return reshape(bmm(spread(a), spread(b)), sizes);
}

}  // namespace

Tensor matmul_impl(const Tensor& self, const Tensor& other) {
  int64_t a = self.ndim(), b = other.ndim();
  if (a == 2 && b == 2) return mm(self, other);
  FL_CHECK(a > 0 && b > 0, RuntimeError, "matmul: both operands need at least one dim, got {} @ {}",
           self.sizes(), other.sizes());
  check_pair("matmul", self, "self", other, "other");
  check_inner("matmul", self, self.size(-1), other, other.size(b == 1 ? 0 : -2));
  if (a == 1 && b == 1) return dot(self, other);
  if (a == 2 && b == 1) return mv(self, other);
  if (a == 1) return squeeze(matmul(unsqueeze(self, 0), other), -2);
  if (b == 1) return squeeze(matmul(self, unsqueeze(other, -1)), -1);
  if (b == 2) {  // one matrix for the whole batch: one product
    Ints sizes(self.sizes());
    sizes[sizes.size() - 1] = other.size(1);
    return reshape(
        mm(reshape(self, {numel_of(IntList(self->sizes, size_t(a - 1))), self.size(-1)}), other),
        sizes);
  }
  return matmul_batches(self, other);
}

Tensor bilinear_impl(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                     const Tensor& bias) {
  FL_CHECK(
      weight.ndim() == 3 && input1.ndim() > 0 && input1.ndim() == input2.ndim() &&
          input1.size(-1) == weight.size(1) && input2.size(-1) == weight.size(2),
      RuntimeError,
      "bilinear: a weight of shape (out, n, m) needs inputs (*, n) and (*, m), got {}, {} and {}",
      weight.sizes(), input1.sizes(), input2.sizes());
  int64_t out = weight.size(0), n = weight.size(1), m = weight.size(2);
  Tensor x = reshape(input1, {numel_of(IntList(input1->sizes, size_t(input1.ndim() - 1))), n});
  Tensor y = reshape(input2, {x.size(0), m});
  Tensor half =
      reshape(matmul(x, reshape(permute(weight, {1, 0, 2}), {n, out * m})), {x.size(0), out, m});
  Ints sizes(input1.sizes());
  sizes[sizes.size() - 1] = out;
  Tensor result = reshape(sum(half * unsqueeze(y, 1), IntList{-1}, false, input1.dtype()), sizes);
  return bias.defined() ? result + bias : result;
}

Tensor outer_impl(const Tensor& self, const Tensor& vec2) {
  check_dims("outer", self, "self", 1);
  check_dims("outer", vec2, "vec2", 1);
  return mul(unsqueeze(self, 1), vec2);
}

Tensor vdot_impl(const Tensor& self, const Tensor& other) { return dot(conj(self), other); }

}  // namespace flambeau::ops
