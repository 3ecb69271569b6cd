// Unsigned keys whose order is that of the elements: -0 equals 0, every NaN is the same and the
// largest, as torch sorts. What sorts and selects works on keys, so few instances serve all real
// dtypes. Not for FL_ISA sources.
#pragma once
#include <limits>
#include <type_traits>

#include "flambeau/core/allocator.h"
#include "flambeau/core/dtype.h"

namespace flambeau::order {

// kInfinity: the bits of +infinity of a float format, 0 for integers.
template <class U, bool kSigned, U kInfinity = 0>
struct Format {
  using Key = U;
  static constexpr bool is_float = kInfinity != 0;
  static constexpr U kTop = U(U(1) << (8 * sizeof(U) - 1));
  static constexpr U kMax = U(~U(0));

  static U encode(U bits) {
    if constexpr (is_float) {
      U magnitude = U(bits & ~kTop);
      U sign_mask = U(std::make_signed_t<U>(bits) >> (8 * sizeof(U) - 1));
      U key = U(bits ^ U(sign_mask | kTop));
      key = magnitude == 0 ? kTop : key;
      return magnitude > kInfinity ? kMax : key;
    } else {
      return kSigned ? U(bits ^ kTop) : bits;
    }
  }

  // The bits of an element with this key; which -0 and which NaN it was is lost.
  static U decode(U key) {
    if constexpr (is_float) {
      return key & kTop ? U(key ^ kTop) : U(~key);
    } else {
      return kSigned ? U(key ^ kTop) : key;
    }
  }

  static bool is_nan(U key) { return is_float && key == kMax; }
  // Whether decode(encode(bits)) is not `bits`.
  static bool is_lossy(U bits) { return is_float && (bits == kTop || U(bits & ~kTop) > kInfinity); }
};

// Calls f(Format{}) for a real dtype.
template <class F>
auto with_format(DType t, const F& f) {
  switch (t) {
    case DType::Bool:
    case DType::UInt8:
      return f(Format<uint8_t, false>{});
    case DType::Int8:
      return f(Format<uint8_t, true>{});
    case DType::UInt16:
      return f(Format<uint16_t, false>{});
    case DType::Int16:
      return f(Format<uint16_t, true>{});
    case DType::UInt32:
      return f(Format<uint32_t, false>{});
    case DType::Int32:
      return f(Format<uint32_t, true>{});
    case DType::UInt64:
      return f(Format<uint64_t, false>{});
    case DType::Int64:
      return f(Format<uint64_t, true>{});
    case DType::Float16:
      return f(Format<uint16_t, true, 0x7c00>{});
    case DType::BFloat16:
      return f(Format<uint16_t, true, 0x7f80>{});
    case DType::Float32:
      return f(Format<uint32_t, true, 0x7f800000>{});
    case DType::Float64:
      return f(Format<uint64_t, true, 0x7ff0000000000000>{});
    default:
      __builtin_unreachable();  // complex numbers have no order: refused at the door
  }
}

// What is sorted: 32 bits of a key above a position, so that equal keys stay in order and words are
// distinct.
inline constexpr int64_t kMaxPositions = int64_t(1) << 32;
inline uint64_t make_word(uint64_t key, int64_t position) { return key << 32 | uint64_t(position); }
inline uint64_t key_of(uint64_t word) { return word >> 32; }
inline int64_t position_of(uint64_t word) { return int64_t(word & 0xffffffff); }

// Uninitialised memory of the allocator. Made before threads start: a chunk must not throw.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t count)
      : bytes_(size_t(count) * sizeof(T)),
        data_(static_cast<T*>(allocator(DeviceType::CPU).allocate(bytes_))) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { allocator(DeviceType::CPU).release(data_, bytes_); }
  T* get() const { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

// Sorts a[0, n) by the bits [low, high) of its words, at most 32 of them, stably; the result is in
// a or in b.
uint64_t* radix_sort(uint64_t* a, uint64_t* b, int64_t n, int low, int high);

// Throws where a row is too long for words.
void check_positions(int64_t cols);

// In how many groups rows are dealt to threads. A group has its own scratch.
int64_t group_count(int64_t rows, int64_t cols);

}  // namespace flambeau::order
