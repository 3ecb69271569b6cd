// Records what a piece of code does: a level of the dispatch point that notes every outermost op.
#pragma once
#include <unordered_map>

#include "flambeau/jit/graph.h"
#include "flambeau/ops/slow.h"

namespace flambeau::jit {

class FL_API Recorder : public Level {
 public:
  explicit Recorder(const std::vector<Tensor>& inputs);
  bool handle(const OpInfo& op, const Value* arguments, Returns& results) override;
  Graph finish(const std::vector<Tensor>& outputs, std::vector<Id> sizes);

  Id size_symbol(const Tensor& t, int64_t dim);
  Id add_symbol(Symbol symbol);
  void add_guard(Guard::Kind kind, Id a, Id b, bool taken);
  // Element `element` of argument `slot` of the next op, after `passing` others, is this symbol.
  void note(int slot, size_t element, Id symbol, int passing) {
    notes_.push_back({slot, element, symbol, passing});
  }

 private:
  struct Note {
    int slot;
    size_t element;
    Id symbol;
    int passing;
  };
  Id id_of(const Tensor& t);
  Id bind(const Tensor& t);
  Argument keep(const Value& v, int slot);
  void bind_results(Step& step, const Returns& results);

  Graph graph_;
  std::unordered_map<TensorImpl*, Id> ids_;
  std::unordered_map<Storage*, Id> memory_;  // of inputs and results: whose it was first
  std::vector<Tensor> alive_;                // so that no address stands for two tensors
  std::vector<Note> notes_;
};

}  // namespace flambeau::jit
