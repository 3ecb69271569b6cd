// Tensors from the memory of a program.
#include "flambeau/ops/factories.h"

#include <cstring>

namespace flambeau::detail {

Tensor copied(const void* data, DType of, IntList sizes, DType dtype, Device device) {
  NoGradGuard no_grad;
  Tensor t = ops::empty(sizes, of, {}, Device{});
  if (t.numel()) std::memcpy(t->data, data, size_t(t.numel() * itemsize(of)));
  if (dtype != of) t = ops::to(t, dtype);
  return device == Device{} ? t : ops::to(t, device);
}

}  // namespace flambeau::detail
