// How one kernel source, compiled once per instruction set, is chosen at run time.
//
//   header (kernels/cpu/softmax.h):   FL_KERNEL(softmax_rows, void(DType, const void*, void*,
//   int64_t, int64_t)); source (kernels/cpu/softmax.cpp): namespace flambeau::FL_ISA { void
//   softmax_rows(DType t, ...) { ... } } caller:                           softmax_rows(dtype, x,
//   y, rows, cols);
//
// The source is compiled with FL_ISA defined as each name of the list below; nothing is registered
// at start-up.
#pragma once
#include <type_traits>
#include <utility>

#include "flambeau/core/config.h"

namespace flambeau {

enum class Isa : uint8_t { v2, v3, v4 };  // x86-64-v2 (SSE4.2), v3 (AVX2 + FMA), v4 (AVX-512)
inline constexpr int kIsas = 3;

// The level in use: the best that this CPU has, or a lower one forced by FLAMBEAU_ISA=v2|v3|v4.
FL_API extern constinit Isa active_isa;
FL_API Isa detect_isa();

template <class Signature>
struct Kernel;
template <class R, class... A>
struct Kernel<R(A...)> {
  R (*variants[kIsas])(A...);
  R operator()(A... args) const { return variants[int(active_isa)](std::forward<A>(args)...); }
};

}  // namespace flambeau

#define FL_KERNEL(name, ...)                  \
  namespace v2 {                              \
  std::type_identity_t<__VA_ARGS__> name;     \
  }                                           \
  namespace v3 {                              \
  std::type_identity_t<__VA_ARGS__> name;     \
  }                                           \
  namespace v4 {                              \
  std::type_identity_t<__VA_ARGS__> name;     \
  }                                           \
  inline constexpr Kernel<__VA_ARGS__> name { \
    { v2::name, v3::name, v4::name }          \
  }
