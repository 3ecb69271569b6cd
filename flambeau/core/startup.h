// What has to happen before the first kernel runs. The library has no static constructors: cold
// paths ask for it.
#pragma once
#include "flambeau/core/config.h"

namespace flambeau {

// Chooses the instruction set (kernels/kernel.h). Called by the allocator before it hands out its
// first block, hence before any kernel has memory to work on. Later calls cost one load. Throws
// ValueError when FLAMBEAU_ISA names no level or one that this CPU lacks.
FL_API void initialize_isa();

}  // namespace flambeau
