// Initialisers. They draw from the default generator exactly as the Python ones
// do.
#pragma once
#include "flambeau/core/tensor.h"

namespace flambeau::nn::init {

// Draws from U(low, high).
FL_API const Tensor& uniform_(const Tensor& t, double low = 0, double high = 1);
FL_API const Tensor& normal_(const Tensor& t, double mean = 0, double std = 1);
FL_API const Tensor& constant_(const Tensor& t, double value);
inline const Tensor& zeros_(const Tensor& t) { return constant_(t, 0); }
inline const Tensor& ones_(const Tensor& t) { return constant_(t, 1); }
// U(-bound, bound), bound = gain * sqrt(3 / fan_in), gain = sqrt(2 / (1 + a^2))
// (He et al. 2015).
FL_API const Tensor& kaiming_uniform_(const Tensor& t, double a = 0);
// U(-bound, bound), bound = gain * sqrt(6 / (fan_in + fan_out)) (Glorot &
// Bengio 2010).
FL_API const Tensor& xavier_uniform_(const Tensor& t, double gain = 1);

// Inputs and outputs that one element of a weight of at least 2 dims joins.
struct Fans {
  int64_t in, out;
};
FL_API Fans fans_of(const Tensor& weight);

}  // namespace flambeau::nn::init
