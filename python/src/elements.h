// Single elements of a tensor's memory, read and written by the host.
#pragma once
#include "flambeau/core/tensor.h"

namespace flambeau::python {

Scalar load_element(const char* from, DType dtype);
// Converts as a C cast does; a float too large for an integer type has no defined value.
void store_element(char* to, DType dtype, const Scalar& value);
// A 0-d tensor on the CPU.
Tensor scalar_tensor(const Scalar& value, DType dtype);

// A number where an op wants a tensor: it promotes as a number.
Tensor number_tensor(const Scalar& value);

}  // namespace flambeau::python
