// Type promotion: torch's rules, in one function for every op.
#pragma once
#include "flambeau/core/tensor.h"

namespace flambeau {

// The smallest type that both fit in, by torch's table; uint16 to uint64 combine with floats only.
FL_API DType promote_types(DType a, DType b);
// Types for storage: torch has hardly any arithmetic on them.
inline bool is_wide_unsigned(DType t) {
  return t == DType::UInt16 || t == DType::UInt32 || t == DType::UInt64;
}
FL_API DType default_dtype();
FL_API void set_default_dtype(DType dtype);
inline DType default_complex() {
  return default_dtype() == DType::Float64 ? DType::Complex128 : DType::Complex64;
}
// What a Python number of this kind counts as.
inline DType default_for(DType t) {
  return is_float(t) ? default_dtype() : is_complex(t) ? default_complex() : t;
}
// Integers and bool become the default float type.
inline DType to_inexact(DType t) { return is_inexact(t) ? t : default_dtype(); }

// Three categories: tensors with dims, 0-d tensors, numbers. A lower category counts only if its
// kind (bool < integer < float < complex) is higher than what the categories above gave.
class ResultType {
 public:
  void add(const Tensor& t) {
    if (t->is_number)
      merge(number_, has_number_, default_for(t.dtype()));
    else if (t->ndim)
      merge(dim_, has_dim_, t.dtype());
    else
      merge(zero_, has_zero_, t.dtype());
  }
  void add(const Scalar& s) { merge(number_, has_number_, number_dtype(s)); }
  FL_API DType get() const;

 private:
  FL_API static DType number_dtype(const Scalar& s);
  static void merge(DType& slot, bool& has, DType t) {
    slot = has ? promote_types(slot, t) : t;
    has = true;
  }
  DType dim_{}, zero_{}, number_{};
  bool has_dim_ = false, has_zero_ = false, has_number_ = false;
};

FL_API bool can_cast(DType from, DType to);

}  // namespace flambeau
