// The promotion table, built from categories rather than written out.
#include "flambeau/core/promote.h"

#include <atomic>

namespace flambeau {

namespace {

std::atomic<DType> default_float{DType::Float32};

int kind_rank(DType t) {
  switch (info(t).category) {
    case 'b':
      return 0;
    case 'u':
    case 'i':
      return 1;
    case 'f':
      return 2;
    default:
      return 3;
  }
}

DType promote_integers(DType a, DType b) {
  bool a_signed = info(a).category == 'i', b_signed = info(b).category == 'i';
  if (a_signed == b_signed) return itemsize(a) >= itemsize(b) ? a : b;
  DType s = a_signed ? a : b;  // the other is uint8, which only int8 is too narrow for
  return s == DType::Int8 ? DType::Int16 : s;
}

DType promote_floats(DType a, DType b) {
  if (is_half(a) && is_half(b)) return DType::Float32;
  return itemsize(a) >= itemsize(b) ? a : b;
}

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  FL_CHECK((!is_wide_unsigned(a) || is_float(b)) && (!is_wide_unsigned(b) || is_float(a)),
           RuntimeError,
           "promotion: {} and {} have no common type (uint16, uint32 and uint64 combine with "
           "themselves and with floating types only); convert one with .to()",
           a, b);
  int ra = kind_rank(a), rb = kind_rank(b);
  if (ra < rb) {
    std::swap(a, b);
    std::swap(ra, rb);
  }
  if (ra == 3) {
    if (rb == 3 || b == DType::Float64) {
      return a == DType::Complex128 || b == DType::Complex128 || b == DType::Float64
                 ? DType::Complex128
                 : DType::Complex64;
    }
    return a;
  }
  if (ra != rb) return a;
  return ra == 1 ? promote_integers(a, b) : promote_floats(a, b);
}

DType default_dtype() { return default_float.load(std::memory_order_relaxed); }

void set_default_dtype(DType dtype) {
  FL_CHECK(is_float(dtype), TypeError, "set_default_dtype: the dtype must be floating, got {}",
           dtype);
  default_float.store(dtype, std::memory_order_relaxed);
}

DType ResultType::number_dtype(const Scalar& s) {
  if (s.is_complex()) return default_complex();
  return s.is_float() ? default_dtype() : s.dtype();
}

DType ResultType::get() const {
  DType result{};
  bool has = false;
  // A complex number next to floats keeps their width: float64 becomes complex128. Otherwise a
  // lower category counts where it is of a higher kind.
  auto lower = [&](DType t, bool present) {
    if (!present || (has && is_complex(result))) return;
    if (has && is_float(result)) {
      bool wide = result == DType::Float64;
      if (is_complex(t)) result = wide ? DType::Complex128 : DType::Complex64;
    } else if (!has || is_inexact(t)) {
      result = t;
    } else if (result == DType::Bool) {
      result = promote_types(result, t);
    }
    has = true;
  };
  lower(dim_, has_dim_);
  lower(zero_, has_zero_);
  lower(number_, has_number_);
  return result;
}

bool can_cast(DType from, DType to) {
  return kind_rank(from) <= kind_rank(to);  // kinds may only grow: bool, integer, float, complex
}

}  // namespace flambeau
