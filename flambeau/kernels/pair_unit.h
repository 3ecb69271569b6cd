// Instructions that multiply pairs of bfloat16 and add in float: beyond x86-64-v4, so asked for
// apart from the level of a kernel.
#pragma once
#include "flambeau/core/config.h"

namespace flambeau {

enum class PairUnit : uint8_t {
  None,
  Vector,  // AVX512_BF16
  Tile,    // AMX
};

// What this processor has and the system lets us use.
FL_API PairUnit pair_unit();
// For tests: a lesser one. Returns the one in use before.
FL_API PairUnit set_pair_unit(PairUnit unit);

}  // namespace flambeau
