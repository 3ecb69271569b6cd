// What the files of losses share.
#pragma once
#include "flambeau/generated/ops.h"

namespace flambeau::ops {

// The losses themselves, their mean or their sum: reduction 0, 1 or 2.
Tensor reduced(std::string_view op, const Tensor& losses, int64_t reduction);

}  // namespace flambeau::ops
