// Per-thread work memory for kernels: packed panels, padded images. It grows, is reused, and goes
// with its thread.
#pragma once
#include "flambeau/core/config.h"

namespace flambeau {

// One block per purpose, so that nested kernels do not write over each other's panels.
enum class Scratch : uint8_t {
  GemmA,
  GemmB,
  GemmC,
  GemmColumn,
  GemmSums,
  Split,
  ConvInput,
  ConvWeight,
  ConvOutput,
  ConvTable,
  ConvPadded,
  Columns,
  Rows,
  RowParams,
  Scores,
  Panel,
  Reflectors,
  Matrix,
  Turns,
  FftLanes,
  FftGrid,
  FftLines,
  FftPadded,
};
inline constexpr int kScratchSlots = 23;

// At least `bytes` of 64-byte aligned memory, valid until this thread asks for the same slot again.
void* scratch(Scratch slot, size_t bytes);

}  // namespace flambeau
