// What generated op functions call: making results, writing into existing tensors, views and the
// door's checks.
#pragma once
#include "flambeau/generated/ops.h"
#include "flambeau/kernels/reduce.h"
#include "flambeau/ops/pointwise.h"
#include "flambeau/ops/slow.h"
#include "flambeau/tape/node.h"

namespace flambeau {

// ---- dtypes ----
DType promoted_dtype(Inputs inputs);
// Sums of integers and bools are int64.
inline DType accumulate_dtype(DType t) { return is_inexact(t) ? t : DType::Int64; }

// The largest finite number of a dtype, as a double.
double largest_number(DType dtype);
// A number written into a tensor must lie in the dtype's range; unsigned ones take -n for 2^bits -
// n.
void check_fits(std::string_view op, const Scalar& value, DType dtype);

// ---- results ----
inline bool has_memory(const Tensor& t) {
  return t.device().type != DeviceType::Meta && t.defined();
}
// For kernels that take null for what is absent.
inline char* data_or_null(const Tensor& t) { return t.defined() ? t->data : nullptr; }
Tensor dense_copy(const Tensor& t);
// The tensor itself if contiguous, else a copy. No tape. Borrows what it was made of: to count the
// references of all operands up and down again takes as long as a small kernel.
class Dense {
 public:
  explicit Dense(const Tensor& t) : given_(&t) {
    if (FL_UNLIKELY(t.defined() && !t->contiguous())) copy_ = dense_copy(t);
  }
  Dense(const Dense&) = delete;
  operator const Tensor&() const { return FL_UNLIKELY(copy_.defined()) ? copy_ : *given_; }
  TensorImpl* operator->() const { return static_cast<const Tensor&>(*this).impl(); }

 private:
  const Tensor* given_;
  Tensor copy_;
};
inline Dense dense(const Tensor& t) { return Dense(t); }
// A contiguous copy of `base`, broadcast to `sizes`, that a kernel then changes.
Tensor base_copy(const Tensor& base, IntList sizes);
Tensor make_view(const Tensor& of, const Geometry& geometry);
// The same memory as another dtype; the geometry counts in elements of that.
Tensor make_view_as(const Tensor& of, DType dtype, const Geometry& geometry);
std::vector<Tensor> make_views(const Tensor& of, const std::vector<Geometry>& geometries);

// ---- in place and out= ----
// Several elements of an expanded tensor share memory: it can only be read.
void check_unshared(std::string_view op, const Tensor& written);
// self[...] = value; shape and dtype must fit.
void write_into(std::string_view op, const Tensor& self, const Tensor& value);
// Neither inputs nor outs may require grad while the tape is on; all on one device.
void check_out(std::string_view op, Inputs inputs, Inputs outs);
// Puts a result into the user's tensor: resized if need be; `cast` allows another dtype of the same
// or a higher kind.
void give_out(std::string_view op, Tensor& out, const Tensor& value, bool cast);
void resize_out(std::string_view op, Tensor& out, IntList sizes);

// ---- reductions ----
using Dims = std::optional<IntList>;
inline Dims dim_list(const Dims& dims) { return dims; }
// The dim of a single-dim reduction; the list outlives the call that uses it.
struct OneDim {
  int64_t dim;
  bool given;
  explicit OneDim(int64_t d) : dim(d), given(true) {}
  explicit OneDim(std::optional<int64_t> d) : dim(d.value_or(0)), given(d.has_value()) {}
  operator Dims() const { return given ? Dims(IntList(&dim, 1)) : std::nullopt; }
};
inline OneDim dim_list(int64_t dim) { return OneDim(dim); }
inline OneDim dim_list(std::optional<int64_t> dim) { return OneDim(dim); }

Tensor reduce_one(std::string_view op, ReduceOp body, const Tensor& self, const Dims& dims,
                  bool keepdim, DType dtype, const Scalar& p);
std::tuple<Tensor, Tensor> reduce_two(std::string_view op, ReduceOp body, const Tensor& self,
                                      const Dims& dims, bool keepdim, DType dtype, DType dtype2,
                                      const Scalar& p);

// ---- the slow path of in-place forms ----
template <class... A>
Tensor& slow_inplace(const OpInfo& op, Tensor& (*run)(Tensor&, A...), Tensor& self,
                     std::type_identity_t<A>... args) {
  Value values[sizeof...(A) + 1];
  int i = 0;
  Boxed<Tensor&>::set(values[i++], self);
  ((Boxed<A>::set(values[i++], args)), ...);
  Returns results;
  if (detail::ask_levels(op, values, results)) return self;
  Restore<uint32_t> deeper(tls.depth, tls.depth + 1);
  return run(self, args...);
}

inline bool slow_mode_list(TensorList list) {
  for (const Tensor& t : list) {
    if (t.defined() && (t->flags & kSlow)) return true;
  }
  return false;
}

}  // namespace flambeau
