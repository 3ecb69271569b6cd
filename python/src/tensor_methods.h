// The hand-written parts of the Tensor type, put together by tensor_type.cpp.
#pragma once
#include <vector>

#include "python/src/py.h"

namespace flambeau::python {

using Methods = std::vector<PyMethodDef>;
using Getters = std::vector<PyGetSetDef>;
using Slots = std::vector<PyType_Slot>;

void append_attributes(Getters& table);                  // attributes.cpp
void append_metadata_methods(Methods& table);            // metadata.cpp
void append_conversions(Methods& table, Slots& slots);   // conversions.cpp
void append_constructors(Methods& table, Slots& slots);  // tensor_new.cpp
void append_numpy(Methods& table, Slots& slots);         // numpy.cpp
void append_dlpack(Methods& table);                      // dlpack.cpp
void append_storage_methods(Methods& table);             // storage.cpp
void append_cast_methods(Methods& table);                // casts.cpp
void append_tape_methods(Methods& table);                // autograd_run.cpp
void append_hook_methods(Methods& table);                // autograd_hooks.cpp
void append_hook_attributes(Getters& table);             // autograd_hooks.cpp
void append_data_methods(Methods& table);                // construct.cpp

}  // namespace flambeau::python
