// Random bits to samples, where that is worth vector code. The draws themselves are in
// core/generator.h, the distributions in random.h. Results are the same on every instruction set.
#pragma once
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// [from, to): u * (to - from) + from in one rounding, u in [0, 1) with 24 bits of one word, or for
// doubles 53 bits of two.
FL_KERNEL(uniform_floats, void(const uint32_t* words, float* out, int64_t n, float from, float to));
FL_KERNEL(uniform_doubles,
          void(const uint32_t* words, double* out, int64_t n, double from, double to));
// Two words an element: `one` where their 53 bits are below the threshold, else 0. Elements have 1,
// 2, 4 or 8 bytes.
FL_KERNEL(bernoulli_words, void(const uint32_t* words, void* out, int64_t n, int64_t threshold,
                                uint64_t one, int bytes));
// Blocks of 16 uniform numbers to normal ones in place: numbers j and j + 8 make a pair (Box &
// Muller 1958).
FL_KERNEL(normal_blocks, void(float* data, int64_t blocks, float mean, float std));

}  // namespace flambeau
