// Where the parser and the tensor's attributes meet a recording.
#pragma once
#include "python/src/parse.h"

namespace flambeau::python {

inline bool is_recording() { return FL_UNLIKELY(tls.mode & kModeRecord); }
// The sizes of a tensor as a Size of ints that know where they come from.
PyObject* recorded_shape(PyObject* tensor);
// The value of a tensor of one element; a recording takes note, for the program may act on it.
Scalar read_item(const Tensor& t);
// Throws while recording: many values would leave unseen.
void refuse_while_recording(const char* what);
// Tells the recording which ints of the object that a parameter of the next op was read from are
// such sizes; `passing` ops come before that one.
void note_sizes(int parameter, PyObject* object, int passing = 0);

}  // namespace flambeau::python
