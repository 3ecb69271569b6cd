// x.data and what it shares with set_, as_subclass and pickling: tensors that exchange their
// memory.
#pragma once
#include "flambeau/core/tensor.h"

namespace flambeau::python {

// The same memory without history and with a version counter of its own.
Tensor data_of(const Tensor& t);
// Gives `t` the memory, sizes, dtype and device of `source`; history and version stay its own.
void set_data(const Tensor& t, const Tensor& source);

}  // namespace flambeau::python
