// How many tensors one call may cut a tensor into.
#pragma once
#include <string_view>

#include "flambeau/core/check.h"

namespace flambeau::ops {

inline constexpr int64_t kMostParts = 1 << 24;  // beyond, the list alone would fill memory

inline void check_parts(std::string_view op, int64_t count) {
  FL_CHECK(count <= kMostParts, RuntimeError, "{}: at most {} parts can be made, got {}", op,
           kMostParts, count);
}

}  // namespace flambeau::ops
