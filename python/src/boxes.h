// Boxed arguments as Python objects: a call of an op as somebody who is asked about it sees it.
#pragma once
#include "flambeau/ops/op_info.h"
#include "python/src/py.h"

namespace flambeau::python {

PyObject* to_python(const Value& value, ArgKind kind);
// (args, kwargs). What equals its default is left out: positional arguments from the end,
// keyword-only ones wherever they stand.
std::pair<Ref, Ref> unboxed_call(const OpInfo& op, const Value* arguments);
// The tensors of out=: one, or a tuple.
Ref unboxed_outs(const Value* outs, int count);
// Where an entry of the table stands, -1 for others: op set, overload.
std::pair<int, int> place_of(const OpInfo& op);

}  // namespace flambeau::python
