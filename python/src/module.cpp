// The extension module flambeau._C.
#include "python/src/module.h"

namespace {

using namespace flambeau::python;

constexpr void (*kParts[])(PyObject*) = {
    init_errors,      init_dtypes,      init_devices,   init_size,           init_generator,
    init_storage,     init_ops,         init_tensor,    init_torch_function, init_parameter,
    init_conversions, init_arrays,      init_construct, init_tape,           init_modes,
    init_grad_switch, init_dlpack,      init_memory,    init_autocast,       init_location,
    init_autograd,    init_saved_hooks, init_function,  init_forward,        init_module_base,
    init_optim,       init_vmap,        init_recording, init_dispatch,       init_overridable};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "flambeau._C",
                          "The C++ half of flambeau.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__C() {
  return guarded([]() -> PyObject* {
    Ref module = own(PyModule_Create(&definition));
    for (auto part : kParts) part(module.get());
    return module.release();
  });
}
