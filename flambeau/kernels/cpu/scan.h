// Running sums, products and extremes along one dim.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

enum class ScanOp : int { CumSum, CumProd, CumMax, CumMin, LogCumSumExp };
inline constexpr int kScanOps = int(ScanOp::LogCumSumExp) + 1;

// x is [outer][n][inner] with strides in elements, out contiguous. CumMax and CumMin also write
// int64 indices to out2; of equal values the last one counts.
struct ScanArgs {
  ScanOp op;
  DType dtype;  // of x
  int64_t outer, n, inner;
  int64_t x_outer, x_n, x_inner;
  const void* x;
  void* out;  // in the dtype that scan_result says
  void* out2 = nullptr;
};
FL_KERNEL(scan, void(const ScanArgs&));

// The dtype of `out` when x has this dtype (integers and bool sum in Int64), -1 where the scan does
// not take it.
FL_KERNEL(scan_result, int(ScanOp, DType));

}  // namespace flambeau
