// Reductions whose dtypes, defaults or checks are more than a row of the table can say.
#include <cstring>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

constexpr double kInfinity = __builtin_inf();

// Truth values are bool, of uint8 they are uint8.
Tensor truth(std::string_view op, ReduceOp body, const Tensor& self, const Dims& dims,
             bool keepdim) {
  DType dtype = self.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool;
  return reduce_one(op, body, self, dims, keepdim, dtype, Scalar());
}

}  // namespace

Tensor all_impl(const Tensor& self) { return truth("all", ReduceOp::All, self, {}, false); }
Tensor all_impl(const Tensor& self, int64_t dim, bool keepdim) {
  return truth("all", ReduceOp::All, self, IntList(&dim, 1), keepdim);
}
Tensor all_impl(const Tensor& self, std::optional<IntList> dim, bool keepdim) {
  return truth("all", ReduceOp::All, self, dim, keepdim);
}

Tensor any_impl(const Tensor& self) { return truth("any", ReduceOp::Any, self, {}, false); }
Tensor any_impl(const Tensor& self, int64_t dim, bool keepdim) {
  return truth("any", ReduceOp::Any, self, IntList(&dim, 1), keepdim);
}
Tensor any_impl(const Tensor& self, std::optional<IntList> dim, bool keepdim) {
  return truth("any", ReduceOp::Any, self, dim, keepdim);
}

Tensor max_other_impl(const Tensor& self, const Tensor& other) { return maximum(self, other); }
Tensor min_other_impl(const Tensor& self, const Tensor& other) { return minimum(self, other); }

namespace {

void check_spread(std::string_view op, const Tensor& self) {
  FL_CHECK(is_inexact(self.dtype()), RuntimeError,
           "{}: a floating or complex dtype is needed, got {}", op, self.dtype());
}

Tensor spread(std::string_view op, ReduceOp body, const Tensor& self, const Dims& dims,
              const Scalar& correction, bool keepdim) {
  check_spread(op, self);
  return reduce_one(op, body, self, dims, keepdim, real_of(self.dtype()), correction);
}

std::tuple<Tensor, Tensor> spread_and_mean(std::string_view op, ReduceOp body, const Tensor& self,
                                           const Dims& dims, const Scalar& correction,
                                           bool keepdim) {
  check_spread(op, self);
  return reduce_two(op, body, self, dims, keepdim, real_of(self.dtype()), self.dtype(), correction);
}

Scalar correction_of(const std::optional<Scalar>& given) {
  return given.value_or(Scalar(int64_t{1}));
}

}  // namespace

Tensor var_impl(const Tensor& self, bool unbiased) {
  return spread("var", ReduceOp::Var, self, {}, Scalar(unbiased), false);
}
Tensor var_impl(const Tensor& self, std::optional<IntList> dim, bool unbiased, bool keepdim) {
  return spread("var", ReduceOp::Var, self, dim, Scalar(unbiased), keepdim);
}
Tensor var_impl(const Tensor& self, std::optional<IntList> dim,
                const std::optional<Scalar>& correction, bool keepdim) {
  return spread("var", ReduceOp::Var, self, dim, correction_of(correction), keepdim);
}

Tensor std_impl(const Tensor& self, bool unbiased) {
  return spread("std", ReduceOp::Std, self, {}, Scalar(unbiased), false);
}
Tensor std_impl(const Tensor& self, std::optional<IntList> dim, bool unbiased, bool keepdim) {
  return spread("std", ReduceOp::Std, self, dim, Scalar(unbiased), keepdim);
}
Tensor std_impl(const Tensor& self, std::optional<IntList> dim,
                const std::optional<Scalar>& correction, bool keepdim) {
  return spread("std", ReduceOp::Std, self, dim, correction_of(correction), keepdim);
}

std::tuple<Tensor, Tensor> var_mean_impl(const Tensor& self, bool unbiased) {
  return spread_and_mean("var_mean", ReduceOp::VarMean, self, {}, Scalar(unbiased), false);
}
std::tuple<Tensor, Tensor> var_mean_impl(const Tensor& self, std::optional<IntList> dim,
                                         bool unbiased, bool keepdim) {
  return spread_and_mean("var_mean", ReduceOp::VarMean, self, dim, Scalar(unbiased), keepdim);
}
std::tuple<Tensor, Tensor> var_mean_impl(const Tensor& self, std::optional<IntList> dim,
                                         const std::optional<Scalar>& correction, bool keepdim) {
  return spread_and_mean("var_mean", ReduceOp::VarMean, self, dim, correction_of(correction),
                         keepdim);
}

std::tuple<Tensor, Tensor> std_mean_impl(const Tensor& self, bool unbiased) {
  return spread_and_mean("std_mean", ReduceOp::StdMean, self, {}, Scalar(unbiased), false);
}
std::tuple<Tensor, Tensor> std_mean_impl(const Tensor& self, std::optional<IntList> dim,
                                         bool unbiased, bool keepdim) {
  return spread_and_mean("std_mean", ReduceOp::StdMean, self, dim, Scalar(unbiased), keepdim);
}
std::tuple<Tensor, Tensor> std_mean_impl(const Tensor& self, std::optional<IntList> dim,
                                         const std::optional<Scalar>& correction, bool keepdim) {
  return spread_and_mean("std_mean", ReduceOp::StdMean, self, dim, correction_of(correction),
                         keepdim);
}

Tensor nansum_impl(const Tensor& self, std::optional<IntList> dim, bool keepdim,
                   std::optional<DType> dtype) {
  FL_CHECK(!is_complex(self.dtype()), RuntimeError, "nansum: real numbers are needed, got {}",
           self.dtype());
  ReduceOp body = is_float(self.dtype()) ? ReduceOp::NanSum : ReduceOp::Sum;
  return reduce_one("nansum", body, self, dim, keepdim,
                    dtype.value_or(accumulate_dtype(self.dtype())), Scalar());
}

Tensor nanmean_impl(const Tensor& self, std::optional<IntList> dim, bool keepdim,
                    std::optional<DType> dtype) {
  FL_CHECK(is_inexact(self.dtype()), RuntimeError,
           "nanmean: a floating or complex dtype is needed, got {}", self.dtype());
  return nansum(self, dim, keepdim, dtype) / sum(logical_not(isnan(self)), dim, keepdim);
}

namespace {

// The norms that look for an extreme value have none without elements.
void check_norm_elements(const Tensor& self, double ord, const Dims& dims) {
  if (self.numel() || !(ord < 0 || ord == kInfinity)) return;
  bool fits = dims && !dims->empty();
  for (size_t i = 0; fits && i < dims->size(); i++) {
    int64_t d = wrap_dim("linalg_vector_norm", (*dims)[i], self.ndim());
    fits = self.ndim() == 0 || self.size(d) != 0;
  }
  FL_CHECK(fits, RuntimeError,
           "linalg_vector_norm: a norm of order {} needs elements, got shape {}", ord,
           self.sizes());
}

}  // namespace

Tensor vector_norm_impl(const Tensor& self, const Scalar& ord, std::optional<IntList> dim,
                        bool keepdim, std::optional<DType> dtype) {
  DType in = dtype.value_or(self.dtype());
  FL_CHECK(is_inexact(self.dtype()) && is_inexact(in), RuntimeError,
           "linalg_vector_norm: floating or complex numbers are needed, got {}",
           is_inexact(self.dtype()) ? in : self.dtype());
  FL_CHECK(is_complex(self.dtype()) == is_complex(in), RuntimeError,
           "linalg_vector_norm: dtype must be {} like self, got {}",
           is_complex(self.dtype()) ? "complex" : "real", in);
  check_norm_elements(self, ord.to_double(), dim);
  return reduce_one("linalg_vector_norm", norm_op(ord.to_double()), to(self, in), dim, keepdim,
                    real_of(in), ord);
}

namespace {

Scalar order_of(const std::optional<Scalar>& p) { return p.value_or(Scalar(int64_t{2})); }

}  // namespace

Tensor norm_impl(const Tensor& self, const Scalar& p) { return linalg_vector_norm(self, p); }
Tensor norm_impl(const Tensor& self, const std::optional<Scalar>& p, DType dtype) {
  return linalg_vector_norm(self, order_of(p), {}, false, dtype);
}
Tensor norm_impl(const Tensor& self, const std::optional<Scalar>& p, IntList dim, bool keepdim) {
  return linalg_vector_norm(self, order_of(p), dim, keepdim);
}
Tensor norm_impl(const Tensor& self, const std::optional<Scalar>& p, IntList dim, bool keepdim,
                 DType dtype) {
  return linalg_vector_norm(self, order_of(p), dim, keepdim, dtype);
}

Tensor dist_impl(const Tensor& self, const Tensor& other, const Scalar& p) {
  return linalg_vector_norm(self - other, p);
}

Tensor trace_impl(const Tensor& self) {
  FL_CHECK(self.ndim() == 2, RuntimeError, "trace: self must have 2 dims, got shape {}",
           self.sizes());
  return sum(diagonal(self));
}

// Complex numbers are shifted by the largest real part.
Tensor logsumexp_impl(const Tensor& self, IntList dim, bool keepdim) {
  if (!is_complex(self.dtype()))
    return reduce_one("logsumexp", ReduceOp::LogSumExp, self, dim, keepdim,
                      to_inexact(self.dtype()), Scalar());
  Scalar zero(0.0);
  Tensor pivot = self.numel() ? amax(real(self), dim, true) : sum(real(self), dim, true);
  pivot = where(isfinite(pivot), pivot, zero);
  Tensor shifted = log(sum(exp(self - pivot), dim, keepdim));
  return shifted + (keepdim ? pivot : reshape(pivot, shifted.sizes()));
}

// ---- hashes ----

namespace {

// The dims that are reduced; an empty list stands for all.
std::vector<bool> hashed_dims(const Tensor& self, IntList dim) {
  std::vector<bool> reduced(std::max<size_t>(size_t(self.ndim()), 1), dim.empty());
  for (int64_t d : dim) reduced[size_t(wrap_dim("hash_tensor", d, self.ndim()))] = true;
  return reduced;
}

}  // namespace

DType hash_dtype(const Tensor& self, IntList, bool, int64_t mode) {
  FL_CHECK(mode == 0, RuntimeError, "hash_tensor: mode must be 0, got {}", mode);
  FL_CHECK(!is_complex(self.dtype()), RuntimeError, "hash_tensor: real numbers are needed, got {}",
           self.dtype());
  return DType::UInt64;
}

Ints hash_shape(const Tensor& self, IntList dim, bool keepdim, int64_t) {
  FL_CHECK(self.numel() > 0 || !dim.empty(), RuntimeError,
           "hash_tensor: dims are needed for an empty input of shape {}", self.sizes());
  std::vector<bool> reduced = hashed_dims(self, dim);
  Ints sizes;
  for (int64_t d = 0; d < self.ndim(); d++) {
    if (!reduced[size_t(d)])
      sizes.push_back(self.size(d));
    else if (keepdim)
      sizes.push_back(1);
  }
  return sizes;
}

void hash_kernel(Tensor& result, const Tensor& self, IntList dim, bool, int64_t) {
  std::vector<bool> reduced = hashed_dims(self, dim);
  Ints order, kept;
  for (int64_t d = 0; d < self.ndim(); d++) (reduced[size_t(d)] ? kept : order).push_back(d);
  for (int64_t d : kept) order.push_back(d);
  DType wide = is_float(self.dtype()) ? DType::Float64 : DType::Int64;
  Tensor bits = new_tensor(permute(self, order).sizes(), wide, self.device());
  copy_elements(bits, permute(self, order));
  uint64_t* hash = result.data<uint64_t>();
  int64_t rows = result.numel(), columns = rows ? self.numel() / rows : 0;
  for (int64_t r = 0; r < rows; r++) {
    hash[r] = 0;
    for (int64_t c = 0; c < columns; c++) {
      uint64_t word;
      std::memcpy(&word, bits->data + (r * columns + c) * 8, 8);
      hash[r] ^= word;
    }
  }
}

}  // namespace flambeau::ops
