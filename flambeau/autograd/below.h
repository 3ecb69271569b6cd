// Levels that answer where a kernel would compute: below the tape, which records around the answer
// (docs/design/008-modes.md).
#pragma once
#include "flambeau/ops/slow.h"

namespace flambeau {

class FL_API BelowLevel : public Level {
 public:
  BelowLevel() { sees_inner = true; }
  bool handle(const OpInfo& op, const Value* arguments, Returns& results) override;
  // Gives what the op gives; `results` says how many tensors, or that the first argument is
  // written. The tape is off, and what is called goes to the levels outside of this one.
  virtual void answer(const OpInfo& op, const Value* arguments, Returns& results) = 0;

 private:
  bool is_split_up(const OpInfo& op, const Value* arguments) const;
  void record_composite(const OpInfo& op, const Value* arguments, Returns& results);
};

// Pushes such a level for the length of a scope; derivatives then call ops, not fused loops.
class FL_API BelowScope {
 public:
  explicit BelowScope(BelowLevel& level);
  ~BelowScope();
  BelowScope(const BelowScope&) = delete;

 private:
  bool outermost_;
  LevelScope scope_;
};

// Hides ops from all such levels of this thread for the length of a scope.
class FL_API Unseen {
 public:
  Unseen();

 private:
  Restore<bool> hidden_;
};

// Was the tape on where the answering level was asked?
FL_API bool recorded_outside();

// The innermost level of this kind, null where there is none.
FL_API BelowLevel* innermost_below();
// Asks it about a call that is no entry of the table (a value read, an op with out=): false where
// there is nobody to ask.
FL_API bool ask_innermost_below(const OpInfo& op, const Value* arguments, Returns& results);

}  // namespace flambeau
