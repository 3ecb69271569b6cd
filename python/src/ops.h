// The generated ops as Python methods and functions (ops.cpp).
#pragma once
#include <string_view>
#include <unordered_set>
#include <vector>

#include "python/src/py.h"

namespace flambeau::python {

// A method definition for every op with the form `method` whose name is not in `taken`.
void append_op_methods(std::vector<PyMethodDef>& table,
                       const std::unordered_set<std::string_view>& taken);

// Where an op stands in all_ops().
size_t op_index(std::string_view name);

}  // namespace flambeau::python
