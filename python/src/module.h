// What each file adds to flambeau._C, called in this order by module.cpp.
#pragma once
#include "python/src/py.h"

namespace flambeau::python {

void init_errors(PyObject* module);
void init_dtypes(PyObject* module);
void init_devices(PyObject* module);
void init_size(PyObject* module);
void init_generator(PyObject* module);
void init_storage(PyObject* module);
void init_ops(PyObject* module);
void init_tensor(PyObject* module);
void init_torch_function(PyObject* module);
void init_parameter(PyObject* module);
void init_tape(PyObject* module);
void init_conversions(PyObject* module);
void init_arrays(PyObject* module);
void init_construct(PyObject* module);
void init_dlpack(PyObject* module);
void init_memory(PyObject* module);
void init_autocast(PyObject* module);
void init_modes(PyObject* module);
void init_grad_switch(PyObject* module);
void init_location(PyObject* module);
void init_autograd(PyObject* module);
void init_saved_hooks(PyObject* module);
void init_function(PyObject* module);
void init_forward(PyObject* module);
void init_vmap(PyObject* module);
void init_module_base(PyObject* module);
void init_optim(PyObject* module);
void init_recording(PyObject* module);
void init_dispatch(PyObject* module);
void init_overridable(PyObject* module);

}  // namespace flambeau::python
