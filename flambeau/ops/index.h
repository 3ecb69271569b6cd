// x.index({0, Slice(1, 4), None, Ellipsis, mask}) and assignment to such a
// part, as Python writes x[0, 1:4, None, ..., mask].
#pragma once
#include <initializer_list>
#include <variant>

#include "flambeau/core/tensor.h"

namespace flambeau {

namespace indexing {
struct NoneType {};      // a new dim of size 1; in a slice: from the start, to the end
struct EllipsisType {};  // all dims that no other key takes
inline constexpr NoneType None;
inline constexpr EllipsisType Ellipsis;

struct Slice {
  using Bound = std::optional<int64_t>;
  struct End {  // an int, or None
    Bound at;
    End(Integer auto i) : at(int64_t(i)) {}
    End(NoneType) {}
  };
  Slice(End start = None, End stop = None, int64_t step = 1)
      : start(start.at), stop(stop.at), step(step) {}
  Bound start, stop;
  int64_t step;
};
}  // namespace indexing

// One key.
class TensorIndex {
 public:
  using Value =
      std::variant<indexing::NoneType, indexing::EllipsisType, int64_t, indexing::Slice, Tensor>;
  TensorIndex(Integer auto i) : value(int64_t(i)) {}
  TensorIndex(indexing::NoneType) {}
  TensorIndex(indexing::EllipsisType e) : value(e) {}
  TensorIndex(indexing::Slice slice) : value(slice) {}
  TensorIndex(Tensor index) : value(std::move(index)) {}  // int64 indices or a bool mask
  // "..." only.
  FL_API TensorIndex(const char* dots);
  Value value;
};

}  // namespace flambeau
