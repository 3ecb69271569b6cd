// gather and scatter along a dim, with and without a reduction, and index_add / index_reduce. Every
// target's values are combined in index order, so results do not depend on threads.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/cpu/index.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// For sum, prod, max and min bool means or, and, or, and. NaN wins in max and min. Complex has sum
// and prod.
enum class Combine : uint8_t { Sum, Prod, Max, Min };

// The index tensor's shape is `sizes` (the dims other than `dim`, collapsed by the dispatcher) and
// `n` along `dim`; strides are in elements. Indices are not negative. For a gather `src` is the
// result and `x` the input.
struct DimArgs {
  int ndim;
  int64_t sizes[kIndexDims];
  int64_t x_strides[kIndexDims], index_strides[kIndexDims], src_strides[kIndexDims];
  int64_t n, x_size;  // of `dim` in the index tensor and in x
  int64_t x_stride, index_stride, src_stride;
  void* x;
  const int64_t* index;
  void* src;
};
FL_KERNEL(gather_dim, void(int64_t itemsize, const DimArgs&));  // src[i] = x[index[i]]
FL_KERNEL(scatter_dim,
          void(int64_t itemsize, const DimArgs&));  // x[index[i]] = src[i]; the last wins. Zero
                                                    // src strides scatter one value
FL_KERNEL(scatter_combine_dim,
          void(Combine, DType, const DimArgs&));  // x[index[i]] = op(x[index[i]], src[i])

// x[o][index[i]][:] = op(x[o][index[i]][:], src[o][i][:]), the forms index_add and index_reduce.
FL_KERNEL(index_combine_rows, void(Combine, DType, const RowsArgs&, void* x, const void* src));

// Divides by the counts of a mean, x[i] /= count[i] (none where a count is 0): exact division for
// floats, rounding down for integers. Both contiguous.
FL_KERNEL(divide_counts, void(DType, void* x, const int64_t* count, int64_t n));

}  // namespace flambeau
