// The one dispatch point's slow path: recorders, autocast, profilers, transforms and Python modes
// live here.
#pragma once
#include "flambeau/core/tls.h"
#include "flambeau/ops/op_info.h"

namespace flambeau {

// One entry of the stack behind tls.levels. The innermost is asked first; `handle` returns false to
// let the call go on.
struct Level {
  Level* outer = nullptr;
  // Sees the outermost ops only (a composite's inner ops are muted) unless it wants them all.
  bool sees_inner = false;
  // While `handle` runs: the op's function, with ask_below() in the place of its kernel.
  void* below = nullptr;
  virtual ~Level() = default;
  virtual bool handle(const OpInfo& op, const Value* arguments, Returns& results) = 0;
};

// Pushes a level for the length of a scope.
class FL_API LevelScope {
 public:
  explicit LevelScope(Level& level);
  ~LevelScope();
  LevelScope(const LevelScope&) = delete;

 private:
  Level& level_;
};

// Answers for tensors with the flag kForeign; null until there are any.
FL_API extern Level* foreign_tensors;
inline bool is_foreign(const Tensor& t) { return t.defined() && t->flags & kForeign; }

// Counts and names the ops that a piece of code calls.
class FL_API OpCounter : public Level {
 public:
  bool handle(const OpInfo& op, const Value* arguments, Returns& results) override;
  const std::vector<const OpInfo*>& ops() const { return ops_; }

 private:
  std::vector<const OpInfo*> ops_;
};

// Is the slow path needed? One byte of the thread and one of each tensor.
inline bool slow_mode() { return FL_UNLIKELY(tls.mode); }
inline bool slow_mode(const Tensor& t) { return tls.mode | (t.defined() ? t->flags & kSlow : 0); }
inline bool slow_mode(TensorList list) {
  bool slow = tls.mode;
  for (const Tensor& t : list) slow |= slow_mode(t);
  return slow;
}
template <class... T>
requires(sizeof...(T) > 1) bool slow_mode(const T&... arguments) {
  return (slow_mode(arguments) | ...);
}

namespace detail {
FL_API bool ask_levels(const OpInfo& op, void* below, const Value* arguments, Returns& results);
FL_API void answer_below(Returns& results);
// Says what an op of this result type gives, the number of its tensors included.
template <class R>
void expect(Returns& r) {
  if constexpr (std::is_reference_v<R>)
    r.kind = Returns::Written;
  else
    put(r, R{});
}
template <>
inline void expect<void>(Returns&) {}
template <class R>
R take(Returns& r) {
  if constexpr (std::is_same_v<R, Tensor>)
    return std::move(r.tensors[0]);
  else if constexpr (std::is_same_v<R, std::vector<Tensor>>)
    return std::move(r.list);
  else if constexpr (std::is_same_v<R, bool>)
    return r.integer != 0;
  else if constexpr (std::is_same_v<R, int64_t>)
    return r.integer;
  else if constexpr (std::is_same_v<R, double>)
    return r.real;
  else if constexpr (std::is_same_v<R, Scalar>)
    return r.scalar;
  else if constexpr (std::is_same_v<R, DType>)
    return DType(r.integer);
  else
    return [&]<size_t... I>(std::index_sequence<I...>) { return R(std::move(r.tensors[I])...); }
  (std::make_index_sequence<std::tuple_size_v<R>>{});
}
}  // namespace detail

// What a level that answers below the tape gives where a kernel would have computed.
template <class R>
[[gnu::noinline, gnu::cold]] R ask_below() {
  Returns results;
  detail::expect<R>(results);
  detail::answer_below(results);
  if constexpr (!std::is_void_v<R>) return detail::take<R>(results);
}
// The same for an op that has written its first argument.
FL_API bool written_below();

// A body that rarely runs. Its only caller is marked, so the compiler leaves it small and spends
// what a file may grow by on the other one.
template <auto run>
struct Rare;
template <class R, class... A, R (*run)(A...)>
struct Rare<run> {
  [[gnu::noinline, gnu::cold]] static R call(A... arguments) {
    return run(std::forward<A>(arguments)...);
  }
};

// Boxes the arguments, asks the levels, and runs the op with them muted if none answered. In-place
// forms give back their first argument.
template <class R, class... A>
[[gnu::noinline, gnu::cold]] R slow_call(const OpInfo& op, R (*run)(A...),
                                         std::type_identity_t<R (*)(A...)> below,
                                         std::type_identity_t<A>... args) {
  Value values[sizeof...(A) + 1];
  int i = 0;
  ((Boxed<A>::set(values[i++], args)), ...);
  Returns results;
  if (detail::ask_levels(op, reinterpret_cast<void*>(below), values, results)) {
    if constexpr (std::is_reference_v<R>)
      return std::get<0>(std::tie(args...));
    else
      return detail::take<R>(results);
  }
  Restore<uint32_t> deeper(tls.depth, tls.depth + 1);
  return run(args...);
}

}  // namespace flambeau
