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
// Under a sanitizer every block is the system's own, so that it sees each use after release.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kKeepBlocks = false;
#else
inline constexpr bool kKeepBlocks = true;
#endif
}  // namespace flambeau
