// What a node saved, for who asks by name: x.grad_fn._saved_self.
#pragma once
#include "flambeau/ops/value.h"
#include "flambeau/tape/node.h"

namespace flambeau {

struct SavedVisitor {
  virtual bool wants(std::string_view name) const = 0;
  virtual void take(const Value& value) const = 0;

 protected:
  ~SavedVisitor() = default;
};

namespace detail {
// The boxed form of a node's field.
template <class T>
struct Shown {
  using type = T;
};
template <class T>
requires std::is_class_v<T>
struct Shown<T> {
  using type = const T&;
};
template <>
struct Shown<Device> {
  using type = Device;
};
template <>
struct Shown<Ints> {
  using type = IntList;
};
template <>
struct Shown<std::string> {
  using type = std::string_view;
};
template <>
struct Shown<std::vector<Tensor>> {
  using type = TensorList;
};
template <>
struct Shown<std::vector<Scalar>> {
  using type = ScalarList;
};
template <>
struct Shown<std::vector<double>> {
  using type = DoubleList;
};

template <class T>
void show(const SavedVisitor& visitor, const T& plain) {
  Value value;
  Boxed<typename Shown<T>::type>::set(value, plain);
  visitor.take(value);
}
template <class T>
void show(const SavedVisitor& visitor, const std::optional<T>& plain) {
  if (plain)
    show(visitor, *plain);
  else
    visitor.take(Value());
}
template <class T>
concept SavedSlot = requires(const T& slot, Node* node) {
  slot.get(node, "");
};
}  // namespace detail

// Shows a field of a node. A saved tensor raises as it would in the backward pass: the graph was
// freed, or somebody changed it. Lists that belong to lists of tensors have no boxed form.
template <class T>
void show(const SavedVisitor& visitor, Node* node, const char* name, const T& field) {
  if (!visitor.wants(name)) return;
  if constexpr (detail::SavedSlot<T>)
    detail::show(visitor, field.get(node, name));
  else if constexpr (!std::is_same_v<T, std::vector<Ints>> &&
                     !std::is_same_v<T, std::vector<DType>>)
    detail::show(visitor, field);
}

}  // namespace flambeau
