// Numbers as C++ streams show them; the Python package aligns columns, this does not.
#include "flambeau/ops/print.h"

#include <ostream>

#include "flambeau/generated/ops.h"

namespace flambeau {
namespace {

constexpr int64_t kWhole = 1000;  // elements that are all shown
constexpr int64_t kEdge = 3;      // what is shown at either end of a dim otherwise

void put(std::ostream& out, const Scalar& value) {
  switch (value.kind()) {
    case Scalar::Kind::Bool:
      out << (value.to_bool() ? "true" : "false");
      break;
    case Scalar::Kind::Double:
      out << value.to_double();
      break;
    case Scalar::Kind::Complex:
      out << value.to_complex();
      break;
    default:
      out << value.to_int();
  }
}

void put(std::ostream& out, const Tensor& t, bool whole) {
  if (t.ndim() == 0) return put(out, t.item());
  out << '[';
  int64_t n = t.size(0);
  for (int64_t i = 0; i < n; i++) {
    if (i) out << ", ";
    if (!whole && n > 2 * kEdge && i == kEdge) {
      out << "..., ";
      i = n - kEdge;
    }
    put(out, ops::select(t, 0, i), whole);
  }
  out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (!t.defined()) return out << "tensor()";
  NoGradGuard no_grad;
  out << "tensor(";
  if (t.device().type == DeviceType::Meta)
    out << "...";
  else
    put(out, t, t.numel() <= kWhole);
  if (t.numel() == 0 || t.device().type == DeviceType::Meta) {
    out << ", size=(";
    for (int64_t d = 0; d < t.ndim(); d++) out << (d ? ", " : "") << t.size(d);
    out << ')';
  }
  bool plain = t.dtype() == DType::Float32 || t.dtype() == DType::Int64 || t.dtype() == DType::Bool;
  if (!plain) out << ", dtype=" << name(t.dtype());
  if (t.requires_grad()) out << ", requires_grad=true";
  return out << ')';
}

}  // namespace flambeau
