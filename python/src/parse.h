// Calling an op set with Python arguments: overload resolution, boxing, results.
#pragma once
#include <memory>

#include "python/src/signature.h"

namespace flambeau::python {

// Memory for the values of one call. What it holds lives until the call is over.
class Arena {
 public:
  Arena() {}  // not defaulted: the inline memory stays as it is
  Arena(const Arena&) = delete;
  ~Arena() {
    for (; held_; held_ = held_->next) Py_DECREF(held_->object);
  }
  template <class T>
  T* array(size_t count) {
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  // Keeps an object, an element of a list that somebody might change meanwhile.
  void hold(Ref o) {
    auto* held = array<Held>(1);
    *held = {o.release(), held_};
    held_ = held;
  }

 private:
  void* allocate(size_t bytes);
  alignas(16) char inline_[512];
  size_t used_ = 0;
  struct Held {
    PyObject* object;
    Held* next;
  };
  Held* held_ = nullptr;
  std::vector<std::unique_ptr<char[]>> blocks_;  // of long lists
};

// What a call consists of, and what was noticed while its arguments were read.
struct Call {
  PyObject* self;  // a method's object, else null
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;      // tuple or null; the values follow the positional ones in args
  bool numbers = false;   // second round: plain numbers stand for tensors
  bool subclass = false;  // an argument's class may override the call (__torch_function__)
  Arena& arena;
};

// Why an overload does not fit.
struct Mismatch {
  enum Kind : uint8_t { None, TooMany, Unexpected, Duplicate, Missing, Type } kind = None;
  int index = 0;               // of the parameter
  PyObject* object = nullptr;  // the argument, or the keyword
};

PyObject* call_set(const OpSet& op, size_t index, PyObject* self, PyObject* const* args,
                   Py_ssize_t nargs, PyObject* kwnames);
// The TypeError of a call that no overload takes.
[[noreturn]] void fail_to_resolve(const SignatureSet& set, const Call& call,
                                  const std::vector<Mismatch>& reasons);

// ---- parse_values.cpp: one argument ----
bool to_value(const BoundParam& param, PyObject* o, Value& v, Call& call);
// Loose ints, `count` of them, for a list of ints.
bool fold_ints(PyObject* const* items, Py_ssize_t count, Value& v, Call& call);
bool as_int(PyObject* o, int64_t& out);    // an int, NumPy integer or 0-d integer tensor; not bool
bool as_scalar(PyObject* o, Scalar& out);  // any number, or a 0-d tensor
// An exact or derived Python int; OverflowError beyond 64 bits.
Scalar int_scalar(PyObject* o);
PyObject* to_python(const Scalar& s);
const char* kind_text(const Param& param);  // "Tensor", "int", "tuple of ints"

// ---- results.cpp ----
PyObject* to_python(Returns& results, const OpInfo& op);
PyObject* return_type(const OpInfo& op);  // torch.return_types.max, made when first needed

// ---- torch_function.cpp ----
// Asks the classes that override torch's functions; null: none did, call the op.
PyObject* ask_overrides(const OpSet& op, const Call& call);
PyObject* ask_modes(const OpSet& op, const Call& call);
// Results of a call on a subclass that overrides nothing are of that class.
PyObject* as_subclass_results(PyObject* result, const Call& call);

}  // namespace flambeau::python
