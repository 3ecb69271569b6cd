// Tensors from Python data (construct.cpp).
#pragma once
#include <optional>

#include "flambeau/core/tensor.h"
#include "python/src/py.h"

namespace flambeau::python {

struct DataOptions {
  std::optional<DType> dtype = {};  // else what the values say
  std::optional<Device> device = {};
  bool copy = true;  // may the result share memory with an array or be a tensor itself?
};
// Numbers, nested sequences, arrays, tensors. `op` is named in messages.
Tensor tensor_from_data(const char* op, PyObject* data, const DataOptions& options);
// The default device of factories.
Device device_or_default(const std::optional<Device>& device);
Tensor moved(const Tensor& t, DType dtype, Device device);

}  // namespace flambeau::python
