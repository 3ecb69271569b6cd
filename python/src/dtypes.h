// Python objects for dtypes, layouts, memory formats and devices.
#pragma once
#include "flambeau/core/device.h"
#include "flambeau/core/dtype.h"
#include "python/src/py.h"

namespace flambeau::python {

// A dtype, layout or memory format: one object for each value, compared by identity. `code` counts
// past the C++ enum for names that torch has and this library has no kernels for (float8, ...).
struct PyConstant {
  PyObject_HEAD int code;
  const char* name;
};
struct PyDevice {
  PyObject_HEAD Device device;
};

extern PyTypeObject *dtype_type, *layout_type, *memory_format_type, *device_type;

inline int code_of(PyObject* constant) { return reinterpret_cast<PyConstant*>(constant)->code; }

// A dtype object, or one of Python's number types (float means float64); false: neither.
bool as_dtype(PyObject* o, DType& out);
bool as_layout(PyObject* o, Layout& out);
bool as_memory_format(PyObject* o, MemoryFormat& out);
// A device object, a text, or the index of an accelerator.
bool as_device(PyObject* o, Device& out);

PyObject* to_python(DType dtype);  // all new references
PyObject* to_python(Layout layout);
PyObject* to_python(MemoryFormat format);
PyObject* to_python(Device device);

}  // namespace flambeau::python
