// Methods and attributes of Tensor that are written by hand: seen by modes and overriding classes
// once there are any. Until then they cost nothing, for the tables are changed only then.
#pragma once
#include <span>
#include <string_view>

#include "python/src/tensor_methods.h"

namespace flambeau::python {

// The tables of the type, which live as long as it does. Of the methods the first `written` are
// written by hand; those of ops ask by themselves.
void keep_tables(Methods& methods, size_t written, Getters& getters);
// Functions of modules that are no ops, by name.
void keep_functions(std::span<PyMethodDef> table, std::string_view names);
// From now on they ask modes and classes, and so do functions written in Python.
void activate_overrides();

}  // namespace flambeau::python
