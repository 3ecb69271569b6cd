// The pointwise engine: broadcasting, promotion, casts, strides and overlap checks of every
// elementwise op.
#pragma once
#include "flambeau/core/promote.h"
#include "flambeau/kernels/kernel.h"
#include "flambeau/kernels/table.h"

namespace flambeau {

enum class DTypeRule : uint8_t {
  Promote,  // the common type
  Float,    // the common type, integers become the default float
  Bool,     // computed in the common type, gives bool
  Same,     // the one type that the tensors have, but for the ignored ones
  Real,     // the common type, complex gives its real part's
  Number,   // the common type, bool becomes int64
};

struct PointwiseOp {
  const char* name;
  const char* arguments;  // names of the tensors, for errors
  uint8_t inputs, params;
  DTypeRule rule;
  uint8_t ignored;    // bit i: tensor i takes no part in promotion
  uint8_t promoting;  // bit i: number i does
  bool takes_bool;    // subtraction of bools has no meaning
  const PointwiseTable* tables[kIsas];
};

using Inputs = std::initializer_list<const Tensor*>;
using Numbers = std::initializer_list<Scalar>;

FL_API Tensor pointwise(const PointwiseOp& op, Inputs inputs, Numbers numbers);
// Writes into `self`, which may be among the inputs; its dtype must hold the result.
FL_API void pointwise_into(const PointwiseOp& op, const Tensor& self, Inputs inputs,
                           Numbers numbers);
// Writes into the user's `out`: resized if its shape differs, cast if that loses no kind.
FL_API Tensor& pointwise_out(const PointwiseOp& op, Tensor& out, Inputs inputs, Numbers numbers);

// Sizes that `inputs` broadcast to; an error names the op and all shapes.
FL_API Ints broadcast_sizes(std::string_view op, Inputs inputs);
// The device of tensors that are not all on one: an error, but for 0-d cpu tensors.
FL_API Device mixed_device(std::string_view op, Inputs inputs, std::string_view names);
// All on one device (0-d cpu tensors go everywhere). Returns it.
inline Device check_devices(std::string_view op, Inputs inputs, std::string_view names = {}) {
  bool same = inputs.size() && (*inputs.begin())->defined();
  Device device = same ? (*inputs.begin())->device() : Device{};
  for (const Tensor* t : inputs) same = same && (!t->defined() || t->device() == device);
  return FL_LIKELY(same) ? device : mixed_device(op, inputs, names);
}
// All on one device, whatever their dims: for kernels that read the tensors as they are.
FL_API Device one_device(std::string_view op, Inputs inputs);
// The same for a list, which must not be empty.
FL_API Device list_device(std::string_view op, TensorList tensors);
// dst[...] = src[...], broadcast and cast; no tape.
FL_API void copy_elements(const Tensor& dst, const Tensor& src);

}  // namespace flambeau
