// Every pair of element types: one loop over single elements, one over registers where both sides
// are contiguous.
#include "flambeau/kernels/cpu/cast.h"

#include "flambeau/kernels/cplx.h"
#include "flambeau/kernels/lanes.h"

namespace flambeau::FL_ISA {
namespace {

// The processor's own truncation: out of range gives the least integer, where a C++ cast is
// undefined.
int32_t truncate_to_32(float x) { return _mm_cvttss_si32(_mm_set_ss(x)); }
int32_t truncate_to_32(double x) { return _mm_cvttsd_si32(_mm_set_sd(x)); }
int64_t truncate_to_64(float x) { return _mm_cvttss_si64(_mm_set_ss(x)); }
int64_t truncate_to_64(double x) { return _mm_cvttsd_si64(_mm_set_sd(x)); }

template <class To, class From>
To float_to_integer(From x) {
  constexpr From kTwo63 = 9223372036854775808.0;
  if constexpr (std::is_same_v<To, uint64_t>) {
    if (x >= kTwo63) return uint64_t(truncate_to_64(x - kTwo63)) ^ (uint64_t(1) << 63);
    return uint64_t(truncate_to_64(x));
  } else if constexpr (sizeof(To) == 8 || std::is_same_v<To, uint32_t>) {
    return To(truncate_to_64(x));
  } else {
    return To(truncate_to_32(x));
  }
}

template <class To, class From>
To convert_one(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsCplx<From>) {
    if constexpr (std::is_same_v<To, bool>) {
      return x.re != 0 || x.im != 0;
    } else if constexpr (kIsCplx<To>) {
      return {typename To::Real(x.re), typename To::Real(x.im)};
    } else {
      return convert_one<To>(x.re);
    }
  } else if constexpr (kIsCplx<To>) {
    return {convert_one<typename To::Real>(x), 0};
  } else if constexpr (kIsHalf<From>) {
    return convert_one<To>(widen_one(x));
  } else if constexpr (kIsHalf<To>) {
    return narrow_one<To>(float(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    return float_to_integer<To>(x);
  } else {
    return To(x);
  }
}

// As many elements as a register holds floats, whatever their own size.
constexpr int kBlock = Vec<float>::kLanes;
template <class T>
using Block = Raw<T, kBlock>;

// Elements as lanes; bytes on their way to wider types as int32, since GCC 12 widens bytes one by
// one.
template <class From, class To>
auto load_block(const char* p) {
  if constexpr (kIsHalf<From>) {
    return Block<float>(load_wide(reinterpret_cast<const From*>(p)).v);
  } else if constexpr (sizeof(From) < 4 && (kIsHalf<To> || sizeof(To) >= 4)) {
    return Block<int32_t>(extend(reinterpret_cast<const From*>(p)));
  } else {
    Block<From> x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
}

template <class To, class Lanes>
void store_block(char* p, Lanes x) {
  using Lane = std::remove_cvref_t<decltype(x[0])>;
  constexpr bool from_float = kIsFloat<Lane>, to_float = kIsFloat<To>;
  if constexpr (std::is_same_v<To, bool>) {
    if constexpr (sizeof(Lane) == 4) {
      store_mask(reinterpret_cast<bool*>(p), x != 0);
    } else {
      Block<int8_t> answer = __builtin_convertvector(x != 0, Block<int8_t>) & 1;
      __builtin_memcpy(p, &answer, sizeof answer);
    }
  } else if constexpr (kIsHalf<To>) {
    store_narrow(reinterpret_cast<To*>(p), Vec<float>(__builtin_convertvector(x, Block<float>)));
  } else if constexpr (from_float && !to_float && sizeof(To) < 4) {
    store_block<To>(p, __builtin_convertvector(x, Block<int32_t>));
#if defined(__AVX512F__)
  } else if constexpr (sizeof(Lane) == 4 && sizeof(To) == 1) {
    Block<int8_t> y = narrow_bytes(Raw<int32_t>(x));
    __builtin_memcpy(p, &y, sizeof y);
#endif
  } else {
    auto y = __builtin_convertvector(x, Block<To>);
    __builtin_memcpy(p, &y, sizeof y);
  }
}

// Without AVX-512 no instruction converts floats to 64 bits in lanes, and unsigned results need two
// steps: single elements are faster then.
template <class To, class From>
constexpr bool blocks_pay() {
  if (kIsCplx<To> || kIsCplx<From>) return false;
  bool from_float = kIsFloat<From> || kIsHalf<From>;
  bool wide = std::is_same_v<To, uint32_t> || (!kIsFloat<To> && sizeof(To) == 8);
  if (from_float && wide) return kVecBytes == 64 && std::is_same_v<To, int64_t>;
  return true;
}

template <class To, class From>
void convert(const char* src, int64_t src_stride, char* dst, int64_t dst_stride, int64_t n) {
  int64_t i = 0;
  if constexpr (std::is_same_v<To, bool> && sizeof(From) == 8 && !kIsCplx<From>) {
    if (src_stride == sizeof(From) && dst_stride == sizeof(To)) {
      for (; i + Vec<From>::kLanes <= n; i += Vec<From>::kLanes) {
        (Vec<From>::load(reinterpret_cast<const From*>(src) + i) != 0)
            .store(reinterpret_cast<bool*>(dst) + i);
      }
      src += i * src_stride;
      dst += i * dst_stride;
    }
  } else if constexpr (blocks_pay<To, From>()) {
    if (src_stride == sizeof(From) && dst_stride == sizeof(To)) {
      for (; i + kBlock <= n; i += kBlock) {
        store_block<To>(dst + i * sizeof(To), load_block<From, To>(src + i * sizeof(From)));
      }
      src += i * src_stride;
      dst += i * dst_stride;
    }
  }
  for (; i < n; ++i, src += src_stride, dst += dst_stride) {
    From x;
    __builtin_memcpy(&x, src, sizeof x);
    To y = convert_one<To>(x);
    __builtin_memcpy(dst, &y, sizeof y);
  }
}

template <int Size>
struct Bytes {
  char bytes[Size];
};
template <>
struct Bytes<16> {
  uint64_t words[2];
};
template <int Size>
using Unit = std::conditional_t<
    Size == 1, uint8_t,
    std::conditional_t<Size == 2, uint16_t,
                       std::conditional_t<Size == 4, uint32_t,
                                          std::conditional_t<Size == 8, uint64_t, Bytes<16>>>>>;

template <int Size>
void fill(const void* value, void* dst, int64_t n) {
  constexpr int per_register = kVecBytes / Size;
  char* p = static_cast<char*>(dst);
  Raw<uint8_t> pattern;
  for (int i = 0; i < per_register; ++i) {
    __builtin_memcpy(reinterpret_cast<char*>(&pattern) + i * Size, value, Size);
  }
  int64_t i = 0;
  for (; i + per_register <= n; i += per_register) {
    __builtin_memcpy(p + i * Size, &pattern, kVecBytes);
  }
  for (; i < n; ++i) __builtin_memcpy(p + i * Size, value, Size);
}

// The same type on both sides: only the size of an element matters.
template <int Size>
void copy(const char* src, int64_t src_stride, char* dst, int64_t dst_stride, int64_t n) {
  if (dst_stride == Size) {
    if (src_stride == Size) {
      // Overlap is legal only as identity: a tile computed in place.
      if (src != dst) __builtin_memcpy(dst, src, size_t(n) * Size);
      return;
    }
    if (src_stride == 0) return fill<Size>(src, dst, n);
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < n; ++i, src += src_stride, dst += dst_stride) {
    Unit<Size> x;
    __builtin_memcpy(&x, src, Size);
    __builtin_memcpy(dst, &x, Size);
  }
}

using CastFn = void (*)(const char*, int64_t, char*, int64_t, int64_t);

template <class... T>
struct TypeList {};
using ElementTypes = TypeList<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t,
                              uint64_t, Half, BFloat16, float, double, Cplx<float>, Cplx<double>>;

// Types whose conversions have the same machine code share it: a bool is a byte, and the sign of an
// integer result does not matter unless the source is a float and the result wide.
template <class From>
using Source = std::conditional_t<std::is_same_v<From, bool>, uint8_t, From>;
template <class To, class From>
constexpr auto destination() {
  constexpr bool wraps = std::is_integral_v<To> && !std::is_same_v<To, bool> &&
                         (std::is_integral_v<From> || sizeof(To) < 4);
  if constexpr (wraps) {
    return std::make_signed_t<To>();
  } else {
    return To();
  }
}

template <class To, class From>
constexpr CastFn cast_function() {
  if constexpr (std::is_same_v<To, From>) {
    return copy<sizeof(To)>;
  } else {
    return convert<decltype(destination<To, From>()), Source<From>>;
  }
}

struct CastTable {
  CastFn functions[kDTypes][kDTypes];
};

template <class From, class... To>
constexpr void fill_row(CastFn* row, TypeList<To...>) {
  int i = 0;
  ((row[i++] = cast_function<To, From>()), ...);
}

template <class... From>
constexpr CastTable make_table(TypeList<From...> all) {
  CastTable table{};
  int i = 0;
  (fill_row<From>(table.functions[i++], all), ...);
  return table;
}

constexpr CastTable kCasts = make_table(ElementTypes());

}  // namespace

void cast_strided(DType from, DType to, const void* src, int64_t src_stride, void* dst,
                  int64_t dst_stride, int64_t n) {
  if (n <= 0) return;
  const char* s = static_cast<const char*>(src);
  char* d = static_cast<char*>(dst);
  if (src_stride == 0 && from != to && n > 1 && dst_stride == itemsize(to)) {
    kCasts.functions[int(from)][int(to)](s, 0, d, 0, 1);
    return fill_contiguous(itemsize(to), d, d, n);
  }
  kCasts.functions[int(from)][int(to)](s, src_stride, d, dst_stride, n);
}

void fill_contiguous(int64_t itemsize, const void* value, void* dst, int64_t n) {
  switch (itemsize) {
    case 1:
      return fill<1>(value, dst, n);
    case 2:
      return fill<2>(value, dst, n);
    case 4:
      return fill<4>(value, dst, n);
    case 8:
      return fill<8>(value, dst, n);
    default:
      return fill<16>(value, dst, n);
  }
}

}  // namespace flambeau::FL_ISA
