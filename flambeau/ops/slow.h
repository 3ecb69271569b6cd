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
FL_API bool ask_levels(const OpInfo& op, const Value* arguments, Returns& results);
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

// Boxes the arguments, asks the levels, and runs the op with them muted if none answered. In-place
// forms give back their first argument.
template <class R, class... A>
[[gnu::noinline, gnu::cold]] R slow_call(const OpInfo& op, R (*run)(A...),
                                         std::type_identity_t<A>... args) {
  Value values[sizeof...(A) + 1];
  int i = 0;
  ((Boxed<A>::set(values[i++], args)), ...);
  Returns results;
  if (detail::ask_levels(op, values, results)) {
    if constexpr (std::is_reference_v<R>)
      return std::get<0>(std::tie(args...));
    else
      return detail::take<R>(results);
  }
  Restore<uint32_t> deeper(tls.depth, tls.depth + 1);
  return run(args...);
}

}  // namespace flambeau
