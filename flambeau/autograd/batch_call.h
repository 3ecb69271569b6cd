// What a batching rule works with: one call, its arguments as values of all examples, and the
// tables of rules. Inside a rule ops run on the levels outside of the map.
#pragma once
#include <deque>
#include <memory>
#include <unordered_map>

#include "flambeau/autograd/batch.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau {

class BatchCall {
 public:
  BatchCall(BatchLevel& level, const OpInfo& op, const Value* given, Returns& results);
  BatchCall(const BatchCall&) = delete;

  BatchLevel& level;
  const OpInfo& op;
  const Value* given;
  Returns& results;

  int64_t size() const { return level.size(); }
  int count() const { return op.param_count; }
  // The number of a parameter, -1 where there is none of this name.
  int find(std::string_view name) const;
  bool is_tensor(int i) const {
    return given[i].kind == Value::TensorRef && given[i].tensor->defined();
  }
  bool is_list(int i) const { return given[i].kind == Value::TensorRun; }
  // As the caller sees it: one example.
  const Tensor& tensor(int i) const { return Boxed<const Tensor&>::get(given[i]); }
  int64_t ndim(int i) const { return tensor(i).ndim(); }
  bool batched(int i) const { return is_tensor(i) && level.owns(tensor(i)); }
  bool any_batched() const;
  int64_t integer(int i) const { return given[i].integer; }
  IntList ints(int i) const { return {given[i].ints, given[i].count}; }
  const Scalar& number(int i) const { return *given[i].scalar; }

  // All values if batched, else the tensor itself.
  Tensor values(int i) const { return values(tensor(i)); }
  Tensor values(const Tensor& t) const { return level.owns(t) ? batch_values(t) : t; }
  // All values, expanded if not batched.
  Tensor full(int i) const { return full(tensor(i)); }
  Tensor full(const Tensor& t) const { return t.defined() ? level.values_of(t) : t; }
  // Values with dims of size 1 behind the batch dim, so that one example has `ndim` dims.
  Tensor padded(int i, int64_t ndim) const { return padded(tensor(i), ndim); }
  Tensor padded(const Tensor& t, int64_t ndim) const;

  // Changes the arguments of the call to come, which start as all values.
  void set(int i, Tensor t);
  void set(int i, Ints list);
  void set(int i, int64_t value);
  void set(int i, std::vector<Tensor> list);
  void set_full(int i) { set(i, full(i)); }
  void clear(int i) { values_[size_t(i)] = Value(); }
  void load();  // every tensor as its values
  // Calls the op, or another one with the same arguments.
  void run() { run(op); }
  void run(const OpInfo& other) { run(other, values_.data()); }
  void run(const OpInfo& other, const Value* arguments);
  Value& operator[](int i) { return values_[size_t(i)]; }

  void clear_results();
  void give(Tensor t) {
    clear_results();
    put(results, std::move(t));
  }
  // Calls f with this level seeing the ops: for rules that are made of ops on examples.
  template <class F>
  void give_from_examples(F f) {
    Restore<Level*> active(tls.levels, &level);
    give(f());
    finished = true;
  }
  bool finished = false;  // the results are those of one example already

 private:
  std::vector<Value> values_;
  std::deque<Tensor> tensors_;
  std::deque<std::vector<Tensor>> lists_;
  std::deque<Ints> ints_;
};

using BatchRule = void (*)(BatchCall&);
using BatchRules = std::unordered_map<std::string_view, BatchRule>;
inline void add_rules(BatchRules& rules, std::initializer_list<const char*> names, BatchRule rule) {
  for (const char* name : names) rules[name] = rule;
}
void add_shape_rules(BatchRules& rules);
void add_matrix_rules(BatchRules& rules);
void add_index_rules(BatchRules& rules);
void add_layer_rules(BatchRules& rules);
void add_random_rules(BatchRules& rules);
// Null: the op is taken apart if it is a composite, else it runs once per example.
BatchRule find_batch_rule(std::string_view name);

void pointwise_rule(BatchCall& c);  // operands broadcast, one example against the other
void dims_rule(BatchCall& c);       // numbers of dims shift by one; without any, all of an example
void same_rule(BatchCall& c);       // leading dims are free: the call as it is, on all values
void loop_rule(BatchCall& c);       // once per example, then stacked
bool draws_random(const BatchCall& c);
// What a random op does, decided before any rule. False: nothing special.
bool random_rule(BatchCall& c);

// (B, N, ...) <-> (B * N, ...)
Tensor folded(const Tensor& values);
Tensor unfolded(const Tensor& t, int64_t batch);
Ints with_first(int64_t first, IntList rest);

}  // namespace flambeau
