// Parameter types of Tensor's methods, which the table generates: they take
// what a program writes.
#pragma once
#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "flambeau/core/device.h"
#include "flambeau/core/ints.h"
#include "flambeau/core/scalar.h"

namespace flambeau {

class Tensor;
class Generator;  // core/generator.h
using TensorList = std::span<const Tensor>;
using ScalarList = std::span<const Scalar>;
using DoubleList = std::span<const double>;

// Counts and dims, but no truth values.
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

// A list of ints, or one: x.sum(1), x.view({2, -1}). It lives as long as the
// call.
class IntArg {
 public:
  IntArg() = default;
  IntArg(Integer auto one) : one_(int64_t(one)), single_(true) {}
  IntArg(std::initializer_list<int64_t> list) : list_(list) {}
  IntArg(IntList list) : list_(list) {}
  IntArg(const Ints& list) : list_(list) {}
  IntArg(const std::vector<int64_t>& list) : list_(list) {}
  operator IntList() const { return single_ ? IntList(&one_, 1) : list_; }

 private:
  IntList list_;
  int64_t one_ = 0;
  bool single_ = false;
};

// The same where a list may be left out.
class OptionalIntArg : public IntArg {
 public:
  OptionalIntArg() = default;
  OptionalIntArg(std::nullopt_t) {}
  template <class T>
  requires std::constructible_from<IntArg, T> OptionalIntArg(const T& list)
      : IntArg(list), given_(true) {}
  OptionalIntArg(std::initializer_list<int64_t> list) : IntArg(list), given_(true) {}
  operator std::optional<IntList>() const {
    return given_ ? std::optional(IntList(*this)) : std::nullopt;
  }

 private:
  bool given_ = false;
};

// A bool and nothing that turns into one: x.std(1) is a dim.
class Flag {
 public:
  Flag(std::same_as<bool> auto on) : on_(on) {}
  operator bool() const { return on_; }

 private:
  bool on_;
};

}  // namespace flambeau
