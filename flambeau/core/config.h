// Compiler facts that every file may need. Nothing else lives here.
#pragma once
#include <cstddef>
#include <cstdint>

#define FL_LIKELY(x) __builtin_expect(!!(x), 1)
#define FL_UNLIKELY(x) __builtin_expect(!!(x), 0)
// The library is built with hidden visibility: what a program may link against says so.
#define FL_API __attribute__((visibility("default")))

namespace flambeau {
inline constexpr size_t kCacheLine = 64;
}  // namespace flambeau
