// Settings of convolutions, pooling and folding.
#pragma once
#include "flambeau/core/ints.h"

namespace flambeau {

// Settings stay below this, so that the product of two fits into 64 bits.
constexpr int64_t kMostSetting = int64_t{1} << 31;

// The setting of spatial dim d; a single one stands for all dims.
inline int64_t setting(IntList list, size_t d) { return list.size() == 1 ? list[0] : list[d]; }

}  // namespace flambeau
