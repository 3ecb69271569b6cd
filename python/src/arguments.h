// Arguments of hand-written functions: by position or keyword, in a fixed order.
#pragma once
#include <array>

#include "python/src/py.h"

namespace flambeau::python {

// Borrowed arguments by index of `names`; null where not given. Throws TypeError for surplus ones.
template <size_t N>
std::array<PyObject*, N> parse_arguments(const char* function, const char* const (&names)[N],
                                         PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                                         size_t positional = N) {
  std::array<PyObject*, N> found{};
  FL_CHECK(size_t(nargs) <= positional, TypeError, "{}: takes {} positional arguments, got {}",
           function, positional, int64_t(nargs));
  for (Py_ssize_t i = 0; i < nargs; i++) found[size_t(i)] = args[i];
  for (Py_ssize_t k = 0, n = kwnames ? PyTuple_Size(kwnames) : 0; k < n; k++) {
    std::string_view name = text_of(PyTuple_GetItem(kwnames, k));
    size_t i = 0;
    while (i < N && name != names[i]) i++;
    FL_CHECK(i < N, TypeError, "{}: has no argument '{}'", function, name);
    FL_CHECK(!found[i], TypeError, "{}: argument '{}' is given twice", function, name);
    found[i] = args[nargs + k];
  }
  return found;
}

inline bool given(PyObject* o) { return o && o != Py_None; }

inline bool bool_argument(const char* function, const char* name, PyObject* o, bool fallback) {
  if (!o) return fallback;
  FL_CHECK(PyBool_Check(o), TypeError, "{}: {} must be bool, got {}", function, name, type_name(o));
  return o == Py_True;
}

inline int64_t int_argument(const char* function, const char* name, PyObject* o, int64_t fallback) {
  if (!o) return fallback;
  FL_CHECK(PyLong_Check(o) && !PyBool_Check(o), TypeError, "{}: {} must be int, got {}", function,
           name, type_name(o));
  int64_t value = PyLong_AsLongLong(o);
  if (value == -1 && PyErr_Occurred()) throw ErrorSet{};
  return value;
}

}  // namespace flambeau::python
