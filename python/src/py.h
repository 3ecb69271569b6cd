// CPython's limited API (3.11: one binary for every later version) and the helpers that every
// binding file uses: owned references, and exceptions crossing between the two languages.
#pragma once
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <structmember.h>

#include <string>
#include <string_view>
#include <utility>

#include "flambeau/core/check.h"

namespace flambeau::python {

// Thrown when a Python exception is already set.
struct ErrorSet {};

// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* steal) : p_(steal) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref(const Ref& o) : p_(o.p_) { Py_XINCREF(p_); }
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { Py_XDECREF(p_); }
  static Ref borrow(PyObject* o) {
    Py_XINCREF(o);
    return Ref(o);
  }
  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_; }

 private:
  PyObject* p_ = nullptr;
};

// Turns "null and an exception is set" into a C++ exception.
inline PyObject* checked(PyObject* o) {
  if (FL_UNLIKELY(!o)) throw ErrorSet{};
  return o;
}
inline void checked(int status) {
  if (FL_UNLIKELY(status < 0)) throw ErrorSet{};
}
inline Ref own(PyObject* o) { return Ref(checked(o)); }

// Call in a catch block: sets the Python exception that belongs to the C++ one, with its notes.
void translate() noexcept;
// Is this the text of the error that translate() set last?
bool is_library_error(std::string_view text);
// Carries the exception that is set through C++ code that knows nothing of Python.
[[noreturn]] void throw_python_error();

// Runs Python for C++ code that called back.
template <class F>
auto with_python_errors(F&& f) {
  try {
    return f();
  } catch (const ErrorSet&) {
    throw_python_error();
  }
}

template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    translate();
    return nullptr;
  }
}
template <class F>
int guarded_int(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    translate();
    return -1;
  }
}

// Text of a str; borrowed from the object.
inline std::string_view text_of(PyObject* o) {
  Py_ssize_t size;
  const char* text = PyUnicode_AsUTF8AndSize(o, &size);
  if (!text) throw ErrorSet{};
  return {text, size_t(size)};
}
inline PyObject* to_str(std::string_view text) {
  return checked(PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size())));
}
inline PyObject* to_bool(bool v) { return Py_NewRef(v ? Py_True : Py_False); }
// "int", "ndarray": the last part of the type's name.
std::string type_name(PyObject* o);
std::string repr_text(PyObject* o);
bool is_numpy(PyTypeObject* type);
// Attribute `name` of module `module`, imported when needed.
Ref import_from(const char* module, const char* name);

inline void add(PyObject* module, const char* name, PyObject* steal) {
  Ref value(checked(steal));
  checked(PyModule_AddObjectRef(module, name, value.get()));
}
inline PyTypeObject* make_type(PyType_Spec& spec, PyTypeObject* base = nullptr) {
  Ref bases;
  if (base) bases = own(PyTuple_Pack(1, base));
  return reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpecWithBases(&spec, bases.get())));
}
template <class F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}
using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
inline PyCFunction as_function(FastCall f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}
inline constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

}  // namespace flambeau::python
