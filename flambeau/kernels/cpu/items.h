// Elements as the kernels see them that only move data: items of 1, 2, 4, 8 or 16 bytes, and a few
// helpers. Only for FL_ISA sources.
#pragma once
#include <cstring>

#include "flambeau/core/threadpool.h"

namespace flambeau::FL_ISA {

// Two words, not __int128: complex128 data is aligned to 8 bytes only.
struct Item16 {
  uint64_t low, high;
};

template <class T>
inline T least(T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T most(T a, T b) {
  return a < b ? b : a;
}

// Calls f(T{}) with T an item type of `itemsize` bytes.
template <class F>
inline void with_item(int64_t itemsize, const F& f) {
  switch (itemsize) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(Item16{});
  }
}

// Wraps a negative index; the range was checked before.
inline int64_t wrap(int64_t index, int64_t size) { return index + (size & (index >> 63)); }

}  // namespace flambeau::FL_ISA
