// Sums and products of sizes that a program asks for. Those that leave int64 stop at its ends,
// where the limits on sizes refuse them; wrapped around they could pass for small ones.
#pragma once
#include <cstdint>
#include <limits>

namespace flambeau {

inline constexpr int64_t kMostInt = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kLeastInt = std::numeric_limits<int64_t>::min();

constexpr int64_t add_sat(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? kLeastInt : kMostInt) : sum;
}
constexpr int64_t neg_sat(int64_t a) { return a == kLeastInt ? kMostInt : -a; }
constexpr int64_t mul_sat(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? ((a < 0) != (b < 0) ? kLeastInt : kMostInt)
                                                : product;
}

}  // namespace flambeau
