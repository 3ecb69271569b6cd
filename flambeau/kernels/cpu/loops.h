// The loop of every generated pointwise kernel. The engine has gathered strides, broadcasts and
// casts: arrays are contiguous, in the type the arithmetic is done in. An output may be one of the
// inputs.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/cplx.h"
#include "flambeau/kernels/halves.h"
#include "flambeau/kernels/table.h"

namespace flambeau::FL_ISA {

// The register type for elements of type T; complex elements may be named Cplx<T> or
// std::complex<T>.
template <class T>
struct VecType {
  using type = Vec<T>;
};
template <class T>
struct VecType<Cplx<T>> {
  using type = Cplx<T>;
};
template <class T>
struct VecType<std::complex<T>> {
  using type = Cplx<T>;
};
template <class T>
using VecFor = typename VecType<T>::type;

// Stores the first n lanes of a result as elements of type Out: a mask as bytes 0 and 1, the real
// part of a complex result where Out is real, else the lanes as they are.
//
// Inlined always: GCC leaves no vzeroupper in a function that takes registers as arguments, and the
// SSE code that runs next would pay for it many times over.
template <class Out, class R>
[[gnu::always_inline]] inline void store_result(void* out, int64_t i, R x, int64_t n) {
  if constexpr (std::is_same_v<R, bool>) {
    static_cast<bool*>(out)[i] = x;
  } else if constexpr (std::is_same_v<Out, bool>) {
    bool* p = static_cast<bool*>(out) + i;
    if (FL_LIKELY(n == R::kLanes)) return x.store(p);
    x.store_partial(p, n);
  } else if constexpr (std::is_arithmetic_v<R>) {
    static_cast<Out*>(out)[i] = Out(x);
  } else if constexpr (R::kLanes == 1 && std::is_arithmetic_v<Out>) {
    static_cast<Out*>(out)[i] = Out(x.re);
  } else {
    auto* p = static_cast<typename R::Scalar*>(out) + i;
    if (FL_LIKELY(n == R::kLanes)) return x.store(p);
    x.store_partial(p, n);
  }
}

// Asks for the memory that a loop reads a kilobyte later. While a load waits, the arithmetic behind
// it fills the processor's window, so the loads beyond would be asked for too late: a fifth of the
// time of a formula of middle length. Inlined always: GCC takes a call that only does this for one
// without effect and drops it.
[[gnu::always_inline]] inline void fetch_ahead(const void* p) {
  __builtin_prefetch(static_cast<const char*>(p) + 1024);
}

// Full registers and the tail run the same code, so an element's bits do not depend on its place.
// `flatten` pulls the body and its math functions in: a call per register would spill every
// constant.
template <class V, int Inputs, int Params, class F>
[[gnu::always_inline]] inline void each_register(const void* const* in, int64_t n,
                                                 const void* params, const F& f) {
  using S = typename V::Scalar;
  V p[Params + 1];
  for (int k = 0; k < Params; ++k) p[k] = V(static_cast<const S*>(params)[k]);
  const S* source[Inputs + 1];
  for (int k = 0; k < Inputs; ++k) source[k] = static_cast<const S*>(in[k]);
  V x[Inputs + 1];
  for (int64_t i = 0; i < n; i += V::kLanes) {
    int64_t count = n - i;
    if (FL_LIKELY(count >= V::kLanes)) {
      count = V::kLanes;
#pragma GCC unroll 16
      for (int k = 0; k < Inputs; ++k) {
        if constexpr (V::kLanes > 1) fetch_ahead(source[k] + i);
        x[k] = V::load(source[k] + i);
      }
    } else {
#pragma GCC unroll 16
      for (int k = 0; k < Inputs; ++k) x[k] = V::load_partial(source[k] + i, count);
    }
    f(x, p, i, count);
  }
}

template <class Body, class T, class Out, int Inputs, int Params>
[[gnu::flatten, gnu::noinline]] void loop(void* out, const void* const* in, int64_t n,
                                          const void* params) {
  using V = VecFor<T>;
  each_register<V, Inputs, Params>(in, n, params,
                                   [out](const V* x, const V* p, int64_t i, int64_t count) {
                                     store_result<Out>(out, i, Body::call(x, p), count);
                                   });
}

// Loads, formula and stores of half types side by side: as passes over a tile they would wait for
// each other. One branch that always goes one way costs less than the code of a loop for each type.
template <class Body, int Inputs, int Params>
[[gnu::flatten, gnu::noinline]] void halves_loop(void* out, const void* const* in, int64_t n,
                                                 const void* params, bool bfloat16) {
  using V = Vec<float>;
  V p[Params + 1];
  for (int k = 0; k < Params; ++k) p[k] = V(static_cast<const float*>(params)[k]);
  const BFloat16* source[Inputs + 1];
  for (int k = 0; k < Inputs; ++k) source[k] = static_cast<const BFloat16*>(in[k]);
  V x[Inputs + 1];
  for (int64_t i = 0; i < n; i += V::kLanes) {
    for (int k = 0; k < Inputs; ++k) fetch_ahead(source[k] + i);
    if (bfloat16) {
#pragma GCC unroll 16
      for (int k = 0; k < Inputs; ++k) x[k] = load_wide(source[k] + i);
    } else {
#pragma GCC unroll 16
      for (int k = 0; k < Inputs; ++k)
        x[k] = load_wide(reinterpret_cast<const Half*>(source[k] + i));
    }
    auto y = Body::call(x, p);
    if constexpr (!std::is_same_v<decltype(y), V>) {
      y.store(static_cast<bool*>(out) + i);
    } else if (bfloat16) {
      store_narrow(static_cast<BFloat16*>(out) + i, y);
    } else {
      store_narrow(static_cast<Half*>(out) + i, y);
    }
  }
}

// The types that a formula makes sense for, and what it gives. Integers are bool, uint8 and the
// signed ones; uint16, uint32 and uint64 are for storage and have loops where torch has them.
// Numeric leaves bool out; ordered says that complex numbers are refused as unordered.
enum LoopTypes : unsigned {
  kInt = 1,
  kFloat = 2,
  kComplex = 4,
  kWide = 8,
  kNumeric = 16,
  kOrdered = 32,
  kDivides = 64,  // refuses integers divided by zero
  kPowers = 128   // and integers to a negative power
};
enum class Gives { Same, Bool, Real };

// Its loops, in the order of Compute (kernels/table.h).
template <class Body, int Inputs, int Params, unsigned types, Gives gives = Gives::Same>
consteval PointwiseTable loops_of() {
  auto one = []<unsigned kind, class T, class RealPart = T>()->PointwiseLoop* {
    using Real = std::conditional_t<gives == Gives::Real, RealPart, T>;
    using Out = std::conditional_t<gives == Gives::Bool, bool, Real>;
    if constexpr (kind & types)
      return &loop<Body, T, Out, Inputs, Params>;
    else
      return nullptr;
  };
  // Without instructions that convert float16 the loop would be long and no faster than tiles.
  HalvesLoop* halves = nullptr;
  if constexpr ((types & kFloat) && kVecBytes > 16) halves = &halves_loop<Body, Inputs, Params>;
  return {{one.template operator()<kInt, int32_t>(), one.template operator()<kInt, int64_t>(),
           one.template operator()<kWide, uint64_t>(), one.template operator()<kFloat, float>(),
           one.template operator()<kFloat, double>(),
           one.template operator()<kComplex, Cplx<float>, float>(),
           one.template operator()<kComplex, Cplx<double>, double>()},
          halves,
          (types & kNumeric) != 0,
          (types & kOrdered) != 0,
          (types & kDivides) != 0,
          (types & kPowers) != 0};
}

// For bodies that return a pair {a, b} of registers: frexp, fused backward formulas. `outs` points
// to two pointers.
template <class Body, class T, class Out, int Inputs, int Params, class Second = Out>
[[gnu::flatten, gnu::noinline]] void loop2(void* outs, const void* const* in, int64_t n,
                                           const void* params) {
  using V = VecFor<T>;
  void* const* out = static_cast<void* const*>(outs);
  each_register<V, Inputs, Params>(in, n, params,
                                   [out](const V* x, const V* p, int64_t i, int64_t count) {
                                     auto pair = Body::call(x, p);
                                     store_result<Out>(out[0], i, pair.a, count);
                                     store_result<Second>(out[1], i, pair.b, count);
                                   });
}

}  // namespace flambeau::FL_ISA
