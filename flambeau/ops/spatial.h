// Settings of convolutions, pooling and folding.
#pragma once
#include <algorithm>

#include "flambeau/core/ints.h"
#include "flambeau/core/saturate.h"

namespace flambeau {

// Settings stay below this, so that the product of two fits into 64 bits.
constexpr int64_t kMostSetting = int64_t{1} << 31;

// The setting of spatial dim d; a single one stands for all dims.
inline int64_t setting(IntList list, size_t d) { return list.size() == 1 ? list[0] : list[d]; }

// How far a window can move over `size` elements with padding on both sides; below 0 it does not
// fit. A size that no memory holds counts as 2^61, so that callers may add to the result.
inline int64_t window_room(int64_t size, int64_t kernel, int64_t pad, int64_t dilation) {
  constexpr int64_t kMostSize = int64_t{1} << 61;
  size = std::clamp(size, -kMostSize, kMostSize);
  return size + 2 * pad - dilation * (kernel - 1) - 1;
}

}  // namespace flambeau
