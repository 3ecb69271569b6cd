// Kernels that move elements to or from places named by index tensors. Indices are int64 and were
// checked with find_bad_index. What adds or reduces at such places is in scatter.h.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

inline constexpr int kIndexDims = 16;

// x[..., i, j, ...] over an iteration space that the dispatcher has broadcast and collapsed. `x`
// walks by x_strides along plain dims and by wrap(index[k]) * index_x_stride[k] for each of the
// indexed ones.
struct IndexArgs {
  int64_t itemsize;
  int ndim;  // 0 means one element
  int64_t sizes[kIndexDims];
  int64_t x_strides[kIndexDims];    // bytes; 0 along dims that only index tensors walk
  int64_t out_strides[kIndexDims];  // bytes
  int n_index;
  const int64_t* index[kIndexDims];
  int64_t index_strides[kIndexDims][kIndexDims];  // elements; [k][d]
  int64_t index_size[kIndexDims];                 // of the indexed dim: negatives wrap by it
  int64_t index_x_stride[kIndexDims];             // bytes
  void* x;
  void* out;  // the result of a get, the values of a set
};

// Position of the first index outside [low, high), or -1.
FL_KERNEL(find_bad_index, int64_t(const int64_t* index, int64_t n, int64_t low, int64_t high));

FL_KERNEL(index_get, void(const IndexArgs&));  // out[...] = x[index...]
FL_KERNEL(index_set,
          void(const IndexArgs&));  // x[index...] = out[...]; of equal places the last wins
FL_KERNEL(index_accumulate, void(DType, const IndexArgs&));  // x[index...] += out[...], in order

// x is [outer][x_size][inner], index [n], src and out [outer][n][inner], all contiguous.
struct RowsArgs {
  int64_t itemsize, outer, x_size, inner, n;
  const int64_t* index;
};
FL_KERNEL(index_select_rows, void(const RowsArgs&, const void* x, void* out));
FL_KERNEL(index_copy_rows, void(const RowsArgs&, void* x, const void* src));
FL_KERNEL(index_fill_rows, void(const RowsArgs&, void* x, const void* value));

// out[i] = x[index[i]] and x[index[i]] = src[i] with x flat and contiguous; negative indices count
// from `x_size`.
FL_KERNEL(take_items, void(int64_t itemsize, const void* x, int64_t x_size, const int64_t* index,
                           int64_t n, void* out));
FL_KERNEL(put_items, void(int64_t itemsize, void* x, int64_t x_size, const int64_t* index,
                          int64_t n, const void* src));
FL_KERNEL(put_add_items,
          void(DType, void* x, int64_t x_size, const int64_t* index, int64_t n, const void* src));

// Compaction cuts its input in blocks: a first pass counts per block, the caller allocates by the
// sum, a second pass writes each block at its place.
inline constexpr int64_t kCompactBlock = 16384;
// always_inline: an unoptimised build must not leave a copy that instruction sets would share.
[[gnu::always_inline]] constexpr int64_t compact_blocks(int64_t n) {
  return (n + kCompactBlock - 1) / kCompactBlock;
}

// counts[b] = nonzero elements of block b of contiguous x; returns their sum. A NaN is not zero.
FL_KERNEL(count_nonzero_blocks, int64_t(DType, const void* x, int64_t n, int64_t* counts));
// out[count][ndim]: the coordinates of the nonzero elements, in order. `counts` come from
// count_nonzero_blocks.
FL_KERNEL(nonzero_coords, void(DType, const void* x, int ndim, const int64_t* sizes,
                               const int64_t* counts, int64_t* out));
// out[k] = x[i] for the k-th true mask[i].
FL_KERNEL(masked_select_items, void(int64_t itemsize, const void* x, const uint8_t* mask, int64_t n,
                                    const int64_t* counts, void* out));
// x[i] = src[k] for the k-th true mask[i].
FL_KERNEL(masked_scatter_items, void(int64_t itemsize, void* x, const uint8_t* mask, int64_t n,
                                     const int64_t* counts, const void* src));

}  // namespace flambeau
