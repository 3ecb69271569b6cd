// Where the parser and the tensor's attributes meet a recording.
#pragma once
#include "python/src/parse.h"

namespace flambeau::python {

inline bool is_recording() { return FL_UNLIKELY(tls.mode & kModeRecord); }
// The sizes of a tensor as a Size of ints that know where they come from.
PyObject* recorded_shape(PyObject* tensor);
// Tells the recording which ints among the arguments of a call are such sizes; `object(i)` is the
// Python object that parameter i was read from.
void note_sizes(int parameter, PyObject* object);

}  // namespace flambeau::python
