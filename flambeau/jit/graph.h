// A recorded computation: the ops of a call in the order they ran, on numbered tensors and on ints
// that follow from their sizes. Text for people, and a replay on other inputs.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "flambeau/ops/op_info.h"

namespace flambeau::jit {

using Id = int32_t;  // of a tensor or a symbol; -1: none

// An int that a replay computes anew: a literal, a size (a: tensor, b: dim), or two symbols joined.
struct Symbol {
  enum Kind : uint8_t { Literal, Size, Add, Sub, Mul, FloorDiv, Mod } kind;
  int64_t a, b;
};

// The program asked `a <op> b` before step `before` and went on with the answer `taken`.
struct Guard {
  enum Kind : uint8_t { Eq, Lt, Le } kind;
  Id a, b;
  bool taken;
  size_t before;
};

// One argument of a step. Plain values stand in `value`; tensors are named, lists are owned.
struct Argument {
  Value value;
  std::vector<Id> tensors;
  std::vector<int64_t> ints;
  std::vector<Id>
      symbols;  // beside numbers, also those passed as tensors, and ints of lists; may be shorter
  std::vector<Scalar> scalars;
  std::vector<double> doubles;
  std::string text;
  Id symbol(size_t i) const { return i < symbols.size() ? symbols[i] : -1; }
};

struct Step {
  const OpInfo* op;
  std::vector<Argument> arguments;
  std::vector<Id> results;
  bool grad;                   // was the tape on?
  Id views = -1;               // whose memory the first result shares
  std::optional<Scalar> read;  // a number that the program took out: a replay must find the same
  std::vector<Id> unused;      // tensors that nobody needs after this step
};

// The number that a call gave back instead of tensors, if it did.
std::optional<Scalar> number_in(const Returns& results);

struct Graph {
  std::vector<Id> inputs, outputs, size_outputs;
  std::vector<std::string> kinds;                // of every tensor: "float32[2, 3]"
  std::vector<std::pair<Id, Tensor>> constants;  // tensors that were neither given nor computed
  std::vector<Symbol> symbols;
  std::vector<Guard> guards;
  std::vector<Step> steps;

  struct Results {
    std::vector<Tensor> tensors;
    std::vector<int64_t> sizes;
  };
  FL_API Results run(const std::vector<Tensor>& given) const;
  FL_API std::string text() const;
  // Notes where each tensor is used for the last time.
  void find_last_uses();
};

}  // namespace flambeau::jit
