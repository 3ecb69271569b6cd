// Forward mode: dual tensors carry a tangent, and ops on them carry it on. Every derivative comes
// from the op's backward: J t is the derivative of v -> v J along t, so no second set of formulas
// exists.
#pragma once
#include "flambeau/ops/slow.h"

namespace flambeau {

// What sees ops on dual tensors while it is on the stack of levels.
class FL_API DualLevel : public Level {
 public:
  bool handle(const OpInfo& op, const Value* arguments, Returns& results) override;
};

inline bool is_dual(const Tensor& t) { return t.defined() && t->flags & kDual; }
// A view of `primal` with a tangent.
FL_API Tensor make_dual(const Tensor& primal, const Tensor& tangent);
// The tensor without its tangent; the tangent, undefined where there is none.
FL_API Tensor primal_of(const Tensor& t);
FL_API Tensor tangent_of(const Tensor& t);

}  // namespace flambeau
