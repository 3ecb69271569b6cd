// std::cout << x: tensor([[1, 2], [3, 4]]), with dots in place of the middle of long dims.
#pragma once
#include <iosfwd>

#include "flambeau/core/tensor.h"

namespace flambeau {

FL_API std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace flambeau
