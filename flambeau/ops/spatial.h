// Settings of convolutions, pooling and folding.
#pragma once
#include "flambeau/core/ints.h"

namespace flambeau {

// The setting of spatial dim d; a single one stands for all dims.
inline int64_t setting(IntList list, size_t d) { return list.size() == 1 ? list[0] : list[d]; }

}  // namespace flambeau
