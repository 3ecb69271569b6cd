// A boxed argument and boxed results: one currency for the Python parser, recorders, transforms and
// the interpreter.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <tuple>

#include "flambeau/core/tensor.h"

namespace flambeau {

// Borrowed: whoever fills a Value keeps what it points at alive during the call.
struct Value {
  enum Kind : uint8_t {
    None,
    TensorRef,
    Number,
    Int,
    Bool,
    Double,
    IntRun,
    TensorRun,
    NumberRun,
    DoubleRun,
    BoolRun,
    Text,
    Type,
    Place,
    LayoutOf,
    Format,
    Random
  } kind = None;
  uint32_t count = 0;  // of the runs and of Text
  union {
    const Tensor* tensor;   // TensorRef (may be undefined), TensorRun
    const Scalar* scalar;   // Number, NumberRun
    int64_t integer;        // Int, Bool, Type, LayoutOf, Format
    double real;            // Double
    const int64_t* ints;    // IntRun, BoolRun
    const double* doubles;  // DoubleRun
    const char* text;
    Device device;         // Place
    Generator* generator;  // Random
  };
  Value() : integer(0) {}
};

// What a call gives back. Tensors are owned.
struct Returns {
  enum Kind : uint8_t {
    Nothing,
    One,
    Written,
    Tuple,
    List,
    Int,
    Bool,
    Double,
    Number,
    Type
  } kind = Nothing;
  uint8_t count = 0;
  const Tensor* written = nullptr;  // Written: an argument that the op changed and gave back
  union {
    std::array<Tensor, 6> tensors;  // One, Tuple: the first `count`, the others stay undefined
  };
  std::vector<Tensor> list;
  union {
    int64_t integer = 0;
    double real;
    Scalar scalar;
  };

  Returns() : tensors{} {}
  Returns(const Returns&) = delete;
  ~Returns() {
    for (int i = 0; i < count; i++) tensors[size_t(i)].~Tensor();
  }
};

// ---- C++ type <-> Value, one place for every function type ----
template <class T>
struct Boxed;
template <>
struct Boxed<const Tensor&> {
  static const Tensor& get(const Value& v) {
    static const Tensor none;
    return v.kind == Value::None ? none : *v.tensor;
  }
  static void set(Value& v, const Tensor& t) {
    v.kind = Value::TensorRef;
    v.tensor = &t;
  }
};
template <>
struct Boxed<Tensor&> {
  static Tensor& get(const Value& v) { return const_cast<Tensor&>(*v.tensor); }
  static void set(Value& v, const Tensor& t) {
    v.kind = Value::TensorRef;
    v.tensor = &t;
  }
};
template <>
struct Boxed<const Scalar&> {
  static const Scalar& get(const Value& v) { return *v.scalar; }
  static void set(Value& v, const Scalar& s) {
    v.kind = Value::Number;
    v.scalar = &s;
  }
};
template <>
struct Boxed<int64_t> {
  static int64_t get(const Value& v) { return v.integer; }
  static void set(Value& v, int64_t i) {
    v.kind = Value::Int;
    v.integer = i;
  }
};
template <>
struct Boxed<bool> {
  static bool get(const Value& v) { return v.integer != 0; }
  static void set(Value& v, bool b) {
    v.kind = Value::Bool;
    v.integer = b;
  }
};
template <>
struct Boxed<double> {
  static double get(const Value& v) { return v.kind == Value::Double ? v.real : double(v.integer); }
  static void set(Value& v, double d) {
    v.kind = Value::Double;
    v.real = d;
  }
};
template <>
struct Boxed<IntList> {
  static IntList get(const Value& v) { return {v.ints, v.count}; }
  static void set(Value& v, IntList l) {
    v.kind = Value::IntRun;
    v.ints = l.data();
    v.count = uint32_t(l.size());
  }
};
template <>
struct Boxed<TensorList> {
  static TensorList get(const Value& v) { return {v.tensor, v.count}; }
  static void set(Value& v, TensorList l) {
    v.kind = Value::TensorRun;
    v.tensor = l.data();
    v.count = uint32_t(l.size());
  }
};
template <>
struct Boxed<ScalarList> {
  static ScalarList get(const Value& v) { return {v.scalar, v.count}; }
  static void set(Value& v, ScalarList l) {
    v.kind = Value::NumberRun;
    v.scalar = l.data();
    v.count = uint32_t(l.size());
  }
};
template <>
struct Boxed<DoubleList> {
  static DoubleList get(const Value& v) { return {v.doubles, v.count}; }
  static void set(Value& v, DoubleList l) {
    v.kind = Value::DoubleRun;
    v.doubles = l.data();
    v.count = uint32_t(l.size());
  }
};
template <size_t N>
struct Boxed<std::array<bool, N>> {
  static std::array<bool, N> get(const Value& v) {
    std::array<bool, N> a{};
    for (size_t i = 0; i < N && i < v.count; i++) a[i] = v.ints[i] != 0;
    return a;
  }
  static void set(Value&, const std::array<bool, N>&) {}
};
template <>
struct Boxed<std::string_view> {
  static std::string_view get(const Value& v) { return {v.text, v.count}; }
  static void set(Value& v, std::string_view s) {
    v.kind = Value::Text;
    v.text = s.data();
    v.count = uint32_t(s.size());
  }
};
template <>
struct Boxed<DType> {
  static DType get(const Value& v) { return DType(v.integer); }
  static void set(Value& v, DType t) {
    v.kind = Value::Type;
    v.integer = int(t);
  }
};
template <>
struct Boxed<Layout> {
  static Layout get(const Value& v) { return Layout(v.integer); }
  static void set(Value& v, Layout l) {
    v.kind = Value::LayoutOf;
    v.integer = int(l);
  }
};
template <>
struct Boxed<MemoryFormat> {
  static MemoryFormat get(const Value& v) { return MemoryFormat(v.integer); }
  static void set(Value& v, MemoryFormat f) {
    v.kind = Value::Format;
    v.integer = int(f);
  }
};
template <>
struct Boxed<Device> {
  static Device get(const Value& v) { return v.device; }
  static void set(Value& v, Device d) {
    v.kind = Value::Place;
    v.device = d;
  }
};
template <>
struct Boxed<Generator*> {
  static Generator* get(const Value& v) { return v.kind == Value::None ? nullptr : v.generator; }
  static void set(Value& v, Generator* g) {
    if (g) v.kind = Value::Random;
    v.generator = g;
  }
};
template <>
struct Boxed<const std::optional<Scalar>&> {
  static std::optional<Scalar> get(const Value& v) {
    return v.kind == Value::None ? std::nullopt : std::optional(*v.scalar);
  }
  static void set(Value& v, const std::optional<Scalar>& o) {
    if (o) Boxed<const Scalar&>::set(v, *o);
  }
};
template <class T>
struct Boxed<std::optional<T>> {
  static std::optional<T> get(const Value& v) {
    return v.kind == Value::None ? std::nullopt : std::optional<T>(Boxed<T>::get(v));
  }
  static void set(Value& v, const std::optional<T>& o) {
    if (o) Boxed<T>::set(v, *o);
  }
};

inline void put(Returns& r, Tensor t) {
  r.kind = Returns::One;
  r.count = 1;
  r.tensors[0] = std::move(t);
}
inline void put(Returns& r, std::vector<Tensor> list) {
  r.kind = Returns::List;
  r.list = std::move(list);
}
inline void put(Returns& r, bool v) {
  r.kind = Returns::Bool;
  r.integer = v;
}
inline void put(Returns& r, int64_t v) {
  r.kind = Returns::Int;
  r.integer = v;
}
inline void put(Returns& r, double v) {
  r.kind = Returns::Double;
  r.real = v;
}
inline void put(Returns& r, const Scalar& v) {
  r.kind = Returns::Number;
  r.scalar = v;
}
inline void put(Returns& r, DType v) {
  r.kind = Returns::Type;
  r.integer = int(v);
}
template <class... T>
void put(Returns& r, std::tuple<T...> tuple) {
  r.kind = Returns::Tuple;
  std::apply([&](auto&... t) { ((r.tensors[r.count++] = std::move(t)), ...); }, tuple);
}

// The boxed call: one instance per function type, the function itself is data.
using Adapter = void (*)(void* function, const Value* arguments, Returns& results);
template <class R, class... A, size_t... I>
void call_boxed(void* function, const Value* v, Returns& r, std::index_sequence<I...>) {
  auto* f = reinterpret_cast<R (*)(A...)>(function);
  if constexpr (std::is_void_v<R>)
    f(Boxed<A>::get(v[I])...);
  else if constexpr (std::is_same_v<R, Tensor&>)
    r.kind = Returns::Written, r.written = &f(Boxed<A>::get(v[I])...);
  else
    put(r, f(Boxed<A>::get(v[I])...));
}
template <class F>
struct AdapterOf;
template <class R, class... A>
struct AdapterOf<R (*)(A...)> {
  static void call(void* function, const Value* v, Returns& r) {
    call_boxed<R, A...>(function, v, r, std::index_sequence_for<A...>{});
  }
};

}  // namespace flambeau
