// Normalisation: layer and RMS norm over rows, batch norm over channels, group norm over groups of
// channels. Everything is contiguous. `param_dtype` is that of weight, bias, running statistics and
// their gradients: dtype, or Float32 beside a half dtype. Saved mean and rstd are Float32 (Float64
// for Float64). Weight, bias and every output may be null.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// y = (x - mean) * rstd * weight + bias with rstd = 1 / sqrt(var + eps) for every row; not
// `centered`, it is RMS norm: the mean is taken as zero and not written.
struct LayerNormArgs {
  DType dtype, param_dtype;
  int64_t rows, cols;
  bool centered = true;
  double eps;
  const void *x, *weight, *bias;
  void *y, *mean, *rstd;
};
FL_KERNEL(layer_norm_forward, void(const LayerNormArgs&));

struct LayerNormGrads {
  DType dtype, param_dtype;
  int64_t rows, cols;
  bool centered = true;
  const void *g, *x, *weight, *mean, *rstd;
  void *gx, *gw, *gb;
};
FL_KERNEL(layer_norm_backward, void(const LayerNormGrads&));

// x is [n][channels][spatial], or [n][spatial][channels] with `channels_last`.
struct BatchNormArgs {
  DType dtype, param_dtype;
  int64_t n, channels, spatial;
  bool channels_last = false;
  double eps, momentum = 0;
  const void *x, *weight, *bias;
  void* y;
  void *mean, *rstd;                 // those it used, written
  void *running_mean, *running_var;  // updated in training, where the variance is the unbiased one
};
FL_KERNEL(batch_norm_train, void(const BatchNormArgs&));
FL_KERNEL(batch_norm_eval, void(const BatchNormArgs&));

// Not in training (`train`), mean and rstd are constants.
struct BatchNormGrads {
  DType dtype, param_dtype;
  int64_t n, channels, spatial;
  bool channels_last = false, train = true;
  const void *g, *x, *weight, *mean, *rstd;
  void *gx, *gw, *gb;
};
FL_KERNEL(batch_norm_backward, void(const BatchNormGrads&));

// x is [n][groups][channels][spatial], with `channels` per group; mean and rstd are [n][groups].
struct GroupNormArgs {
  DType dtype, param_dtype;
  int64_t n, groups, channels, spatial;
  double eps;
  const void *x, *weight, *bias;
  void *y, *mean, *rstd;
};
FL_KERNEL(group_norm_forward, void(const GroupNormArgs&));

struct GroupNormGrads {
  DType dtype, param_dtype;
  int64_t n, groups, channels, spatial;
  const void *g, *x, *weight, *mean, *rstd;
  void *gx, *gw, *gb;
};
FL_KERNEL(group_norm_backward, void(const GroupNormGrads&));

}  // namespace flambeau
