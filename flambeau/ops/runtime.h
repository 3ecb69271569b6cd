// What generated op functions call: making results, writing into existing tensors, views and the
// door's checks.
#pragma once
#include "flambeau/generated/ops.h"
#include "flambeau/kernels/reduce.h"
#include "flambeau/ops/pointwise.h"
#include "flambeau/ops/shown.h"
#include "flambeau/ops/slow.h"
#include "flambeau/tape/node.h"

namespace flambeau {

// ---- dtypes ----
DType promoted_dtype(Inputs inputs);
// Sums of integers and bools are int64.
inline DType accumulate_dtype(DType t) { return is_inexact(t) ? t : DType::Int64; }
// What a row may say of its result's dtype; most look at the first tensor.
inline DType same_dtype(Inputs inputs) { return (*inputs.begin())->dtype(); }
inline DType float_dtype(Inputs inputs) { return to_inexact(same_dtype(inputs)); }
inline DType real_dtype(Inputs inputs) { return real_of(same_dtype(inputs)); }
inline DType accumulate_dtype(Inputs inputs) { return accumulate_dtype(same_dtype(inputs)); }
inline DType promote_dtype(Inputs inputs) { return promoted_dtype(inputs); }
inline DType bool_dtype(Inputs) { return DType::Bool; }
inline DType int64_dtype(Inputs) { return DType::Int64; }

// The largest finite number of a dtype, as a double.
double largest_number(DType dtype);
// A number written into a tensor must lie in the dtype's range; unsigned ones take -n for 2^bits -
// n.
void check_fits(std::string_view op, const Scalar& value, DType dtype);

// ---- results ----
inline bool has_memory(const Tensor& t) {
  return t.device().type != DeviceType::Meta && t.defined();
}
// A structured op's outputs, filled by its kernel where they have memory.
template <class Fill>
Tensor filled(Tensor out, const Fill& fill) {
  if (has_memory(out)) fill(out);
  return out;
}
template <class... T, class Fill>
std::tuple<T...> filled(std::tuple<T...> outs, const Fill& fill) {
  if (has_memory(std::get<0>(outs))) std::apply(fill, outs);
  return outs;
}
// May values be looked at? Not those of meta tensors, nor while a call is mapped over a batch.
inline bool has_values(const Tensor& t) { return has_memory(t) && !(t->flags & kBatched); }
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
// How out= may lie to the inputs. Anywhere: results are complete before they are written. The
// others are for what torch refuses, where it writes while it reads. Aligned: not over part of an
// input. Apart: over no input. Based: as Apart, but for the first input, which the result starts
// from.
enum class Out : uint8_t { Anywhere, Aligned, Apart, Based };
// A tensor or a list of them.
struct OutInput {
  TensorList tensors;
  OutInput(const Tensor& t) : tensors(&t, 1) {}
  OutInput(TensorList list) : tensors(list) {}
};
// Neither inputs nor outs may require grad while the tape is on; their memory must fit the rule.
void check_out(std::string_view op, Inputs outs, Out rule, std::initializer_list<OutInput> inputs);
// Puts a result into the user's tensor: resized if need be; `cast` allows another dtype of the same
// or a higher kind.
Tensor& give_out(std::string_view op, Tensor& out, const Tensor& value, bool cast);
template <class... T>
std::tuple<T...> give_out(std::string_view op, std::tuple<T&...> outs,
                          const std::tuple<T...>& values, bool cast) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    (give_out(op, std::get<I>(outs), std::get<I>(values), cast), ...);
  }
  (std::index_sequence_for<T...>{});
  return outs;
}
// Room for `bytes` behind a tensor. Memory that others share stays where it is: the tensor then
// gets memory of its own.
void grow_storage(Tensor& self, size_t bytes);
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
                  bool keepdim, DType dtype, const Scalar& p = {});
std::tuple<Tensor, Tensor> reduce_two(std::string_view op, ReduceOp body, const Tensor& self,
                                      const Dims& dims, bool keepdim, DType dtype, DType dtype2,
                                      const Scalar& p = {});

}  // namespace flambeau
