// What the files of factories share: where a new tensor goes and what it is filled with.
#pragma once
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

// An uninitialised contiguous tensor; the defaults stand in for what the caller left out.
Tensor make_new(std::string_view op, IntList size, std::optional<DType> dtype,
                std::optional<Layout> layout, std::optional<Device> device);
// The device, checked to exist.
Device place_of(std::optional<Device> device);
void check_strided(std::string_view op, std::optional<Layout> layout);
Tensor filled(Tensor t, const Scalar& value);
// A Python number as a 0-d tensor that counts as a number in promotion.
Tensor number_tensor(const Scalar& value, Device device);

}  // namespace flambeau::ops
