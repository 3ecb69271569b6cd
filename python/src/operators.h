// The number protocol of the Tensor type.
#pragma once
#include <vector>

#include "python/src/py.h"

namespace flambeau::python {

// Slots for every op of the table that has an operator.
void append_operator_slots(std::vector<PyType_Slot>& slots);

}  // namespace flambeau::python
