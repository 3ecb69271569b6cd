// Reductions on the CPU. What they are is said in kernels/reduce.h.
#pragma once
#include "flambeau/kernels/kernel.h"
#include "flambeau/kernels/reduce.h"

namespace flambeau {

// One output per (outer, inner); without elements the result is that of an empty reduction (0, 1,
// NaN ...).
FL_KERNEL(reduce, void(const ReduceArgs&));

// The dtype of `out` when x has this dtype, -1 where the reduction does not take it: cast x first.
// Half types may also be reduced into Float32.
FL_KERNEL(reduce_result, int(ReduceOp, DType));

}  // namespace flambeau
