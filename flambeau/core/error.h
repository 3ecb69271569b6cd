// The exception classes. Each becomes the Python exception of the same name (Error: RuntimeError).
#pragma once
#include <stdexcept>
#include <string>

#include "flambeau/core/config.h"

namespace flambeau {

// All with default visibility: an exception crosses from libflambeau into the program that uses it.
class FL_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class FL_API RuntimeError : public Error {
  using Error::Error;
};
class FL_API IndexError : public Error {
  using Error::Error;
};
class FL_API TypeError : public Error {
  using Error::Error;
};
class FL_API ValueError : public Error {
  using Error::Error;
};
class FL_API OverflowError : public Error {
  using Error::Error;
};
class FL_API NotImplementedError : public Error {
  using Error::Error;
};
class FL_API OutOfMemoryError : public Error {
  using Error::Error;
};
class FL_API LinAlgError : public Error {
  using Error::Error;
};

// A Python exception on its way through C++: the Python layer fills `state` and knows how to drop
// and restore it.
class FL_API PythonError : public Error {
 public:
  PythonError(std::string text, void* state) : Error(std::move(text)), state(state) {}
  void* state;
};

// Lines that are added to an error on its way out (Python: e.__notes__), such as the forward line
// of a failing node. An exception object is copied when thrown, so notes travel beside it, on the
// thread.
FL_API void add_error_note(std::string note);
FL_API std::string take_error_notes();  // joined by newlines; empties the list

}  // namespace flambeau
