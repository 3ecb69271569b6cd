// Python code that answers for ops below the tape: __torch_dispatch__ of modes and of classes.
#pragma once
#include "flambeau/ops/op_info.h"
#include "python/src/py.h"

namespace flambeau::python {

// A call with out= is no entry of the table: asks the innermost mode, false where there is none.
bool ask_dispatch_out(const OpInfo& op, const Value* outs, const Value* arguments,
                      Returns& results);
// A value that Python reads, as an op.
bool ask_dispatch_item(const Tensor& t, Scalar& value);
// An overload by its place in the table, called with these arguments and no other (parse.cpp).
PyObject* call_overload(size_t set, int overload, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames);
// Marks the tensor of an object whose class answers for its ops.
void note_class(PyObject* tensor);

}  // namespace flambeau::python
