// What dropout's forward and backward share.
#pragma once
#include <optional>

#include "flambeau/core/dtype.h"

namespace flambeau {

// What dropout multiplies the kept elements by.
double native_dropout_scale(DType dtype, double p, std::optional<bool> train);

}  // namespace flambeau
