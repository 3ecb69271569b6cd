// FL_CHECK for users' mistakes, FL_ASSERT for our own. Formatting is out of line: a check costs one
// branch.
#pragma once
#include <string>
#include <string_view>

#include "flambeau/core/device.h"
#include "flambeau/core/dtype.h"
#include "flambeau/core/error.h"
#include "flambeau/core/ints.h"
#include "flambeau/core/scalar.h"

namespace flambeau {

// One value for a `{}`: numbers, text, dtypes, devices, and lists of integers, shown like shapes:
// (3, 4).
class FormatArg {
 public:
  FormatArg(bool v) : kind_(kText), text_(v ? "True" : "False") {}
  template <class T>
  requires std::is_integral_v<T> FormatArg(T v)
      : kind_(std::is_signed_v<T> ? kInt : kUInt), int_(int64_t(v)) {}
  FormatArg(double v) : kind_(kDouble), double_(v) {}
  FormatArg(const char* v) : kind_(kText), text_(v) {}
  FormatArg(std::string_view v) : kind_(kText), text_(v) {}
  FormatArg(const std::string& v) : kind_(kText), text_(v) {}
  FormatArg(DType v) : kind_(kText), text_(name(v)) {}
  FormatArg(IntList v) : kind_(kInts), ints_(v) {}
  FormatArg(const Ints& v) : kind_(kInts), ints_(v) {}
  FormatArg(Device v) : kind_(kDevice), device_(v) {}
  FormatArg(const Scalar& v) : kind_(kScalar), scalar_(&v) {}
  FL_API void append_to(std::string& out) const;

 private:
  enum Kind : uint8_t { kInt, kUInt, kDouble, kText, kInts, kDevice, kScalar } kind_;
  union {
    int64_t int_;
    double double_;
    std::string_view text_;
    IntList ints_;
    Device device_;
    const Scalar* scalar_;
  };
};

FL_API std::string format_args(std::string_view pattern, const FormatArg* args, size_t count);

template <class... A>
std::string format(std::string_view pattern, const A&... args) {
  const FormatArg list[] = {FormatArg(args)..., FormatArg(0)};
  return format_args(pattern, list, sizeof...(args));
}

template <class E, class... A>
[[noreturn, gnu::noinline, gnu::cold]] void fail(std::string_view pattern, const A&... args) {
  throw E(format(pattern, args...));
}
[[noreturn]] FL_API void assertion_failed(const char* condition, const char* file, int line);

}  // namespace flambeau

#define FL_CHECK(condition, Exception, ...) \
  if (FL_UNLIKELY(!(condition))) ::flambeau::fail<::flambeau::Exception>(__VA_ARGS__)
#define FL_ASSERT(condition) \
  if (FL_UNLIKELY(!(condition))) ::flambeau::assertion_failed(#condition, __FILE__, __LINE__)
