// Kernels that copy whole blocks: strided copies and transpositions, cat, roll, flip, tril / triu,
// padding. Sizes and strides are in elements; negative and zero source strides are welcome.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

inline constexpr int kCopyDims = 64;

// dst[i...] = src[i...] over `sizes` (ndim <= kCopyDims), in whatever order is fastest. src and dst
// do not overlap and no two places of dst are equal. Serves contiguous(), clone(), expand, repeat
// (source strides of 0), flip (negative ones, with src at the last element) and assignments to
// slices.
FL_KERNEL(copy_strided, void(int64_t itemsize, int ndim, const int64_t* sizes, const void* src,
                             const int64_t* src_strides, void* dst, const int64_t* dst_strides));

// dst[r, c] = src[c, r] for r < rows, c < cols; strides in BYTES, items are contiguous along r in
// src and along c in dst. For blocks of a few lines, which stay in L1.
FL_KERNEL(turn_block, void(int64_t itemsize, const void* src, int64_t src_stride, void* dst,
                           int64_t dst_stride, int64_t rows, int64_t cols));

// Row o of the result is the rows o of all pieces one after the other.
struct CatPiece {
  const void* data;
  int64_t bytes;       // of one row
  int64_t row_stride;  // bytes from a row to the next
};
FL_KERNEL(cat_rows, void(const CatPiece* pieces, int64_t count, int64_t rows, void* out));

// out[(i + shift) mod size ...] = x[i...] along every dim; both contiguous, ndim <= kCopyDims.
FL_KERNEL(roll_items, void(int64_t itemsize, int ndim, const int64_t* sizes, const int64_t* shifts,
                           const void* x, void* out));

// Keeps column c of row r where c - r <= diagonal (lower) or >= diagonal (upper); zero elsewhere. x
// may be out.
FL_KERNEL(tril_rows, void(int64_t itemsize, const void* x, void* out, int64_t batch, int64_t rows,
                          int64_t cols, int64_t diagonal));
FL_KERNEL(triu_rows, void(int64_t itemsize, const void* x, void* out, int64_t batch, int64_t rows,
                          int64_t cols, int64_t diagonal));

// out = value with x inside: x of `sizes` starts `before[d]` into `out_sizes` along every dim.
// Negative padding is a narrowed x (strides tell) before the call.
FL_KERNEL(pad_constant_rows, void(int64_t itemsize, int ndim, const int64_t* sizes, const void* x,
                                  const int64_t* x_strides, const int64_t* before,
                                  const int64_t* out_sizes, const void* value, void* out));

}  // namespace flambeau
