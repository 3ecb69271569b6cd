// Copies with a change of type. The pointwise engine gathers, casts and scatters its tiles with
// them.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// dst[i] = to(src[i]) for n elements. Strides in BYTES; a source stride of 0 repeats one element.
// As torch: a complex source drops its imaginary part, anything to bool is != 0, floats are
// truncated towards zero and small integers wrap.
FL_KERNEL(cast_strided, void(DType from, DType to, const void* src, int64_t src_stride, void* dst,
                             int64_t dst_stride, int64_t n));

// n copies of the value (1, 2, 4, 8 or 16 bytes).
FL_KERNEL(fill_contiguous, void(int64_t itemsize, const void* value, void* dst, int64_t n));

}  // namespace flambeau
