// Mapping over a batch: a batched tensor stands for one example and keeps the values of all of
// them, batch dim first, in another tensor. Ops on it run once, on those (docs/design/003-vmap.md).
#pragma once
#include "flambeau/ops/slow.h"
#include "flambeau/tape/node.h"

namespace flambeau {

struct BackwardCall;

// What ops that draw random numbers do inside a map.
enum class Randomness : uint8_t { Error, Different, Same };

// What sees ops on batched tensors while it is on the stack of levels.
class FL_API BatchLevel : public Level {
 public:
  BatchLevel(int64_t size, Randomness randomness);
  bool handle(const OpInfo& op, const Value* arguments, Returns& results) override;

  int64_t size() const { return size_; }
  Randomness randomness() const { return randomness_; }
  int16_t id() const { return id_; }
  bool owns(const Tensor& t) const;
  // The tensor that stands for one example of `values`, whose first dim is the batch.
  Tensor wrap(const Tensor& values) const;
  // The values of all examples; those of a tensor that is not batched here are expanded.
  Tensor values_of(const Tensor& t) const;
  // The levels outside of this one, which see what its rules call.
  Level* outside() const { return decomposing_ ? beyond_ : outer; }
  // Runs the op's own body with this level seeing the ops inside.
  void decompose(const OpInfo& op, const Value* arguments, Returns& results);

 private:
  bool pass_on(const OpInfo& op, const Value* arguments, Returns& results);
  void check_alive(const OpInfo& op, const Value* arguments) const;

  int64_t size_;
  Randomness randomness_;
  int16_t id_;
  bool decomposing_ = false;
  Level* beyond_ = nullptr;          // the outer levels, hidden from what is decomposed
  const OpInfo* passing_ = nullptr;  // this call is to run its own body
};

inline bool is_batched(const Tensor& t) { return t.defined() && t->flags & kBatched; }
// The values of a batched tensor, whatever its level.
FL_API const Tensor& batch_values(const Tensor& t);
// The innermost map that is running, or null.
FL_API BatchLevel* innermost_batch(Level* from);
// The tensor batched at every running level: each example gets its own copy to differentiate by.
FL_API Tensor batched_everywhere(const Tensor& t);
// Another tensor for the same values, without history: what alias is for tensors with memory.
FL_API Tensor detached(const Tensor& t);
// The tensor without any batch level: all values of a tensor that is batched several times.
FL_API const Tensor& unbatched(const Tensor& t);

// run_backward where roots or gradients are batched.
bool is_batched_call(const BackwardCall& call);
std::vector<Tensor> run_batched_backward(const BackwardCall& call);
std::vector<Tensor> run_plain_backward(const BackwardCall& call);  // nothing on the tape is

// How often an op had no rule and ran once per example, by name; for tests.
FL_API const std::vector<std::pair<std::string, int64_t>>& batch_loops();
FL_API void clear_batch_loops();
// Does an op of this name have a rule, or is it taken apart?
FL_API bool has_batch_rule(std::string_view name);

}  // namespace flambeau
