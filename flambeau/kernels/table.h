// What a generated pointwise kernel looks like: one loop per compute type.
#pragma once
#include "flambeau/core/config.h"

namespace flambeau {

// The types that pointwise arithmetic is done in. Narrower ones are widened by tiles: integers up
// to 32 bits to Int32, half types to Float32; wrapping on the way back gives the same bits.
enum class Compute : uint8_t { Int32, Int64, UInt64, Float32, Float64, Complex64, Complex128 };
inline constexpr int kComputes = 7;

// `out` and `in` are contiguous runs of n elements of the compute type, `params` one number of it
// per scalar argument.
using PointwiseLoop = void(void* out, const void* const* in, int64_t n, const void* params);

// The same where all operands are of one half type, bfloat16 or float16, but for a bool result:
// widened and rounded in registers, without tiles. n is a multiple of kHalvesStep.
using HalvesLoop = void(void* out, const void* const* in, int64_t n, const void* params,
                        bool bfloat16);
inline constexpr int64_t kHalvesStep = 16;

struct PointwiseTable {
  PointwiseLoop* loops[kComputes];
  HalvesLoop* halves;     // null where tiles must do
  bool numeric, ordered;  // bools, complex numbers have no meaning
  bool divides, powers;   // integers do not take zero, a negative number as the second operand
};

}  // namespace flambeau
